//! Whether a group is fixed since it was resolved.

use crate::store::{NO_SESSIONS, ReportDay, list_group_days};
use serde::Serialize;
use std::collections::BTreeMap;
use time::{Date, Duration};
use unslide_model::is_newer;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::sessions::{SessionDayCounts, VersionPeriod, list_days};
use unslide_store::{GroupId, Result, TenantTx};
use unslide_verdicts_statistics::{ERROR_LIMIT, FixVerdict, VersionCounts, judge_fix};
use utoipa::ToSchema;

/// The days before the group was resolved that the old rate is made of.
const DAYS_BEFORE: Duration = Duration::days(90);
/// The days after it that count.
pub const DAYS_AFTER: Duration = Duration::days(180);
const NOT_RESOLVED: &str = "The group is not resolved: resolve it in a version, and the sessions of that version and later ones count.";
const NO_OLD_RATE: &str =
    "No session of a version with the bug came before it was resolved, so the old rate is not known.";
const NO_NEW_SESSIONS: &str = "No session since the fix has come yet. Those of today count from tomorrow on.";

unslide_model::words! {
    /// Whether the bug of a group is fixed.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum GroupFixState {
        /// It comes less than a quarter as often as before.
        Fixed = "fixed",
        /// It comes more than a twentieth as often as before.
        NotFixed = "not_fixed",
        /// Neither of both is certain yet.
        TooEarly = "too_early",
        /// The group was never resolved.
        NotResolved = "not_resolved",
    }
}

/// Whether the bug of a group is fixed, and the counts that say so.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupVerdict {
    /// Id of the resolved group.
    #[schema(value_type = Uuid)]
    pub group: GroupId,
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// `fixed`, `not_fixed`, `too_early` or `not_resolved`.
    pub verdict: GroupFixState,
    /// The verdict, in words with its numbers.
    #[schema(example = "fixed: 0 in 41,000 sessions, 37 expected")]
    pub text: String,
    /// The data that a verdict lacks, and how to send it; absent if it lacks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// The version that resolves the group; absent if none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_in: Option<String>,
    /// Sessions since the fix: of its version and later ones; without a version, all after the day on which the group was resolved.
    /// Those of today are left out, unless the verdict is `not_fixed`.
    pub sessions: u64,
    /// Reports of the group in these versions.
    pub crashes: u64,
    /// Reports that these sessions would have at the old rate.
    pub expected: f64,
    /// Sessions that the old rate is made of: of versions with the bug, in the 90 days before it was resolved.
    pub sessions_before: u64,
    /// Reports of the group in these versions and days.
    pub crashes_before: u64,
    /// Sessions without a crash until the bug is fixed; absent if there is a verdict or no reasonable number suffices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_sessions: Option<u64>,
    /// The chance of a wrong verdict over all readings.
    pub error: f64,
}

/// Reads the counts of a group, and says whether its bug is fixed.
pub async fn judge_group(tx: &mut TenantTx, group: &ListedGroup, today: Date) -> Result<GroupVerdict> {
    let verdict = GroupVerdict {
        group: group.id,
        app: group.app.clone(),
        verdict: GroupFixState::NotResolved,
        text: "not resolved".to_owned(),
        hint: Some(NOT_RESOLVED),
        resolved_in: group.resolved_in.clone(),
        sessions: 0,
        crashes: 0,
        expected: 0.0,
        sessions_before: 0,
        crashes_before: 0,
        more_sessions: None,
        error: ERROR_LIMIT,
    };
    let Some(scope) = FixScope::from_group(group, today) else { return Ok(verdict) };
    let period = VersionPeriod { app: &group.app, versions: None, first: scope.first, last: scope.last };
    let sessions = list_days(tx, period).await?;
    let reports = list_group_days(tx, group.id, scope.first).await?;
    let counts = scope.count(&sessions, &reports);
    let found = judge_fix(counts.before, &counts.days, counts.today);
    let (state, more_sessions) = match found.verdict {
        FixVerdict::Fixed => (GroupFixState::Fixed, None),
        FixVerdict::NotFixed => (GroupFixState::NotFixed, None),
        FixVerdict::TooEarly { more_sessions } => (GroupFixState::TooEarly, more_sessions),
    };
    let hint = match state {
        GroupFixState::TooEarly if sessions.is_empty() => Some(NO_SESSIONS),
        GroupFixState::TooEarly if counts.before.sessions == 0 => Some(NO_OLD_RATE),
        GroupFixState::TooEarly if found.since.sessions == 0 => Some(NO_NEW_SESSIONS),
        _ => None,
    };
    Ok(GroupVerdict {
        verdict: state,
        text: found.to_string(),
        hint,
        sessions: found.since.sessions,
        crashes: found.since.crashes,
        expected: found.expected,
        sessions_before: counts.before.sessions,
        crashes_before: counts.before.crashes,
        more_sessions,
        ..verdict
    })
}

