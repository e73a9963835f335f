//! Whether a version may go on to more people, compared with an older one on the same days.

mod measures;

use crate::store::{NO_SESSIONS, list_new_crash_days};
use measures::{HANGS, MEASURE_NAMES, MeasuredDays, NEW_CRASHES, VALUE_NAMES, collect_measures};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration};
use unslide_model::is_newer;
use unslide_store::sessions::{SessionDayCounts, VersionPeriod, list_days, list_values};
use unslide_store::{Result, TenantTx};
use unslide_verdicts_statistics::{
    DayComparison, ERROR_LIMIT, MeasureEvidence, RARE_RATE, ReleaseVerdict, WORSE_MULTIPLE, format_count,
    judge_release,
};
use utoipa::ToSchema;

/// The days up to today on which two versions are compared.
const COMPARED_DAYS: Duration = Duration::days(90);
const NO_OWN_SESSIONS: &str =
    "No session of this version has come in the last 90 days: check again a day after its release.";
const NO_OTHER_VERSION: &str =
    "No older version has sessions on the same days: name the version to compare with (against).";
const NO_COMMON_DAYS: &str = "The two versions have no day with sessions in common in the last 90 days.";

unslide_model::words! {
    /// Whether a version may go on to more people.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum ReleaseCheckState {
        Good = "good",
        Bad = "bad",
        /// Neither of both is certain yet.
        TooEarly = "too_early",
    }
}

impl ReleaseCheckState {
    fn from_verdict(verdict: ReleaseVerdict) -> ReleaseCheckState {
        match verdict {
            ReleaseVerdict::Good => ReleaseCheckState::Good,
            ReleaseVerdict::Bad => ReleaseCheckState::Bad,
            ReleaseVerdict::TooEarly => ReleaseCheckState::TooEarly,
        }
    }
}

/// Whether a version may go on to more people, and the counts that say so.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ReleaseCheck {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The version that is checked.
    #[schema(example = "2.5.0")]
    pub version: String,
    /// The version that it is compared with; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.4.1")]
    pub against: Option<String>,
    /// `good`, `bad` or `too_early`.
    pub verdict: ReleaseCheckState,
    /// The reasons in three sentences: the verdict, the counts, and what they are made of.
    #[schema(max_items = 3)]
    pub reasons: Vec<String>,
    /// The data that a verdict lacks, and how to send it; absent if it lacks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// The number of days on which both versions have sessions.
    pub days: u32,
    /// The measures that both versions have.
    #[schema(max_items = 5)]
    pub measures: Vec<ReleaseMeasure>,
    /// Measures that the app does not send.
    #[schema(max_items = 5)]
    pub not_measured: Vec<&'static str>,
    /// The chance of a wrong verdict over all readings.
    pub error: f64,
    /// True if the app has sessions of any version in the last 90 days.
    #[serde(skip)]
    pub has_sessions: bool,
}

/// One measure of a version, compared with that of the other one.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ReleaseMeasure {
    /// `crashed_sessions`, `out_of_memory_sessions`, `new_crashes`, `hangs` or `slow_launches`.
    #[schema(example = "crashed_sessions")]
    pub measure: &'static str,
    /// The verdict on this measure alone.
    pub verdict: ReleaseCheckState,
    /// Sessions of the version, or its launches for `slow_launches`, on the days on which both versions have some. What was sampled
    /// counts as often as it arrived.
    pub observations: u64,
    /// Those of them with the event.
    pub events: u64,
    /// Those that would have it at the rate of the other version on the same days.
    pub expected: f64,
}

/// Reads the counts of a version and of the one that it is compared with, and says whether it may go on.
pub async fn check_release(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    against: Option<&str>,
    today: Date,
) -> Result<ReleaseCheck> {
    let sessions = list_compared_sessions(tx, app, today).await?;
    check_with_sessions(tx, app, version, against, today, &sessions).await
}

/// Lists the sessions of an app that its versions are compared by.
pub async fn list_compared_sessions(
    tx: &mut TenantTx,
    app: &str,
    today: Date,
) -> Result<Vec<SessionDayCounts>> {
    let first = today.saturating_sub(COMPARED_DAYS);
    list_days(tx, VersionPeriod { app, versions: None, first, last: today }).await
}

