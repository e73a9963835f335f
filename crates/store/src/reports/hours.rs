//! Counts by app, version and hour, of the last days.

use crate::{Result, TenantTx};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};

/// How long the counts of an hour are kept.
pub(super) const KEPT: Duration = Duration::days(14);

/// An app, a version and the beginning of an hour.
pub(super) type HourKey = (String, String, OffsetDateTime);

/// What an hour gains: reports, and those that the app did not survive.
#[derive(Clone, Copy, Default)]
pub(super) struct HourDelta {
    pub(super) reports: i64,
    pub(super) fatal: i64,
}

/// Adds to what hours count. Those that are not kept any more stay as they are.
pub(super) async fn write(tx: &mut TenantTx, mut deltas: BTreeMap<HourKey, HourDelta>) -> Result<()> {
    let oldest = tx.now() - KEPT;
    deltas.retain(|(.., hour), delta| *hour >= oldest && (delta.reports, delta.fatal) != (0, 0));
    if deltas.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = deltas.keys().map(|key| key.0.clone()).collect();
    let versions: Vec<String> = deltas.keys().map(|key| key.1.clone()).collect();
    let hours: Vec<OffsetDateTime> = deltas.keys().map(|key| key.2).collect();
    let reports: Vec<i64> = deltas.values().map(|delta| delta.reports).collect();
    let fatal: Vec<i64> = deltas.values().map(|delta| delta.fatal).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO app_hours AS h (tenant, app, version, hour, reports, fatal)
           SELECT $1, n.app, n.version, n.hour, n.reports, n.fatal
           FROM unnest($2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::bigint[])
                AS n (app, version, hour, reports, fatal)
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.hour
           ON CONFLICT (tenant, app, version, hour) DO UPDATE
           SET reports = h.reports + EXCLUDED.reports, fatal = h.fatal + EXCLUDED.fatal"#,
        tenant,
        &apps,
        &versions,
        &hours,
        &reports,
        &fatal
    )
    .execute(&mut *connection)
    .await?;
    if reports.iter().any(|reports| *reports < 0) {
        sqlx::query!(
            "DELETE FROM app_hours h USING unnest($2::text[], $3::text[], $4::timestamptz[]) AS n (app, version, hour)
             WHERE h.tenant = $1 AND h.app = n.app AND h.version = n.version AND h.hour = n.hour AND h.reports <= 0",
            tenant,
            &apps,
            &versions,
            &hours
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}
