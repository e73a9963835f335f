//! Counts by app, version and day, kept in step with the reports.

use super::rows::{GroupTexts, MadeOn, device, name};
use super::{Change, FrameTotals};
use crate::number::to_row;
use crate::{Result, TenantTx, Uuid};
use sqlx::FromRow;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};

type DayKey = (String, String, Date);

#[derive(Clone, Copy, Default)]
struct Delta {
    reports: i64,
    devices: i64,
    frames_total: i64,
    frames_symbolicated: i64,
    complete: i64,
    partial: i64,
    none: i64,
}

impl Delta {
    fn add(&mut self, status: &str, frames: &FrameTotals, sign: i64) {
        self.reports += sign;
        self.frames_total += sign * i64::from(frames.total);
        self.frames_symbolicated += sign * i64::from(frames.symbolicated);
        match status {
            "complete" => self.complete += sign,
            "partial" => self.partial += sign,
            _ => self.none += sign,
        }
    }
}

/// The day of a roll-up.
pub(super) fn day(at: OffsetDateTime) -> Date {
    at.to_offset(time::UtcOffset::UTC).date()
}

/// Adds what is new, and takes back what a new revision replaces.
pub(super) async fn record(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let mut deltas: BTreeMap<DayKey, Delta> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.counts()) {
        let (facts, day) = (&change.arrival.facts, day(change.key.received_at));
        if let Some(previous) = &change.previous {
            let key = (previous.app.clone(), previous.version.clone(), day);
            deltas.entry(key).or_default().add(&previous.status, &previous.frames, -1);
        }
        let key = (name(&facts.app), name(&facts.version), day);
        deltas.entry(key).or_default().add(&facts.status, &facts.frames, 1);
    }
    for ((app, version, day), devices) in devices(tx, changes).await? {
        deltas.entry((app, version, day)).or_default().devices += devices;
    }
    write(tx, deltas).await?;
    wanted_images(tx, changes).await
}

/// What a report was counted for.
#[derive(FromRow)]
pub(super) struct Counted {
    pub(super) app: String,
    pub(super) version: String,
    pub(super) received_at: OffsetDateTime,
    pub(super) status: String,
    #[sqlx(flatten)]
    pub(super) frames: FrameTotals,
    #[sqlx(flatten)]
    pub(super) made_on: MadeOn,
    pub(super) wanted: Vec<Uuid>,
    #[sqlx(rename = "group_id")]
    pub(super) group: Option<Uuid>,
    #[sqlx(flatten)]
    pub(super) texts: GroupTexts,
}

/// Takes a report out of the counts: its version's, its device where no other report of the
/// version is of that, and the images that it came without symbols for. In the order of [`record`].
pub(super) async fn take_back(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let key = |day| (report.app.clone(), report.version.clone(), day);
    let mut deltas: BTreeMap<DayKey, Delta> = BTreeMap::new();
    if let Some(day) = forget_device(tx, report).await? {
        deltas.entry(key(day)).or_default().devices -= 1;
    }
    deltas.entry(key(day(report.received_at))).or_default().add(&report.status, &report.frames, -1);
    write(tx, deltas).await?;
    want_less(tx, report).await
}

