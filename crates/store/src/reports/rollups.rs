//! Counts by app, version and day, and by hour, kept in step with the reports.

use super::hours::{self, HourDelta, HourKey};
use super::rows::{GroupTexts, MadeOn, device_bytes, truncate_name};
use super::{Change, FrameTotals};
use crate::number::to_row;
use crate::{Result, TenantTx, Uuid, json};
use serde_json::{Value, json};
use sqlx::FromRow;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};

type DayKey = (String, String, Date);

#[derive(Clone, Copy, Default)]
struct Delta {
    reports: i64,
    fatal: i64,
    devices: i64,
    frames_total: i64,
    frames_symbolicated: i64,
    complete: i64,
    partial: i64,
    none: i64,
    extrapolated: i64,
}

/// Properties of a report by which it is counted.
struct CountedReport<'r> {
    app: &'r str,
    version: &'r str,
    received_at: OffsetDateTime,
    status: &'r str,
    fatal: bool,
    frames: &'r FrameTotals,
    /// 1 if the report is counted, -1 if it is taken back.
    sign: i64,
    weight: i64,
}

impl Delta {
    fn add_report(&mut self, report: &CountedReport<'_>) {
        let times = report.sign * report.weight;
        self.reports += times;
        self.extrapolated += times - report.sign;
        self.fatal += times * i64::from(report.fatal);
        self.frames_total += times * i64::from(report.frames.total);
        self.frames_symbolicated += times * i64::from(report.frames.symbolicated);
        match report.status {
            "complete" => self.complete += times,
            "partial" => self.partial += times,
            _ => self.none += times,
        }
    }
}

/// Counts to add to days and hours.
#[derive(Default)]
struct Deltas {
    days: BTreeMap<DayKey, Delta>,
    hours: BTreeMap<HourKey, HourDelta>,
}

impl Deltas {
    /// Adds a report to its day and hour, or takes it back.
    fn add_report(&mut self, report: &CountedReport<'_>) {
        let (app, version) = (report.app.to_owned(), report.version.to_owned());
        let key = (app.clone(), version.clone(), utc_day(report.received_at));
        self.days.entry(key).or_default().add_report(report);
        let begins = report.received_at.to_offset(time::UtcOffset::UTC).truncate_to_hour();
        let hour = self.hours.entry((app, version, begins)).or_default();
        let times = report.sign * report.weight;
        hour.reports += times;
        hour.fatal += times * i64::from(report.fatal);
    }
}

/// Returns the day of a roll-up.
pub(super) fn utc_day(at: OffsetDateTime) -> Date {
    at.to_offset(time::UtcOffset::UTC).date()
}

