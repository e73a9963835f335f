//! Variants of a group: the different stacks of its reports.

use crate::column::ReportIdColumn;
use crate::report_rows::{GroupRows, read_group_sample};
use crate::{Result, TenantTx};
use serde::Serialize;
use sqlx::FromRow;
use time::OffsetDateTime;
use unslide_model::ReportId;
use utoipa::ToSchema;

/// Reports that are looked at, the newest first.
const VARIANT_REPORTS_LIMIT: i64 = 200;
/// Variants that are returned, the most frequent first.
const MOST_VARIANTS: i64 = 10;

/// Reports of a group with the same innermost functions.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize, ToSchema)]
pub struct GroupVariant {
    /// The innermost functions of the crashed thread, the innermost first, at most 10; the image in place of a function
    /// without a name. Empty for reports without a stack.
    #[schema(max_items = 10)]
    pub functions: Vec<String>,
    /// Number of these reports.
    pub reports: i64,
    /// When the newest of them arrived (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// The app's version in the newest of them; empty if it names none.
    pub last_version: String,
    /// Id of the newest of them.
    #[schema(value_type = Uuid)]
    #[sqlx(try_from = "ReportIdColumn")]
    pub report_id: ReportId,
    /// Which report with that id it is.
    pub variant: i32,
}

/// Lists the variants of the newest reports of these groups.
pub(super) async fn list_variants(tx: &mut TenantTx, groups: &GroupRows) -> Result<Vec<GroupVariant>> {
    let columns = "r.version, r.summary -> 'top_frames' AS frames";
    read_group_sample(tx, groups, columns, VARIANT_REPORTS_LIMIT, &|query| {
        query.push(format!(
            "SELECT s.functions, count(*) AS reports, max(s.received_at) AS last_seen,
                    (array_agg(s.version ORDER BY s.received_at DESC, s.report_id DESC, s.variant DESC))[1] AS last_version,
                    (array_agg(s.report_id ORDER BY s.received_at DESC, s.report_id DESC, s.variant DESC))[1] AS report_id,
                    (array_agg(s.variant ORDER BY s.received_at DESC, s.report_id DESC, s.variant DESC))[1] AS variant
             FROM (SELECT n.*, ARRAY(
                       SELECT coalesce(nullif(f.frame ->> 'function', ''), f.frame ->> 'image', '')
                       FROM jsonb_array_elements(CASE jsonb_typeof(n.frames) WHEN 'array' THEN n.frames ELSE '[]' END)
                            WITH ORDINALITY AS f (frame, place) ORDER BY f.place) AS functions
                   FROM newest n) s
             GROUP BY s.functions ORDER BY 2 DESC, 3 DESC, s.functions LIMIT {MOST_VARIANTS}"
        ));
    })
    .await
}
