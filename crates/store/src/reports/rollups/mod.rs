//! Counts by app and version, kept in step with the reports: of days, hours, devices and wanted images.

mod days;
mod devices;
mod hours;
mod wanted_images;

use super::rows::{GroupTexts, MadeOn, truncate_name};
use super::{Change, FrameTotals};
use crate::{GroupId, Result, TenantTx, Uuid};
use days::{RollupDay, RollupDelta};
pub(crate) use hours::HOUR_COUNTS_RETENTION;
use hours::{HourDelta, HourKey};
use sqlx::FromRow;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_model::timestamp::begin_of_hour;

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

/// Counts to add to days and hours.
#[derive(Default)]
struct Deltas {
    days: BTreeMap<RollupDay, RollupDelta>,
    hours: BTreeMap<HourKey, HourDelta>,
}

impl Deltas {
    /// Adds a report to its day and hour, or takes it back.
    fn add_report(&mut self, report: &CountedReport<'_>) {
        let (app, version) = (report.app.to_owned(), report.version.to_owned());
        let key = (app.clone(), version.clone(), utc_day(report.received_at));
        self.days.entry(key).or_default().add_report(report);
        let hour = self.hours.entry((app, version, begin_of_hour(report.received_at))).or_default();
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
    for (key, devices) in devices::count_devices(tx, changes).await? {
        deltas.days.entry(key).or_default().devices += devices;
    }
    let new = days::write_days(tx, deltas.days).await?;
    hours::write_hours(tx, deltas.hours).await?;
    wanted_images::count_wanted(tx, changes).await?;
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
    pub(super) group: Option<GroupId>,
    #[sqlx(flatten)]
    pub(super) texts: GroupTexts,
}

/// Takes a report out of the counts: its version's, its device's if no other report of the version is from
/// that device, and the images that it came without symbols for. Locks in the order of [`record_rollups`].
pub(super) async fn take_back(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let mut deltas = Deltas::default();
    if let Some(day) = devices::forget_device(tx, report).await? {
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
    days::write_days(tx, deltas.days).await?;
    hours::write_hours(tx, deltas.hours).await?;
    wanted_images::take_back_wanted(tx, report).await
}
