//! Devices that a version has crashed on, each counted on the day of its first report.

use super::days::RollupDay;
use super::{Counted, utc_day};
use crate::reports::Change;
use crate::reports::rows::{device_bytes, truncate_name};
use crate::{Result, TenantTx, json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::Date;

/// Counts new reports by device. Returns the devices that their version had not crashed on before.
pub(super) async fn count_devices(
    tx: &mut TenantTx,
    changes: &[Change<'_>],
) -> Result<BTreeMap<RollupDay, i64>> {
    let mut rows: BTreeMap<(String, String, Vec<u8>), (Date, i64)> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.previous.is_none()) {
        let (facts, day) = (&change.arrival.facts, utc_day(change.key.received_at));
        let Some(device) = device_bytes(facts) else { continue };
        let key = (truncate_name(&facts.app), truncate_name(&facts.version), device.to_vec());
        let (first, reports) = rows.entry(key).or_insert((day, 0));
        *first = day.min(*first);
        *reports += 1;
    }
    let mut counts = BTreeMap::new();
    if rows.is_empty() {
        return Ok(counts);
    }
    let rows = rows.iter().map(|((app, version, device), (day, reports))| {
        json!({
            "app": app,
            "version": version,
            "device": json::format_bytes(device),
            "day": day.to_string(),
            "reports": reports,
        })
    });
    let (connection, tenant, _) = tx.parts();
    // A row that this statement made has no transaction that changed or locked it.
    let counted = sqlx::query!(
        r#"INSERT INTO app_devices AS d (tenant, app, version, device, day, reports)
           SELECT $1, n.app, n.version, n.device, n.day, n.reports
           FROM jsonb_populate_recordset(NULL::app_devices, $2) AS n
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.device
           ON CONFLICT (tenant, app, version, device) DO UPDATE SET reports = d.reports + EXCLUDED.reports
           RETURNING app, version, day, (xmax = 0) AS "new!""#,
        tenant,
        rows.collect::<Value>()
    )
    .fetch_all(connection)
    .await?;
    for row in counted.into_iter().filter(|row| row.new) {
        *counts.entry((row.app, row.version, row.day)).or_insert(0) += 1;
    }
    Ok(counts)
}

/// Returns the day that the device was counted on, if this was its last report.
pub(super) async fn forget_device(tx: &mut TenantTx, report: &Counted) -> Result<Option<Date>> {
    let Some(device) = &report.made_on.device else { return Ok(None) };
    let (connection, tenant, _) = tx.parts();
    let left = sqlx::query_scalar!(
        r#"UPDATE app_devices SET reports = reports - 1 WHERE tenant = $1 AND app = $2 AND version = $3 AND device = $4
         RETURNING reports"#,
        tenant,
        report.app,
        report.version,
        device
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(..=0) = left else { return Ok(None) };
    Ok(sqlx::query_scalar!(
        "DELETE FROM app_devices WHERE tenant = $1 AND app = $2 AND version = $3 AND device = $4 RETURNING day",
        tenant,
        report.app,
        report.version,
        device
    )
    .fetch_optional(connection)
    .await?)
}
