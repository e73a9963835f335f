//! Counts by app, version and hour, of the last days.

use crate::{Result, TenantTx, json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};

/// How long the counts of an hour are kept.
pub(crate) const HOUR_COUNTS_RETENTION: Duration = Duration::days(14);

/// An app, a version and the beginning of an hour.
pub(super) type HourKey = (String, String, OffsetDateTime);

/// Counts to add to an hour: reports, and those that the app did not survive.
#[derive(Clone, Copy, Default)]
pub(super) struct HourDelta {
    pub(super) reports: i64,
    pub(super) fatal: i64,
}

/// Adds to what hours count. Hours that are not kept any more do not change.
pub(super) async fn write_hours(tx: &mut TenantTx, mut deltas: BTreeMap<HourKey, HourDelta>) -> Result<()> {
    let oldest = tx.now() - HOUR_COUNTS_RETENTION;
    deltas.retain(|(.., hour), delta| *hour >= oldest && (delta.reports, delta.fatal) != (0, 0));
    if deltas.is_empty() {
        return Ok(());
    }
    let any_less = deltas.values().any(|delta| delta.reports < 0);
    let rows = deltas.into_iter().map(|((app, version, hour), delta)| {
        json!({
            "app": app,
            "version": version,
            "hour": json::format_time(hour),
            "reports": delta.reports,
            "fatal": delta.fatal,
        })
    });
    let rows = rows.collect::<Value>();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO app_hours AS h (tenant, app, version, hour, reports, fatal)
           SELECT $1, n.app, n.version, n.hour, n.reports, n.fatal
           FROM jsonb_populate_recordset(NULL::app_hours, $2) AS n
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.hour
           ON CONFLICT (tenant, app, version, hour) DO UPDATE
           SET reports = h.reports + EXCLUDED.reports, fatal = h.fatal + EXCLUDED.fatal"#,
        tenant,
        rows
    )
    .execute(&mut *connection)
    .await?;
    if any_less {
        sqlx::query!(
            "DELETE FROM app_hours h USING jsonb_populate_recordset(NULL::app_hours, $2) AS n
             WHERE h.tenant = $1 AND h.app = n.app AND h.version = n.version AND h.hour = n.hour AND h.reports <= 0",
            tenant,
            rows
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}
