//! How often a report came again.

use crate::number::to_row32;
use crate::{Result, TenantTx};
use time::OffsetDateTime;
use unslide_model::ReportId;

/// Further arrivals of a report, each another input record with the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// How many.
    pub count: u64,
    /// When the last one came.
    pub last: Option<OffsetDateTime>,
}

/// Returns how often a report came again.
pub async fn count_duplicates(tx: &mut TenantTx, report_id: ReportId, variant: u32) -> Result<Duplicates> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT count(*) AS "count!", max(seen_at) AS last FROM report_duplicates
           WHERE tenant = $1 AND report_id = $2 AND variant = $3"#,
        tenant,
        report_id.uuid(),
        to_row32(variant)
    )
    .fetch_one(connection)
    .await?;
    Ok(Duplicates { count: u64::try_from(row.count).unwrap_or_default(), last: row.last })
}
