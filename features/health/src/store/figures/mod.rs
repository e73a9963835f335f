//! How often apps crash: shares of sessions, of installations and of users, by day and by version.

pub mod comparison;
mod hours;
pub mod memory_limits;
pub mod metric_breakdown;
pub mod requests;
pub mod signals;
pub mod watched;

use crate::store::sessions::read_sketch;
use serde::Serialize;
use std::collections::BTreeMap;
use time::{Date, Duration};
use unslide_model::DistinctSketch;
use unslide_store::sql::to_row;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

time::serde::format_description!(pub(crate) day, Date, "[year]-[month]-[day]");

/// Rows that one query reads: their sketches are up to 3 KiB each.
const PAGE_ROWS: i64 = 200;
/// Rows of a period, one for each app, version and day, that figures are made of: those of its most recent
/// days, if a client sends sessions of ever new versions.
const MOST_ROWS: i64 = 20_000;
/// Versions that are shown by themselves.
pub const MOST_VERSIONS: usize = 50;
/// The most days of a period.
pub const MOST_DAYS: u32 = 90;
/// Standard deviations from which on a difference counts as more than noise: chance alone makes a larger one
/// in one of a hundred cases.
pub(super) const DEVIATIONS: f64 = 2.576;

/// Counts of the sessions of an app, a version or a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = SessionHealth)]
pub struct HealthFigures {
    /// Sessions. What was sampled counts as many as it stands for.
    pub sessions: i64,
    /// True where counts of sessions are estimates: some of them were sampled.
    pub estimated: bool,
    /// Sessions that ended with a crash.
    pub crashed_sessions: i64,
    /// Sessions on the screen that the system ended for lack of memory: with evidence, or because nothing else explains
    /// their end.
    pub out_of_memory_sessions: i64,
    /// Those of them without evidence.
    pub unexplained_sessions: i64,
    /// The same of sessions in the background, or with an unknown place of their end.
    pub background_out_of_memory_sessions: i64,
    /// `out_of_memory_sessions` of all sessions, 0 to 1; absent without sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory_rate: Option<f64>,
    /// `background_out_of_memory_sessions` of all sessions, 0 to 1; absent without sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_out_of_memory_rate: Option<f64>,
    /// The share of sessions that did not end with a crash, 0 to 1; absent without sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash_free_sessions: Option<f64>,
    /// Installations with a session, approximately: the standard error is 1.6 %.
    pub installations: u64,
    /// Installations with a session that crashed, approximately: the standard error is 1.6 %.
    pub crashed_installations: u64,
    /// The share of installations without a crash, 0 to 1, approximately; absent without installations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash_free_installations: Option<f64>,
    /// Users with a session, approximately: the standard error is 1.6 %. Sessions that name no user count for none.
    pub users: u64,
    /// Users with a session that crashed, approximately: the standard error is 1.6 %.
    pub crashed_users: u64,
    /// The share of users without a crash, 0 to 1, approximately; absent without users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash_free_users: Option<f64>,
    /// The sum of the squares of what the sessions stand for.
    #[serde(skip)]
    pub squares: i64,
}

impl HealthFigures {
    /// Returns the sessions that crashed, and all.
    #[must_use]
    pub fn crashed_of_sessions(&self) -> (i64, i64) {
        (self.crashed_sessions, self.sessions)
    }

    /// Returns true if every session has the weight 1: none was sampled.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.squares == self.sessions
    }

    /// Returns some of the sessions, and all, as far as they are independent (Kish's effective size): sampled
    /// sessions count no more than those that arrived.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a test of significance")]
    pub fn independent(&self, share: (i64, i64)) -> (f64, f64) {
        let (some, all) = share;
        let worth = if self.squares > 0 { self.sessions as f64 / self.squares as f64 } else { 1.0 };
        (some as f64 * worth, all as f64 * worth)
    }

    /// Returns the installations with a session that crashed, and all.
    #[must_use]
    pub fn crashed_of_installations(&self) -> (i64, i64) {
        (to_row(self.crashed_installations), to_row(self.installations))
    }

    /// Returns the users with a session that crashed, and all.
    #[must_use]
    pub fn crashed_of_users(&self) -> (i64, i64) {
        (to_row(self.crashed_users), to_row(self.users))
    }
}

