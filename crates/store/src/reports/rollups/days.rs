//! Counts by app, version and day.

use super::CountedReport;
use crate::{Result, TenantTx};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::Date;

/// An app, a version and a day.
pub(super) type RollupDay = (String, String, Date);

/// Counts to add to a day.
#[derive(Clone, Copy, Default)]
pub(super) struct RollupDelta {
    reports: i64,
    fatal: i64,
    pub(super) devices: i64,
    frames_total: i64,
    frames_symbolicated: i64,
    frames_own: i64,
    frames_own_symbolicated: i64,
    complete: i64,
    partial: i64,
    none: i64,
    extrapolated: i64,
}

impl RollupDelta {
    /// Counts a report, or takes it back.
    pub(super) fn add_report(&mut self, report: &CountedReport<'_>) {
        let times = report.sign * report.weight;
        self.reports += times;
        self.extrapolated += times - report.sign;
        self.fatal += times * i64::from(report.fatal);
        self.frames_total += times * i64::from(report.frames.total);
        self.frames_symbolicated += times * i64::from(report.frames.symbolicated);
        self.frames_own += times * i64::from(report.frames.own);
        self.frames_own_symbolicated += times * i64::from(report.frames.own_symbolicated);
        match report.status {
            "complete" => self.complete += times,
            "partial" => self.partial += times,
            _ => self.none += times,
        }
    }
}

/// Adds to what days count. Returns how many were not there.
pub(super) async fn write_days(tx: &mut TenantTx, deltas: BTreeMap<RollupDay, RollupDelta>) -> Result<u64> {
    if deltas.is_empty() {
        return Ok(0);
    }
    let rows = deltas.iter().map(|((app, version, day), delta)| {
        json!({
            "app": app,
            "version": version,
            "day": day.to_string(),
            "reports": delta.reports,
            "fatal": delta.fatal,
            "devices": delta.devices,
            "frames_total": delta.frames_total,
            "frames_symbolicated": delta.frames_symbolicated,
            "frames_own": delta.frames_own,
            "frames_own_symbolicated": delta.frames_own_symbolicated,
            "complete": delta.complete,
            "partial": delta.partial,
            "none": delta.none,
            "extrapolated": delta.extrapolated,
        })
    });
    let (connection, tenant, _) = tx.parts();
    // A row that this statement made has no transaction that changed or locked it.
    let written = sqlx::query_scalar!(
        "INSERT INTO app_days AS d (tenant, app, version, day, reports, fatal, devices, frames_total,
                                    frames_symbolicated, frames_own, frames_own_symbolicated, complete, partial, none,
                                    extrapolated)
         SELECT $1, n.app, n.version, n.day, n.reports, n.fatal, n.devices, n.frames_total, n.frames_symbolicated,
                n.frames_own, n.frames_own_symbolicated, n.complete, n.partial, n.none, n.extrapolated
         FROM jsonb_populate_recordset(NULL::app_days, $2) AS n
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.day
         ON CONFLICT (tenant, app, version, day) DO UPDATE
         SET reports = d.reports + EXCLUDED.reports, fatal = d.fatal + EXCLUDED.fatal,
             devices = d.devices + EXCLUDED.devices,
             frames_total = d.frames_total + EXCLUDED.frames_total,
             frames_symbolicated = d.frames_symbolicated + EXCLUDED.frames_symbolicated,
             frames_own = d.frames_own + EXCLUDED.frames_own,
             frames_own_symbolicated = d.frames_own_symbolicated + EXCLUDED.frames_own_symbolicated,
             complete = d.complete + EXCLUDED.complete, partial = d.partial + EXCLUDED.partial,
             none = d.none + EXCLUDED.none, extrapolated = d.extrapolated + EXCLUDED.extrapolated
         RETURNING (xmax = 0) AS \"new!\"",
        tenant,
        rows.collect::<Value>()
    )
    .fetch_all(connection)
    .await?;
    Ok(written.into_iter().filter(|new| *new).count() as u64)
}