/// Checks a version as [`check_release`] does, with the sessions of its app.
pub async fn check_with_sessions(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    against: Option<&str>,
    today: Date,
    sessions: &[SessionDayCounts],
) -> Result<ReleaseCheck> {
    let first = today.saturating_sub(COMPARED_DAYS);
    let own_days: BTreeSet<Date> = list_used_days(sessions, version).collect();
    let against = match against {
        Some(against) => Some(against.to_owned()),
        None => find_version_before(sessions, version, &own_days),
    };
    let compared: Vec<String> = [Some(version.to_owned()), against.clone()].into_iter().flatten().collect();
    // All is read in any case: an app without data costs as many statements as others.
    let versions = Some(compared.as_slice());
    let period = VersionPeriod { app, versions, first, last: today };
    let values = list_values(tx, period, &VALUE_NAMES).await?;
    let new_crashes = list_new_crash_days(tx, app, &compared, first).await?;
    let other = against.as_deref().unwrap_or_default();
    let days = MeasuredDays { version, against: other, sessions, values: &values, new_crashes: &new_crashes };
    let measured = if against.is_some() { collect_measures(&days) } else { Vec::new() };
    let common = against
        .as_deref()
        .map_or(0, |against| list_used_days(sessions, against).filter(|day| own_days.contains(day)).count());
    let hint = match against {
        _ if sessions.is_empty() => Some(NO_SESSIONS),
        _ if own_days.is_empty() => Some(NO_OWN_SESSIONS),
        None => Some(NO_OTHER_VERSION),
        Some(_) if common == 0 => Some(NO_COMMON_DAYS),
        Some(_) => None,
    };
    Ok(build_check(&ComparedPair { app, version, against }, &measured, common, hint))
}

/// Returns the days on which a version has sessions.
fn list_used_days<'s>(sessions: &'s [SessionDayCounts], version: &'s str) -> impl Iterator<Item = Date> + 's {
    sessions.iter().filter(move |row| row.version == version && row.sessions > 0).map(|row| row.day)
}

/// Returns the older version with the most sessions on the days of a version: the one before it may be a release that few have.
fn find_version_before(
    sessions: &[SessionDayCounts],
    version: &str,
    days: &BTreeSet<Date>,
) -> Option<String> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for row in sessions {
        let is_older = !row.version.is_empty() && is_newer(version, &row.version);
        if is_older && row.sessions > 0 && days.contains(&row.day) {
            *sums.entry(&row.version).or_default() += row.sessions;
        }
    }
    sums.into_iter().max_by_key(|(_, sessions)| *sessions).map(|(version, _)| version.to_owned())
}

/// Two versions of an app that are compared.
struct ComparedPair<'c> {
    app: &'c str,
    version: &'c str,
    against: Option<String>,
}

