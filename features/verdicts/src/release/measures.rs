//! The measures of a release, as pairs of counts by day.

use crate::store::ReportDay;
use std::collections::BTreeMap;
use time::{Date, Duration};
use unslide_model::QuantileSketch;
use unslide_store::sessions::{SessionDayCounts, ValueDay};
use unslide_verdicts_statistics::DayComparison;

const CRASHED: &str = "crashed_sessions";
const OUT_OF_MEMORY: &str = "out_of_memory_sessions";
pub const NEW_CRASHES: &str = "new_crashes";
pub const HANGS: &str = "hangs";
const SLOW_LAUNCHES: &str = "slow_launches";
/// Every measure, in the order of the answer.
pub const MEASURE_NAMES: [&str; 5] = [CRASHED, OUT_OF_MEMORY, NEW_CRASHES, HANGS, SLOW_LAUNCHES];
const HANG_TIME: &str = "hang_time";
const LAUNCH_TIME: &str = "launch_time";
/// The values that measures are made of.
pub const VALUE_NAMES: [&str; 2] = [HANG_TIME, LAUNCH_TIME];
/// A launch is slow if it takes longer than this share of the launches of the other version before the release.
const USUAL_SHARE: f64 = 0.9;
/// The days before a release that say which launches are usual.
const USUAL_DAYS: Duration = Duration::days(28);

/// The counts of a version and of the one that it is compared with.
pub struct MeasuredDays<'d> {
    pub version: &'d str,
    pub against: &'d str,
    /// Sessions of any versions.
    pub sessions: &'d [SessionDayCounts],
    pub values: &'d [ValueDay],
    pub new_crashes: &'d [ReportDay],
}

/// Counts of one version on one day: all, and those with the event.
type Observed = BTreeMap<Date, (f64, f64)>;

/// Returns the measures that both versions have, with their days.
pub fn collect_measures(days: &MeasuredDays<'_>) -> Vec<(&'static str, Vec<DayComparison>)> {
    let shares = |part: fn(&SessionDayCounts) -> i64| {
        let observe = |version| observe_sessions(days.sessions, version, part);
        pair_days(&observe(days.version), &observe(days.against))
    };
    let memory = shares(|row| row.out_of_memory);
    // Without any of the other version, the app may have begun to tell of them with this one.
    let has_memory_ends = memory.iter().any(|day| day.events_before > 0);
    let crashes = |version: &str| {
        let reports = days.new_crashes.iter().filter(move |row| row.version == version);
        observe_events(days.sessions, version, reports.map(|row| (row.day, to_real(row.reports))))
    };
    let hangs = |version: &str| {
        let hangs = list_values(days.values, version, HANG_TIME);
        observe_events(days.sessions, version, hangs.map(|row| (row.day, count_independent(row))))
    };
    let measured = [
        Some((CRASHED, shares(|row| row.crashed))),
        has_memory_ends.then_some((OUT_OF_MEMORY, memory)),
        Some((NEW_CRASHES, pair_days(&crashes(days.version), &crashes(days.against)))),
        have_values(days).then(|| (HANGS, pair_days(&hangs(days.version), &hangs(days.against)))),
        compare_launches(days).map(|launches| (SLOW_LAUNCHES, launches)),
    ];
    measured.into_iter().flatten().collect()
}

/// Counts sessions and a part of them. Sampled ones count as often as they arrived (Kish's effective size): those that they
/// represent are no further evidence.
fn observe_sessions(
    sessions: &[SessionDayCounts],
    version: &str,
    part: fn(&SessionDayCounts) -> i64,
) -> Observed {
    let rows = sessions.iter().filter(|row| row.version == version && row.squares > 0);
    let observe = |row: &SessionDayCounts| {
        let worth = to_real(row.sessions) / to_real(row.squares);
        (row.day, (to_real(row.sessions) * worth, to_real(part(row)) * worth))
    };
    rows.map(observe).collect()
}

/// Counts events of another source in sessions.
fn observe_events(
    sessions: &[SessionDayCounts],
    version: &str,
    events: impl Iterator<Item = (Date, f64)>,
) -> Observed {
    let rows = sessions.iter().filter(|row| row.version == version);
    let mut observed: Observed = rows.map(|row| (row.day, (to_real(row.sessions), 0.0))).collect();
    for (day, count) in events {
        if let Some((_, events)) = observed.get_mut(&day) {
            *events += count;
        }
    }
    observed
}

/// Compares launches that are slower than most launches of the other version before the release. That limit is known before the
/// first launch that is compared. `None` if it is not known.
fn compare_launches(days: &MeasuredDays<'_>) -> Option<Vec<DayComparison>> {
    let first = list_values(days.values, days.version, LAUNCH_TIME).map(|row| row.day).min()?;
    let usual = list_values(days.values, days.against, LAUNCH_TIME)
        .filter(|row| row.day < first && row.day >= first.saturating_sub(USUAL_DAYS));
    let mut sketch = QuantileSketch::default();
    usual.for_each(|row| sketch.merge(&row.sketch));
    let limit = sketch.quantile(USUAL_SHARE)?;
    let observe = |version| -> Observed {
        let launches = list_values(days.values, version, LAUNCH_TIME);
        launches.map(|row| (row.day, count_slow(row, limit))).collect()
    };
    Some(pair_days(&observe(days.version), &observe(days.against)))
}

