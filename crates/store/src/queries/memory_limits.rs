//! How much memory an app may have, by device model and system version, as its reports say.

use crate::{Result, TenantTx};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// Reports that are looked at, the newest first of those that say a limit.
pub const MOST_REPORTS: i64 = 1_000;
/// Devices with a system version that are answered, those of the most reports first.
const MOST_LIMITS: i64 = 200;

/// The memory that an app may have on one device model with one system version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryLimit {
    /// The device model; empty for reports that name none.
    #[schema(example = "iPhone16,1")]
    pub model: String,
    /// The system's version; empty for reports that name none.
    #[schema(example = "18.3.1")]
    pub os_version: String,
    /// How many reports say it.
    pub reports: i64,
    /// The lowest limit, in bytes.
    pub lowest: i64,
    /// The median, in bytes.
    pub median: i64,
    /// The highest limit, in bytes.
    pub highest: i64,
    /// When the newest of the reports came.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
}

/// The limits that the newest reports of an app say.
pub async fn of_app(tx: &mut TenantTx, app: &str) -> Result<Vec<MemoryLimit>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        MemoryLimit,
        r#"WITH newest AS (
               SELECT r.model, r.os_version, r.received_at, r.summary -> 'memory_limit' AS bytes
               FROM reports r WHERE r.tenant = $1 AND r.app = $2 AND r.summary ? 'memory_limit'
               ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3)
           SELECT coalesce(model, '') AS "model!", coalesce(os_version, '') AS "os_version!",
                  count(*) AS "reports!", min(bytes::bigint) AS "lowest!",
                  percentile_disc(0.5) WITHIN GROUP (ORDER BY bytes::bigint) AS "median!",
                  max(bytes::bigint) AS "highest!", max(received_at) AS "last_seen!"
           FROM newest WHERE jsonb_typeof(bytes) = 'number'
           GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT $4"#,
        tenant,
        app.replace('\0', ""),
        MOST_REPORTS,
        MOST_LIMITS
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}