fn build_check(
    pair: &ComparedPair<'_>,
    measured: &[(&'static str, Vec<DayComparison>)],
    days: usize,
    hint: Option<&'static str>,
) -> ReleaseCheck {
    let compared: Vec<&[DayComparison]> = measured.iter().map(|(_, days)| days.as_slice()).collect();
    let found = judge_release(&compared);
    let verdict = if hint.is_some() {
        ReleaseCheckState::TooEarly
    } else {
        ReleaseCheckState::from_verdict(found.verdict)
    };
    let names = measured.iter().map(|(name, _)| *name);
    let measures = names.zip(&found.measures).map(|(name, found)| build_measure(name, found)).collect();
    let is_measured = |name: &&'static str| measured.iter().any(|(known, _)| known == name);
    let mut check = ReleaseCheck {
        app: pair.app.to_owned(),
        version: pair.version.to_owned(),
        against: pair.against.clone(),
        verdict,
        reasons: Vec::new(),
        hint,
        days: u32::try_from(days).unwrap_or(u32::MAX),
        measures,
        not_measured: MEASURE_NAMES.into_iter().filter(|name| !is_measured(name)).collect(),
        error: ERROR_LIMIT,
        has_sessions: hint != Some(NO_SESSIONS),
    };
    check.reasons = describe_check(&check);
    check
}

fn build_measure(measure: &'static str, found: &MeasureEvidence) -> ReleaseMeasure {
    ReleaseMeasure {
        measure,
        verdict: ReleaseCheckState::from_verdict(found.verdict),
        observations: found.sessions,
        events: found.events,
        expected: found.expected,
    }
}

/// Describes one measure with its counts.
fn describe_measure(found: &ReleaseMeasure) -> String {
    let (events, all) = (format_count(found.events), format_count(found.observations));
    let (name, expected) = (found.measure.replace('_', " "), found.expected);
    if [NEW_CRASHES, HANGS].contains(&found.measure) {
        format!("{name}: {events} in {all} sessions, {expected:.0} expected")
    } else {
        format!("{name}: {events} of {all}, {expected:.0} expected")
    }
}

/// Describes a verdict in three sentences, or says why there is none.
fn describe_check(check: &ReleaseCheck) -> Vec<String> {
    let version = &check.version;
    let (None, Some(against)) = (check.hint, &check.against) else {
        let hint = check.hint.unwrap_or_default();
        return vec![format!("too early: {version} cannot be compared"), hint.to_owned()];
    };
    let of_verdict = check.measures.iter().filter(|measure| measure.verdict == check.verdict);
    let names = join_words(of_verdict.map(|measure| measure.measure));
    let first = match check.verdict {
        ReleaseCheckState::Bad => format!("bad: {version} has more than {against} of: {names}"),
        ReleaseCheckState::Good => format!(
            "good: in each measure {version} has less than {WORSE_MULTIPLE} times what {against} has, or less than {} in 1,000",
            RARE_RATE * 1_000.0
        ),
        ReleaseCheckState::TooEarly => {
            format!("too early: {version} has too few sessions to be compared with {against} in: {names}")
        }
    };
    let counts: Vec<String> = check.measures.iter().map(describe_measure).collect();
    let missing = join_words(check.not_measured.iter().copied());
    let missing = if missing.is_empty() { missing } else { format!("; not measured: {missing}") };
    let day = if check.days == 1 { "day" } else { "days" };
    let last = format!("compared on {} {day} on which both are in use{missing}", check.days);
    vec![first, counts.join("; "), last]
}

/// Joins names of measures as words.
fn join_words(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| name.replace('_', " ")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    fn row(version: &str, day: Date, sessions: i64) -> SessionDayCounts {
        let version = version.to_owned();
        SessionDayCounts { version, day, sessions, crashed: 0, out_of_memory: 0, squares: sessions }
    }

    #[test]
    fn the_version_before_is_the_older_one_that_most_use_on_the_same_days() {
        let (early, late) = (date!(2026 - 11 - 01), date!(2026 - 11 - 20));
        let rows = [
            row("2.5", late, 100),
            row("2.4.1", late, 300),
            row("2.4.2", late, 20),
            row("2.3", early, 9_000),
            row("2.6", late, 9_000),
            row("", late, 9_000),
        ];
        let days: BTreeSet<Date> = list_used_days(&rows, "2.5").collect();
        assert_eq!(find_version_before(&rows, "2.5", &days).as_deref(), Some("2.4.1"));
        assert_eq!(find_version_before(&rows, "2.3", &BTreeSet::from([early])), None);
    }

    #[test]
    fn a_verdict_has_three_sentences() {
        let day = |events| {
            vec![DayComparison { sessions: 5_000, events, sessions_before: 20_000, events_before: 100 }]
        };
        let check = |crashed, new| {
            let measured = vec![("crashed_sessions", day(crashed)), ("new_crashes", day(new))];
            let pair =
                ComparedPair { app: "com.example.shop", version: "2.5", against: Some("2.4".to_owned()) };
            build_check(&pair, &measured, 1, None)
        };
        let bad = check(90, 20);
        assert_eq!(bad.verdict, ReleaseCheckState::Bad);
        assert_eq!(
            bad.reasons,
            [
                "bad: 2.5 has more than 2.4 of: crashed sessions",
                "crashed sessions: 90 of 5,000, 25 expected; new crashes: 20 in 5,000 sessions, 25 expected",
                "compared on 1 day on which both are in use; not measured: out of memory sessions, hangs, slow launches",
            ]
        );
        let early = check(26, 20);
        assert_eq!(early.verdict, ReleaseCheckState::TooEarly);
        assert_eq!(
            early.reasons[0],
            "too early: 2.5 has too few sessions to be compared with 2.4 in: crashed sessions, new crashes"
        );
        let good = check(0, 0);
        assert_eq!(good.verdict, ReleaseCheckState::Good);
        assert_eq!(
            good.reasons[0],
            "good: in each measure 2.5 has less than 1.5 times what 2.4 has, or less than 1 in 1,000"
        );
    }
}