/// The versions that have a fix.
enum FixedVersions<'g> {
    From(&'g str),
    After(&'g str),
    /// None was named: the days decide.
    Any,
}

impl FixedVersions<'_> {
    /// Returns true if a version has the fix. What names no version has neither the bug nor the fix.
    fn contain(&self, version: &str) -> bool {
        match self {
            FixedVersions::From(fix) => !version.is_empty() && !is_newer(fix, version),
            FixedVersions::After(last) => is_newer(version, last),
            FixedVersions::Any => true,
        }
    }
}

/// The versions and days that count for a group.
struct FixScope<'g> {
    versions: FixedVersions<'g>,
    /// The first version with the bug.
    first_version: &'g str,
    /// The first day that is read, and the last.
    first: Date,
    last: Date,
    /// The days of the old rate.
    first_before: Date,
    last_before: Date,
    /// The first day after the fix if no version is named.
    resolved_on: Date,
    today: Date,
}

/// The counts of a group, as the test takes them.
#[derive(Default)]
struct FixCounts {
    before: VersionCounts,
    days: Vec<VersionCounts>,
    today: VersionCounts,
}

impl FixScope<'_> {
    fn from_group(group: &ListedGroup, today: Date) -> Option<FixScope<'_>> {
        let resolved_on = group.resolved_at?.date();
        let versions = match (&group.resolved_in, &group.resolved_after) {
            (Some(fix), _) => FixedVersions::From(fix),
            (None, Some(last)) => FixedVersions::After(last),
            (None, None) => FixedVersions::Any,
        };
        let first = resolved_on.saturating_sub(DAYS_BEFORE);
        let seen_on = group.first_seen.date();
        let yesterday = resolved_on.saturating_sub(Duration::DAY);
        // The counts of a day change until it is over. The only day of a bug that is younger counts all the same.
        let last_before =
            if matches!(versions, FixedVersions::Any) { yesterday } else { yesterday.max(seen_on) };
        Some(FixScope {
            versions,
            first_version: &group.first_version,
            first,
            last: today.min(resolved_on.saturating_add(DAYS_AFTER)),
            first_before: first.max(seen_on),
            last_before,
            resolved_on,
            today,
        })
    }

    fn is_before(&self, version: &str, day: Date) -> bool {
        let has_bug = match self.versions {
            FixedVersions::Any => true,
            _ => {
                !version.is_empty()
                    && !self.versions.contain(version)
                    && !is_newer(self.first_version, version)
            }
        };
        has_bug && (self.first_before..=self.last_before).contains(&day)
    }

    fn is_since(&self, version: &str, day: Date) -> bool {
        let is_late = !matches!(self.versions, FixedVersions::Any) || day > self.resolved_on;
        is_late && day <= self.last && self.versions.contain(version)
    }

    /// Adds sessions and reports up: before the fix, on each day since then, and today.
    fn count(&self, sessions: &[SessionDayCounts], reports: &[ReportDay]) -> FixCounts {
        let sessions = sessions.iter().map(|row| (&*row.version, row.day, [row.sessions, 0]));
        let reports = reports.iter().map(|row| (&*row.version, row.day, [0, row.reports]));
        let (mut before, mut days) = (VersionCounts::default(), BTreeMap::<Date, VersionCounts>::new());
        for (version, day, counts) in sessions.chain(reports) {
            let sum = if self.is_since(version, day) {
                days.entry(day).or_default()
            } else if self.is_before(version, day) {
                &mut before
            } else {
                continue;
            };
            let [sessions, crashes] = counts.map(|count| u64::try_from(count).unwrap_or(0));
            sum.sessions = sum.sessions.saturating_add(sessions);
            sum.crashes = sum.crashes.saturating_add(crashes);
        }
        let today = days.remove(&self.today).unwrap_or_default();
        FixCounts { before, days: days.into_values().collect(), today }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    fn scope(versions: FixedVersions<'static>) -> FixScope<'static> {
        FixScope {
            versions,
            first_version: "2.3",
            first: date!(2026 - 08 - 01),
            last: date!(2026 - 11 - 20),
            first_before: date!(2026 - 11 - 01),
            last_before: date!(2026 - 11 - 09),
            resolved_on: date!(2026 - 11 - 10),
            today: date!(2026 - 11 - 20),
        }
    }

    fn count(scope: &FixScope<'_>, rows: &[(&str, Date, i64, i64)]) -> FixCounts {
        let sessions = rows.iter().map(|(version, day, sessions, _)| SessionDayCounts {
            version: (*version).to_owned(),
            day: *day,
            sessions: *sessions,
            crashed: 0,
            out_of_memory: 0,
            squares: *sessions,
        });
        let reports = rows.iter().map(|(version, day, _, reports)| ReportDay {
            version: (*version).to_owned(),
            day: *day,
            reports: *reports,
        });
        scope.count(&sessions.collect::<Vec<_>>(), &reports.collect::<Vec<_>>())
    }

    const ROWS: [(&str, Date, i64, i64); 8] = [
        ("2.2", date!(2026 - 11 - 05), 1, 0),
        ("2.3", date!(2026 - 11 - 05), 20, 2),
        ("2.4.1", date!(2026 - 11 - 09), 300, 30),
        ("2.4.1", date!(2026 - 11 - 15), 4_000, 40),
        ("2.4.2", date!(2026 - 11 - 08), 50_000, 5),
        ("2.5", date!(2026 - 11 - 19), 600_000, 6),
        ("2.5", date!(2026 - 11 - 20), 7_000_000, 7),
        ("", date!(2026 - 11 - 05), 80_000_000, 8),
    ];

    fn totals(counts: &FixCounts) -> [(u64, u64); 3] {
        let pair = |counts: &VersionCounts| (counts.sessions, counts.crashes);
        let days = counts.days.iter().map(pair);
        let days = days.fold((0, 0), |sum, day| (sum.0 + day.0, sum.1 + day.1));
        [pair(&counts.before), days, pair(&counts.today)]
    }

    #[test]
    fn versions_decide_what_is_before_the_fix_and_after_it() {
        let counts = count(&scope(FixedVersions::From("2.4.2")), &ROWS);
        assert_eq!(totals(&counts), [(320, 32), (650_000, 11), (7_000_000, 7)]);
        assert_eq!(counts.days.len(), 2, "one for each day");
        let counts = count(&scope(FixedVersions::After("2.4.2")), &ROWS);
        assert_eq!(totals(&counts), [(50_320, 37), (600_000, 6), (7_000_000, 7)]);
    }

    #[test]
    fn days_decide_if_no_version_is_named() {
        let counts = count(&scope(FixedVersions::Any), &ROWS);
        assert_eq!(totals(&counts), [(80_050_321, 45), (604_000, 46), (7_000_000, 7)]);
    }
}