/// A day's figures.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = SessionDay)]
pub struct DayHealth {
    /// The day (UTC).
    #[serde(with = "day")]
    pub day: Date,
    #[serde(flatten)]
    #[schema(inline)]
    /// Its figures.
    pub figures: HealthFigures,
}

/// A version's figures.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = SessionVersion)]
pub struct VersionHealth {
    /// The version; empty for sessions that name none.
    #[schema(example = "3.1.4")]
    pub version: String,
    #[serde(flatten)]
    #[schema(inline)]
    /// Its figures.
    pub figures: HealthFigures,
}

/// The figures of a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeriodHealth {
    pub total: HealthFigures,
    /// Its days with sessions, the newest first.
    pub days: Vec<DayHealth>,
}

/// The app and the version that figures are limited to, or all.
pub type HealthFilter<'a> = (Option<&'a str>, Option<&'a str>);

/// Sums and sketches that rows are added to.
#[derive(Default)]
struct HealthSums {
    sessions: i64,
    crashed: i64,
    out_of_memory: i64,
    unexplained: i64,
    background_memory: i64,
    squares: i64,
    installations: DistinctSketch,
    crashed_installations: DistinctSketch,
    users: DistinctSketch,
    crashed_users: DistinctSketch,
}

/// The columns of a row that are read.
struct DayRow {
    day: Date,
    app: String,
    version: String,
    sessions: i64,
    crashed: i64,
    out_of_memory: i64,
    unexplained: i64,
    background_memory: i64,
    squares: i64,
    installations: Vec<u8>,
    crashed_installations: Vec<u8>,
    users: Vec<u8>,
    crashed_users: Vec<u8>,
}

impl HealthSums {
    fn add(&mut self, row: &DayRow) -> Result<()> {
        self.sessions += row.sessions;
        self.crashed += row.crashed;
        self.out_of_memory += row.out_of_memory;
        self.unexplained += row.unexplained;
        self.background_memory += row.background_memory;
        self.squares += row.squares;
        self.installations.merge(&read_sketch(&row.installations)?);
        self.crashed_installations.merge(&read_sketch(&row.crashed_installations)?);
        self.users.merge(&read_sketch(&row.users)?);
        self.crashed_users.merge(&read_sketch(&row.crashed_users)?);
        Ok(())
    }

    fn merge(&mut self, other: &HealthSums) {
        self.sessions += other.sessions;
        self.crashed += other.crashed;
        self.out_of_memory += other.out_of_memory;
        self.unexplained += other.unexplained;
        self.background_memory += other.background_memory;
        self.squares += other.squares;
        self.installations.merge(&other.installations);
        self.crashed_installations.merge(&other.crashed_installations);
        self.users.merge(&other.users);
        self.crashed_users.merge(&other.crashed_users);
    }

    fn figures(&self) -> HealthFigures {
        let (installations, users) = (self.installations.count(), self.users.count());
        // All counts are approximate: no more crashed than there were.
        let crashed_installations = self.crashed_installations.count().min(installations);
        let crashed_users = self.crashed_users.count().min(users);
        HealthFigures {
            sessions: self.sessions,
            estimated: self.squares != self.sessions,
            crashed_sessions: self.crashed,
            out_of_memory_sessions: self.out_of_memory + self.unexplained,
            unexplained_sessions: self.unexplained,
            background_out_of_memory_sessions: self.background_memory,
            out_of_memory_rate: share(self.out_of_memory + self.unexplained, self.sessions),
            background_out_of_memory_rate: share(self.background_memory, self.sessions),
            crash_free_sessions: crash_free(self.crashed, self.sessions),
            installations,
            crashed_installations,
            crash_free_installations: crash_free(to_row(crashed_installations), to_row(installations)),
            users,
            crashed_users,
            crash_free_users: crash_free(to_row(crashed_users), to_row(users)),
            squares: self.squares,
        }
    }
}

