//! The apps that sessions and metrics came from.

use unslide_store::{Result, TenantTx};

/// Rows of sessions, and of metrics, that [`measured_apps`] reads: the newest.
const MOST_MEASURED_ROWS: i64 = 5_000;
const MOST_MEASURED: i64 = 50;

/// Returns apps that sessions or metrics came from of late, by name; with `only` that app alone.
pub async fn measured_apps(tx: &mut TenantTx, only: Option<&str>) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT app AS "app!" FROM (
               (SELECT app FROM session_days WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
                ORDER BY day DESC, app DESC, version DESC LIMIT $3)
               UNION
               (SELECT app FROM metric_versions WHERE tenant = $1 AND ($2::text IS NULL OR app = $2)
                ORDER BY day DESC, app DESC, version DESC LIMIT $3)) m
           ORDER BY app LIMIT $4"#,
        tenant,
        only,
        MOST_MEASURED_ROWS,
        MOST_MEASURED
    )
    .fetch_all(connection)
    .await?)
}