/// Adds new reports, and takes back revisions that new ones replace. Returns how many days of apps and
/// versions are new.
pub(super) async fn record_rollups(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<u64> {
    let mut deltas = Deltas::default();
    for change in changes.iter().filter(|change| change.is_counted()) {
        let (facts, received_at, weight) = (&change.arrival.facts, change.key.received_at, change.weight());
        if let Some(previous) = &change.previous {
            deltas.add_report(&CountedReport {
                app: &previous.app,
                version: &previous.version,
                received_at,
                status: &previous.status,
                fatal: previous.fatal,
                frames: &previous.frames,
                sign: -1,
                weight,
            });
        }
        deltas.add_report(&CountedReport {
            app: &truncate_name(&facts.app),
            version: &truncate_name(&facts.version),
            received_at,
            status: facts.status.as_str(),
            fatal: facts.is_fatal(),
            frames: &facts.frames,
            sign: 1,
            weight,
        });
    }
    for (key, devices) in count_devices(tx, changes).await? {
        deltas.days.entry(key).or_default().devices += devices;
    }
    let new = write_days(tx, deltas.days).await?;
    hours::write_hours(tx, deltas.hours).await?;
    wanted_images(tx, changes).await?;
    Ok(new)
}

/// The fields that a report was counted by.
#[derive(FromRow)]
pub(super) struct Counted {
    pub(super) app: String,
    pub(super) version: String,
    pub(super) received_at: OffsetDateTime,
    pub(super) status: String,
    pub(super) fatal: bool,
    #[sqlx(try_from = "i32")]
    pub(super) weight: i64,
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

/// Takes a report out of the counts: its version's, its device's if no other report of the version is from
/// that device, and the images that it came without symbols for. Locks in the order of [`record_rollups`].
pub(super) async fn take_back(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let mut deltas = Deltas::default();
    if let Some(day) = forget_device(tx, report).await? {
        deltas.days.entry((report.app.clone(), report.version.clone(), day)).or_default().devices -= 1;
    }
    deltas.add_report(&CountedReport {
        app: &report.app,
        version: &report.version,
        received_at: report.received_at,
        status: &report.status,
        fatal: report.fatal,
        frames: &report.frames,
        sign: -1,
        weight: report.weight,
    });
    write_days(tx, deltas.days).await?;
    hours::write_hours(tx, deltas.hours).await?;
    want_less(tx, report).await
}

/// Returns the day that the device was counted on, if this was its last report.
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

/// Takes a report out of the counts of its images; one that no other report wants is deleted.
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

/// Counts new reports by device. Returns the devices that their version had not crashed on before.
async fn count_devices(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<BTreeMap<DayKey, i64>> {
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

/// Adds to what days count. Returns how many were not there.
async fn write_days(tx: &mut TenantTx, deltas: BTreeMap<DayKey, Delta>) -> Result<u64> {
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
                                    frames_symbolicated, complete, partial, none, extrapolated)
         SELECT $1, n.app, n.version, n.day, n.reports, n.fatal, n.devices, n.frames_total, n.frames_symbolicated,
                n.complete, n.partial, n.none, n.extrapolated
         FROM jsonb_populate_recordset(NULL::app_days, $2) AS n
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.day
         ON CONFLICT (tenant, app, version, day) DO UPDATE
         SET reports = d.reports + EXCLUDED.reports, fatal = d.fatal + EXCLUDED.fatal,
             devices = d.devices + EXCLUDED.devices,
             frames_total = d.frames_total + EXCLUDED.frames_total,
             frames_symbolicated = d.frames_symbolicated + EXCLUDED.frames_symbolicated,
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

struct Wanted {
    /// Whether it is the system's, its name and its architecture. Reports may disagree: the smallest counts,
    /// an app's before the system's, so that the order of arrival does not matter.
    said: (bool, String, String),
    reports: u64,
    first: OffsetDateTime,
    last: OffsetDateTime,
}

/// Counts the images that new reports came without symbols for.
async fn wanted_images(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let mut wanted: BTreeMap<(String, String, Uuid), Wanted> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.previous.is_none()) {
        let (facts, at) = (&change.came.facts, change.key.received_at);
        for image in change.wanted_images() {
            let said = (image.system, truncate_name(&image.name), truncate_name(&image.arch));
            let entry = wanted
                .entry((truncate_name(&facts.app), truncate_name(&facts.version), image.debug_id.uuid()))
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
    let rows = wanted.iter().map(|((app, version, debug_id), wanted)| {
        let (system, name, arch) = &wanted.said;
        json!({
            "app": app,
            "version": version,
            "debug_id": debug_id,
            "name": name,
            "arch": arch,
            "system": system,
            "reports": to_row(wanted.reports),
            "first_seen": json::format_time(wanted.first),
            "last_seen": json::format_time(wanted.last),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO wanted_images AS w (tenant, app, version, debug_id, name, arch, system, reports, first_seen, last_seen)
         SELECT $1, n.app, n.version, n.debug_id, n.name, n.arch, n.system, n.reports, n.first_seen, n.last_seen
         FROM jsonb_populate_recordset(NULL::wanted_images, $2) AS n
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.debug_id
         ON CONFLICT (tenant, app, version, debug_id) DO UPDATE
         SET reports = w.reports + EXCLUDED.reports, first_seen = least(w.first_seen, EXCLUDED.first_seen),
             last_seen = greatest(w.last_seen, EXCLUDED.last_seen),
             (system, name, arch) = (SELECT s.system, s.name, s.arch
                 FROM (VALUES (w.system, w.name, w.arch), (EXCLUDED.system, EXCLUDED.name, EXCLUDED.arch))
                      AS s (system, name, arch)
                 ORDER BY s.system, s.name COLLATE \"C\", s.arch COLLATE \"C\" LIMIT 1)",
        tenant,
        rows.collect::<Value>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