fn crash_free(crashed: i64, all: i64) -> Option<f64> {
    share(all.saturating_sub(crashed), all)
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(some: i64, all: i64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

/// Returns the figures of a period: days from the first up to the second, which is not part of it.
pub async fn period_figures(
    tx: &mut TenantTx,
    filter: HealthFilter<'_>,
    period: (Date, Date),
) -> Result<PeriodHealth> {
    let (mut total, mut days) = (HealthSums::default(), BTreeMap::<Date, HealthSums>::new());
    let (app, versions) = selected_rows(filter);
    read(tx, app, versions.as_deref(), period, |row| {
        total.add(row)?;
        days.entry(row.day).or_default().add(row)
    })
    .await?;
    let days = days.into_iter().rev().map(|(day, sums)| DayHealth { day, figures: sums.figures() });
    Ok(PeriodHealth { total: total.figures(), days: days.collect() })
}

/// Returns the figures of a period alone, without its days.
pub async fn total_figures(
    tx: &mut TenantTx,
    filter: HealthFilter<'_>,
    period: (Date, Date),
) -> Result<HealthFigures> {
    let mut total = HealthSums::default();
    let (app, versions) = selected_rows(filter);
    read(tx, app, versions.as_deref(), period, |row| total.add(row)).await?;
    Ok(total.figures())
}

/// Returns the figures of each app in a period; with `version` those of this version alone.
pub async fn app_figures(
    tx: &mut TenantTx,
    version: Option<&str>,
    period: (Date, Date),
) -> Result<BTreeMap<String, HealthFigures>> {
    let mut sums = BTreeMap::<String, HealthSums>::new();
    let (_, versions) = selected_rows((None, version));
    read(tx, None, versions.as_deref(), period, |row| match sums.get_mut(&row.app) {
        Some(sums) => sums.add(row),
        None => sums.entry(row.app.clone()).or_default().add(row),
    })
    .await?;
    Ok(sums.into_iter().map(|(app, sums)| (app, sums.figures())).collect())
}

/// Returns the figures of some versions of an app in a period, in this order; those without sessions are left
/// out.
pub async fn version_figures(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String],
    period: (Date, Date),
) -> Result<Vec<VersionHealth>> {
    let versions = versions.get(..MOST_VERSIONS).unwrap_or(versions);
    let mut sums = BTreeMap::<String, HealthSums>::new();
    read(tx, Some(app), Some(versions), period, |row| match sums.get_mut(&row.version) {
        Some(sums) => sums.add(row),
        None => sums.entry(row.version.clone()).or_default().add(row),
    })
    .await?;
    let figures = |version: &String| {
        let figures = sums.get(version)?.figures();
        (figures.sessions > 0).then(|| VersionHealth { version: version.clone(), figures })
    };
    Ok(versions.iter().filter_map(figures).collect())
}

/// Returns the versions of an app with the most sessions in a period, at most [`MOST_VERSIONS`].
pub async fn most_used_versions(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    period: (Date, Date),
) -> Result<Vec<String>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT r.version FROM (
             SELECT version, sessions FROM session_days
             WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND ($5::text IS NULL OR version = $5)
             ORDER BY day DESC, version DESC LIMIT $6) r
         GROUP BY r.version ORDER BY sum(r.sessions) DESC, r.version LIMIT $7",
        tenant,
        app,
        from,
        to,
        version,
        MOST_ROWS,
        i64::try_from(MOST_VERSIONS).unwrap_or(i64::MAX)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns the app and the versions of the rows that figures are made of; `None` for all.
fn selected_rows(filter: HealthFilter<'_>) -> (Option<&str>, Option<Vec<String>>) {
    let (app, version) = filter;
    (app, version.map(|version| vec![version.to_owned()]))
}

/// Passes the rows of a period to a function, the newest day first, a page at a time: the memory does not
/// grow with the period.
async fn read(
    tx: &mut TenantTx,
    app: Option<&str>,
    versions: Option<&[String]>,
    period: (Date, Date),
    mut each: impl FnMut(&DayRow) -> Result<()>,
) -> Result<()> {
    let (from, to) = period;
    let mut last: Option<DayRow> = None;
    for _ in 0..MOST_ROWS / PAGE_ROWS {
        let after = last.as_ref();
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query_as!(
            DayRow,
            "SELECT day, app, version, sessions, crashed, out_of_memory, unexplained, background_memory, squares,
                     installations, crashed_installations, users, crashed_users FROM session_days
             WHERE tenant = $1 AND day >= $2 AND day < $3
               AND ($4::text IS NULL OR app = $4) AND ($5::text[] IS NULL OR version = ANY ($5))
               AND ($6::date IS NULL OR (day, app, version) < ($6, $7::text, $8::text))
             ORDER BY day DESC, app DESC, version DESC LIMIT $9",
            tenant,
            from,
            to,
            app,
            versions,
            after.map(|row| row.day),
            after.map(|row| &*row.app),
            after.map(|row| &*row.version),
            PAGE_ROWS
        )
        .fetch_all(connection)
        .await?;
        let full = i64::try_from(rows.len()).is_ok_and(|rows| rows == PAGE_ROWS);
        for row in &rows {
            each(row)?;
        }
        last = rows.into_iter().next_back();
        if !full {
            break;
        }
    }
    Ok(())
}

/// Returns the period of `days` days that ends with `today`, and the period before it.
#[must_use]
pub fn compared_periods(today: Date, days: u32) -> [(Date, Date); 2] {
    let length = Duration::days(days.into());
    let to = today.saturating_add(Duration::DAY);
    let from = to.saturating_sub(length);
    [(from, to), (from.saturating_sub(length), from)]
}

/// Returns true if two shares, each some of all, differ by more than chance explains: the two-proportion z-test
/// at a hundredth, with a correction for few events.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a test of significance")]
pub fn more_than_noise(share: (i64, i64), other: (i64, i64)) -> bool {
    shares_differ((share.0 as f64, share.1 as f64), (other.0 as f64, other.1 as f64))
}

/// Does the same for counts that are no whole numbers.
#[must_use]
pub fn shares_differ(share: (f64, f64), other: (f64, f64)) -> bool {
    let ((some, all), (other_some, other_all)) = (share, other);
    if all <= 0.0 || other_all <= 0.0 {
        return false;
    }
    let (share, other) = (some / all, other_some / other_all);
    let pooled = (some + other_some) / (all + other_all);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / all + 1.0 / other_all)).sqrt();
    // Yates' correction: few events are discrete, and one alone proves nothing.
    let difference = (share - other).abs() - 0.5 / all - 0.5 / other_all;
    deviation > 0.0 && difference > DEVIATIONS * deviation
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn a_difference_counts_where_there_is_enough_to_tell() {
        assert!(more_than_noise((100, 10_000), (200, 10_000)));
        assert!(!more_than_noise((100, 10_000), (110, 10_000)));
        assert!(!more_than_noise((1, 100), (2, 100)));
        assert!(!more_than_noise((100, 100_000), (1, 100)), "the first crash of a release");
        assert!(more_than_noise((100, 100_000), (10, 100)));
        for nothing in [(0, 0), (5, 5)] {
            assert!(!more_than_noise(nothing, nothing));
        }
        assert!(more_than_noise((0, 1_000), (1_000, 1_000)));
    }

    #[test]
    fn periods_end_with_today_and_join() {
        let [now, before] = compared_periods(date!(2026 - 11 - 20), 14);
        assert_eq!(now, (date!(2026 - 11 - 07), date!(2026 - 11 - 21)));
        assert_eq!(before, (date!(2026 - 10 - 24), date!(2026 - 11 - 07)));
        assert_eq!(compared_periods(Date::MAX, 14)[0].1, Date::MAX);
        let _ = compared_periods(Date::MIN, MOST_DAYS);
    }
}