/// Returns the independent launches of a day, and those of them above the limit.
#[expect(clippy::cast_precision_loss, reason = "a share of launches")]
fn count_slow(row: &ValueDay, limit: f64) -> (f64, f64) {
    let all = count_independent(row);
    let share = row.sketch.weight_above(limit) as f64 / row.sketch.total_weight().max(1) as f64;
    (all, all * share)
}

/// Returns how many independent values there are: those that one device sends together are alike and count as one.
fn count_independent(row: &ValueDay) -> f64 {
    if row.squares > 0.0 { row.observations * row.observations / row.squares } else { 0.0 }
}

fn list_values<'v>(
    values: &'v [ValueDay],
    version: &'v str,
    name: &'static str,
) -> impl Iterator<Item = &'v ValueDay> {
    values.iter().filter(move |row| row.version == version && row.name == name)
}

/// Returns true if both versions measure: one without hangs has launches.
fn have_values(days: &MeasuredDays<'_>) -> bool {
    let measures = |version: &str| days.values.iter().any(|row| row.version == version);
    measures(days.version) && measures(days.against)
}

/// Joins the days that both versions have, in their order.
fn pair_days(own: &Observed, other: &Observed) -> Vec<DayComparison> {
    let pair = |(day, (sessions, events)): (&Date, &(f64, f64))| {
        let (sessions_before, events_before) = other.get(day)?;
        Some(DayComparison {
            sessions: to_count(*sessions),
            events: to_count(*events),
            sessions_before: to_count(*sessions_before),
            events_before: to_count(*events_before),
        })
    };
    own.iter().filter_map(pair).collect()
}

#[expect(clippy::cast_precision_loss, reason = "no count of sessions reaches 2^53")]
fn to_real(count: i64) -> f64 {
    count.max(0) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is positive and below 2^53"
)]
fn to_count(count: f64) -> u64 {
    count.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    const BEFORE: Date = date!(2026 - 11 - 10);
    const FIRST: Date = date!(2026 - 11 - 11);

    fn sessions(version: &str, day: Date, [sessions, crashed, squares]: [i64; 3]) -> SessionDayCounts {
        SessionDayCounts { version: version.to_owned(), day, sessions, crashed, out_of_memory: 0, squares }
    }

    fn values(version: &str, day: Date, name: &str, of: &[(f64, u64)]) -> ValueDay {
        let mut sketch = QuantileSketch::default();
        of.iter().for_each(|(value, weight)| sketch.add_value(*value, *weight));
        let observations = to_real(i64::try_from(sketch.total_weight()).unwrap());
        let (version, name) = (version.to_owned(), name.to_owned());
        ValueDay { version, day, name, observations, squares: observations, sketch }
    }

    fn collect(
        rows: &[SessionDayCounts],
        values: &[ValueDay],
        new_crashes: &[ReportDay],
    ) -> Vec<(&'static str, Vec<DayComparison>)> {
        collect_measures(&MeasuredDays {
            version: "2.5",
            against: "2.4",
            sessions: rows,
            values,
            new_crashes,
        })
    }

    fn day(sessions: u64, events: u64, sessions_before: u64, events_before: u64) -> DayComparison {
        DayComparison { sessions, events, sessions_before, events_before }
    }

    #[test]
    fn days_of_both_versions_are_compared_and_sampled_sessions_count_as_they_arrived() {
        let rows = [
            sessions("2.4", BEFORE, [900, 9, 900]),
            sessions("2.4", FIRST, [1_000, 20, 10_000]),
            sessions("2.5", FIRST, [50, 2, 50]),
            sessions("2.6", FIRST, [70, 70, 70]),
        ];
        let report = |version: &str, reports| ReportDay { version: version.to_owned(), day: FIRST, reports };
        let found = collect(&rows, &[], &[report("2.5", 1), report("2.4", 30), report("2.6", 5)]);
        assert_eq!(found, [(CRASHED, vec![day(50, 2, 100, 2)]), (NEW_CRASHES, vec![day(50, 1, 1_000, 30)])]);
    }

    #[test]
    fn launches_are_slow_by_those_before_the_release() {
        let rows = [sessions("2.4", FIRST, [100, 0, 100]), sessions("2.5", FIRST, [10, 0, 10])];
        let measured = [
            values("2.4", BEFORE, LAUNCH_TIME, &[(300.0, 95), (900.0, 5)]),
            values("2.4", FIRST, LAUNCH_TIME, &[(300.0, 90), (900.0, 10)]),
            values("2.5", FIRST, LAUNCH_TIME, &[(300.0, 5), (500.0, 15)]),
            values("2.4", FIRST, HANG_TIME, &[(800.0, 7)]),
        ];
        let found = collect(&rows, &measured, &[]);
        assert_eq!(found[2], (HANGS, vec![day(10, 0, 100, 7)]));
        assert_eq!(found[3], (SLOW_LAUNCHES, vec![day(20, 15, 100, 10)]));
        assert_eq!(collect(&rows, &measured[1..], &[]).len(), 3, "no launches before the release");
        assert_eq!(collect(&rows, &measured[3..], &[]).len(), 2, "the new version measures nothing");
    }
}