/// Gives the day that the device was counted on, where this was its last report.
async fn forget_device(tx: &mut TenantTx, report: &Counted) -> Result<Option<Date>> {
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

/// Takes a report out of the counts of its images; one that no other report wants is forgotten.
async fn want_less(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE wanted_images w SET reports = w.reports - 1
         FROM (SELECT debug_id FROM wanted_images
               WHERE tenant = $1 AND app = $2 AND version = $3 AND debug_id = ANY ($4) ORDER BY debug_id FOR UPDATE) l
         WHERE w.tenant = $1 AND w.app = $2 AND w.version = $3 AND w.debug_id = l.debug_id",
        tenant,
        report.app,
        report.version,
        &report.wanted
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM wanted_images
         WHERE tenant = $1 AND app = $2 AND version = $3 AND debug_id = ANY ($4) AND reports <= 0",
        tenant,
        report.app,
        report.version,
        &report.wanted
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts new reports by device. Gives the devices that their version had not crashed on before.
async fn devices(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<BTreeMap<DayKey, i64>> {
    let mut rows: BTreeMap<(String, String, Vec<u8>), (Date, i64)> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.previous.is_none()) {
        let (facts, day) = (&change.arrival.facts, day(change.key.received_at));
        let Some(device) = device(facts) else { continue };
        let key = (name(&facts.app), name(&facts.version), device.to_vec());
        let (first, reports) = rows.entry(key).or_insert((day, 0));
        *first = day.min(*first);
        *reports += 1;
    }
    let mut counts = BTreeMap::new();
    if rows.is_empty() {
        return Ok(counts);
    }
    let apps: Vec<String> = rows.keys().map(|r| r.0.clone()).collect();
    let versions: Vec<String> = rows.keys().map(|r| r.1.clone()).collect();
    let devices: Vec<Vec<u8>> = rows.keys().map(|r| r.2.clone()).collect();
    let days: Vec<Date> = rows.values().map(|r| r.0).collect();
    let reports: Vec<i64> = rows.values().map(|r| r.1).collect();
    let (connection, tenant, _) = tx.parts();
    // A row that this statement made has no transaction that changed or locked it.
    let counted = sqlx::query!(
        r#"INSERT INTO app_devices AS d (tenant, app, version, device, day, reports)
           SELECT $1, n.app, n.version, n.device, n.day, n.reports
           FROM unnest($2::text[], $3::text[], $4::bytea[], $5::date[], $6::bigint[])
                AS n (app, version, device, day, reports)
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.device
           ON CONFLICT (tenant, app, version, device) DO UPDATE SET reports = d.reports + EXCLUDED.reports
           RETURNING app, version, day, (xmax = 0) AS "new!""#,
        tenant,
        &apps,
        &versions,
        &devices,
        &days,
        &reports
    )
    .fetch_all(connection)
    .await?;
    for row in counted.into_iter().filter(|row| row.new) {
        *counts.entry((row.app, row.version, row.day)).or_insert(0) += 1;
    }
    Ok(counts)
}

async fn write(tx: &mut TenantTx, deltas: BTreeMap<DayKey, Delta>) -> Result<()> {
    if deltas.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = deltas.keys().map(|k| k.0.clone()).collect();
    let versions: Vec<String> = deltas.keys().map(|k| k.1.clone()).collect();
    let days: Vec<Date> = deltas.keys().map(|k| k.2).collect();
    let column = |of: fn(&Delta) -> i64| deltas.values().map(of).collect::<Vec<i64>>();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO app_days AS d (tenant, app, version, day, reports, devices, frames_total, frames_symbolicated,
                                    complete, partial, none)
         SELECT $1, n.app, n.version, n.day, n.reports, n.devices, n.total, n.symbolicated, n.complete, n.partial, n.none
         FROM unnest($2::text[], $3::text[], $4::date[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                     $9::bigint[], $10::bigint[], $11::bigint[])
              AS n (app, version, day, reports, devices, total, symbolicated, complete, partial, none)
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.day
         ON CONFLICT (tenant, app, version, day) DO UPDATE
         SET reports = d.reports + EXCLUDED.reports, devices = d.devices + EXCLUDED.devices,
             frames_total = d.frames_total + EXCLUDED.frames_total,
             frames_symbolicated = d.frames_symbolicated + EXCLUDED.frames_symbolicated,
             complete = d.complete + EXCLUDED.complete, partial = d.partial + EXCLUDED.partial,
             none = d.none + EXCLUDED.none",
        tenant,
        &apps,
        &versions,
        &days,
        &column(|d| d.reports),
        &column(|d| d.devices),
        &column(|d| d.frames_total),
        &column(|d| d.frames_symbolicated),
        &column(|d| d.complete),
        &column(|d| d.partial),
        &column(|d| d.none)
    )
    .execute(connection)
    .await?;
    Ok(())
}

struct Wanted {
    /// Whether it is the system's, its name and its architecture. Reports may disagree: the smallest counts,
    /// an app's before the system's, so that it does not depend on who came first.
    said: (bool, String, String),
    reports: u64,
    first: OffsetDateTime,
    last: OffsetDateTime,
}

/// Notes the images that new reports came without symbols for.
async fn wanted_images(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let mut wanted: BTreeMap<(String, String, Uuid), Wanted> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.previous.is_none()) {
        let (facts, at) = (&change.came.facts, change.key.received_at);
        for image in change.wanted() {
            let said = (image.system, name(&image.name), name(&image.arch));
            let entry = wanted
                .entry((name(&facts.app), name(&facts.version), image.debug_id.uuid()))
                .or_insert_with(|| Wanted { said: said.clone(), reports: 0, first: at, last: at });
            entry.said = std::mem::take(&mut entry.said).min(said);
            entry.reports += 1;
            entry.first = entry.first.min(at);
            entry.last = entry.last.max(at);
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = wanted.keys().map(|k| k.0.clone()).collect();
    let versions: Vec<String> = wanted.keys().map(|k| k.1.clone()).collect();
    let debug_ids: Vec<Uuid> = wanted.keys().map(|k| k.2).collect();
    let names: Vec<String> = wanted.values().map(|w| w.said.1.clone()).collect();
    let archs: Vec<String> = wanted.values().map(|w| w.said.2.clone()).collect();
    let system: Vec<bool> = wanted.values().map(|w| w.said.0).collect();
    let reports: Vec<i64> = wanted.values().map(|w| to_row(w.reports)).collect();
    let first: Vec<OffsetDateTime> = wanted.values().map(|w| w.first).collect();
    let last: Vec<OffsetDateTime> = wanted.values().map(|w| w.last).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO wanted_images AS w (tenant, app, version, debug_id, name, arch, system, reports, first_seen, last_seen)
         SELECT $1, n.app, n.version, n.debug_id, n.name, n.arch, n.system, n.reports, n.first_seen, n.last_seen
         FROM unnest($2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::boolean[], $8::bigint[],
                     $9::timestamptz[], $10::timestamptz[])
              AS n (app, version, debug_id, name, arch, system, reports, first_seen, last_seen)
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.debug_id
         ON CONFLICT (tenant, app, version, debug_id) DO UPDATE
         SET reports = w.reports + EXCLUDED.reports, first_seen = least(w.first_seen, EXCLUDED.first_seen),
             last_seen = greatest(w.last_seen, EXCLUDED.last_seen),
             (system, name, arch) = (SELECT s.system, s.name, s.arch
                 FROM (VALUES (w.system, w.name, w.arch), (EXCLUDED.system, EXCLUDED.name, EXCLUDED.arch))
                      AS s (system, name, arch)
                 ORDER BY s.system, s.name COLLATE \"C\", s.arch COLLATE \"C\" LIMIT 1)",
        tenant,
        &apps,
        &versions,
        &debug_ids,
        &names,
        &archs,
        &system,
        &reports,
        &first,
        &last
    )
    .execute(connection)
    .await?;
    Ok(())
}
