//! Shares of sessions, installations and users without a crash, on the overview.

use super::HEALTH_PATH;
use super::shares::{crash_free, per_thousand};
use crate::operations::SignificantChanges;
use crate::store::figures::comparison::{ChangeVerdict, share_change};
use crate::store::figures::{self, HealthFigures, VersionHealth};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use time::Date;
use unslide_api::feature::panels::{OverviewScope, PanelFigure, PanelRow, PanelSection, PanelTable};
use unslide_model::compare_versions;
use unslide_site::{build_link, counted, estimate, grouped, text_or};
use unslide_store::{Result, TenantTx};

/// Apps or versions with a rate.
const MOST_RATES: usize = 10;

/// The note on approximate counts.
const APPROXIMATE: &str =
    "Installations and users are counted approximately: the standard error of each count is 1.6 %.";

/// The sentence that takes the place of missing figures.
const NO_SESSIONS: &str = "No session events came for these days: send them with POST /v1/sessions to see how many \
    sessions, installations and users had no crash.";
/// The sentence on a page about the last 24 hours.
const BY_DAY: &str = "Sessions are counted by day: these are of yesterday and today (UTC).";

/// Finds the figures of a period and compares them with those of the period before.
pub async fn find_overview(tx: &mut TenantTx, scope: OverviewScope<'_>) -> Result<Vec<PanelSection>> {
    let days = u32::try_from(scope.days).unwrap_or(1);
    let [period, period_before] = figures::compared_periods(scope.today, days);
    let hint = scope.is_hourly.then_some(BY_DAY);
    if scope.app.is_none() {
        let now = figures::app_figures(tx, scope.version, period).await?;
        if now.values().filter(|app| app.sessions > 0).count() > 1 {
            let before = figures::app_figures(tx, scope.version, period_before).await?;
            let (heading, table) = ("Crash-free sessions by app", build_app_rates(now, &before, scope.days));
            return Ok(vec![PanelSection { heading, hint, table: Some(table), ..PanelSection::default() }]);
        }
    }
    let filter = (scope.app, scope.version);
    let now = figures::total_figures(tx, filter, period).await?;
    let before = figures::total_figures(tx, filter, period_before).await?;
    let figures = build_lines(&now, &before, scope.days);
    let hint = if figures.is_empty() { Some(NO_SESSIONS) } else { hint };
    let mut sections = vec![PanelSection { figures, hint, ..PanelSection::default() }];
    if let Some(app) = scope.app.filter(|_| scope.version.is_none())
        && let Some(table) = find_version_rates(tx, app, period).await?
    {
        let heading = "Crash-free sessions by version";
        sections.push(PanelSection { heading, table: Some(table), ..PanelSection::default() });
    }
    Ok(sections)
}

/// Returns the share of sessions without a crash of each app, those with the most sessions first.
fn build_app_rates(
    apps: BTreeMap<String, HealthFigures>,
    before: &BTreeMap<String, HealthFigures>,
    days: i64,
) -> PanelTable {
    let mut apps: Vec<(String, HealthFigures)> =
        apps.into_iter().filter(|(_, figures)| figures.sessions > 0).collect();
    apps.sort_by_key(|(_, figures)| Reverse(figures.sessions));
    let none = HealthFigures::default();
    let row = |(app, now): &(String, HealthFigures)| {
        let before = before.get(app).unwrap_or(&none);
        let shares = [now, before].map(HealthFigures::crashed_of_sessions);
        let is_significant = SignificantChanges::between(now, before).crash_free_sessions;
        PanelRow {
            name: text_or(app, "unknown app").to_owned(),
            href: Some(build_link(HEALTH_PATH, &[("app", Some(app))])),
            class: match (is_significant, now.crash_free_sessions > before.crash_free_sessions) {
                (false, _) => "",
                (true, true) => "good",
                (true, false) => "bad",
            },
            notes: vec![compare_shares("sessions", shares, days, is_significant)],
            ..build_rate(now)
        }
    };
    PanelTable {
        columns: ["App", "Share", "Change", "From"],
        caption: "Sessions without a crash, of each app; those with the most sessions first",
        rows: apps.iter().take(MOST_RATES).map(row).collect(),
    }
}

/// Finds the share of sessions without a crash of each version of an app. Returns `None` if it has one version.
async fn find_version_rates(
    tx: &mut TenantTx,
    app: &str,
    period: (Date, Date),
) -> Result<Option<PanelTable>> {
    let mut versions = figures::most_used_versions(tx, app, None, period).await?;
    versions.truncate(MOST_RATES);
    versions.sort_by(|a, b| compare_versions(b, a));
    let versions = figures::version_figures(tx, app, &versions, period).await?;
    if versions.len() < 2 {
        return Ok(None);
    }
    let row = |(place, now): (usize, &VersionHealth)| {
        let before = versions.get(place + 1);
        let change = before.and_then(|before| {
            let free = |of: &HealthFigures| of.independent((of.sessions - of.crashed_sessions, of.sessions));
            share_change(free(&now.figures), free(&before.figures), true)
        });
        let (class, word) = match change {
            Some(ChangeVerdict::Better) => ("good", "better than"),
            Some(ChangeVerdict::Worse) => ("bad", "worse than"),
            Some(ChangeVerdict::WithinNoise) => ("", "within noise of"),
            None => ("", ""),
        };
        let note = before.map(|before| format!("{word} {}", text_or(&before.version, "no version")));
        PanelRow {
            name: text_or(&now.version, "no version").to_owned(),
            href: Some(build_link(HEALTH_PATH, &[("app", Some(app))])),
            class,
            notes: note.into_iter().collect(),
            ..build_rate(&now.figures)
        }
    };
    Ok(Some(PanelTable {
        columns: ["Version", "Share", "Change", "From"],
        caption: "Sessions without a crash, of the versions with the most sessions; the newest first",
        rows: versions.iter().enumerate().map(row).collect(),
    }))
}

/// Returns a rate without its name and its comparison.
fn build_rate(figures: &HealthFigures) -> PanelRow {
    PanelRow {
        value: format_crash_free(figures.crashed_of_sessions()),
        observations: estimate(counted(figures.sessions, "session", "sessions"), figures.estimated),
        ..PanelRow::default()
    }
}

/// Returns the figures of a period of `days` days beside those of the period before it, or none without
/// sessions.
fn build_lines(now: &HealthFigures, before: &HealthFigures, days: i64) -> Vec<PanelFigure> {
    if now.sessions == 0 {
        return Vec::new();
    }
    let changes = SignificantChanges::between(now, before);
    let sessions = [now, before].map(HealthFigures::crashed_of_sessions);
    let installations = [now, before].map(HealthFigures::crashed_of_installations);
    let users = [now, before].map(HealthFigures::crashed_of_users);
    let is_whole = now.is_whole() && before.is_whole();
    let approximate = |label, things, shares: [(i64, i64); 2], significant| PanelFigure {
        label,
        value: format!("≈ {}", format_crash_free(shares[0])),
        title: APPROXIMATE,
        note: match is_whole {
            true => compare_shares(things, shares, days, significant),
            false => "not comparable: only a part of the sessions was kept".to_owned(),
        },
    };
    let mut lines = vec![
        PanelFigure {
            label: "Crash-free sessions",
            value: format_crash_free(sessions[0]),
            title: "",
            note: compare_shares("sessions", sessions, days, changes.crash_free_sessions),
        },
        approximate(
            "Crash-free installations",
            "installations",
            installations,
            changes.crash_free_installations,
        ),
    ];
    // Few apps report their users.
    if users[0].1 > 0 {
        lines.push(approximate("Crash-free users", "users", users, changes.crash_free_users));
    }
    lines.push(out_of_memory(now));
    lines.push(PanelFigure {
        label: "Sessions",
        value: estimate(grouped(now.sessions), now.estimated),
        title: "",
        note: match (grouped(installations[0].1), users[0].1) {
            (installations, 0) => format!("of ≈ {installations} installations"),
            (installations, users) => {
                format!("of ≈ {installations} installations and ≈ {} users", grouped(users))
            }
        },
    });
    lines
}

fn format_crash_free(counts: (i64, i64)) -> String {
    crash_free(counts.0, counts.1).unwrap_or_else(|| "–".to_owned())
}

/// Compares the share of a period, the first of the two, with the share of the period before.
fn compare_shares(things: &str, shares: [(i64, i64); 2], days: i64, significant: bool) -> String {
    let [(crashed, all), (crashed_before, all_before)] = shares;
    let Some(share) = crash_free(crashed_before, all_before) else {
        return format!("no {things} in the {days} days before");
    };
    let rose = i128::from(crashed) * i128::from(all_before) < i128::from(crashed_before) * i128::from(all);
    let verdict = match (significant, rose) {
        (false, _) => "the change is no more than noise",
        (true, true) => "better, by more than noise",
        (true, false) => "worse, by more than noise",
    };
    format!("{share} in the {days} days before: {verdict}")
}

fn out_of_memory(now: &HealthFigures) -> PanelFigure {
    PanelFigure {
        label: "Out of memory",
        value: per_thousand(now.out_of_memory_sessions, now.sessions),
        title: "Sessions on the screen that the system ended for lack of memory, of a thousand. “Inferred”: nothing else \
                explains the end.",
        note: format!(
            "per 1\u{202f}000 sessions; {} of them inferred, {} more in the background",
            estimate(grouped(now.unexplained_sessions), now.estimated),
            estimate(grouped(now.background_out_of_memory_sessions), now.estimated)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(crashed: i64, sessions: i64) -> HealthFigures {
        let [crashed_installations, installations] =
            [crashed, sessions].map(|count| u64::try_from(count / 2).unwrap());
        HealthFigures {
            sessions,
            crashed_sessions: crashed,
            crashed_installations,
            installations,
            squares: sessions,
            ..HealthFigures::default()
        }
    }

    #[test]
    fn a_change_is_told_in_words_with_whether_it_is_noise() {
        let notes = |now: HealthFigures, before: HealthFigures| {
            build_lines(&now, &before, 14).into_iter().map(|line| line.note).collect::<Vec<_>>()
        };
        let better = notes(figures(100, 10_000), figures(200, 10_000));
        assert_eq!(better[0], "98.00 % in the 14 days before: better, by more than noise");
        assert_eq!(better[1], "98.00 % in the 14 days before: better, by more than noise");
        let sampled = HealthFigures { squares: 100_000, ..figures(200, 10_000) };
        assert!(notes(figures(100, 10_000), sampled)[1].starts_with("not comparable"));
        assert!(notes(figures(200, 10_000), figures(100, 10_000))[0].ends_with("worse, by more than noise"));
        assert!(notes(figures(100, 10_000), figures(101, 10_000))[0].ends_with("no more than noise"));
        assert_eq!(notes(figures(1, 10), figures(0, 0))[0], "no sessions in the 14 days before");
        assert!(notes(figures(0, 0), figures(1, 10)).is_empty());
    }

    #[test]
    fn each_app_has_a_rate_of_its_own() {
        let apps = |apps: &[(&str, HealthFigures)]| -> BTreeMap<String, HealthFigures> {
            apps.iter().map(|(app, figures)| ((*app).to_owned(), *figures)).collect()
        };
        let share = |crashed: i32, sessions: i32| HealthFigures {
            crash_free_sessions: Some(1.0 - f64::from(crashed) / f64::from(sessions)),
            ..figures(crashed.into(), sessions.into())
        };
        let now = apps(&[("bank", share(200, 10_000)), ("shop", share(10, 20_000)), ("none", figures(0, 0))]);
        let before = apps(&[("bank", share(100, 10_000)), ("shop", share(200, 20_000))]);
        let rates = build_app_rates(now, &before, 14);
        let shown: Vec<_> =
            rates.rows.iter().map(|row| (row.name.as_str(), row.value.as_str(), row.class)).collect();
        assert_eq!(shown, [("shop", "99.95 %", "good"), ("bank", "98.00 %", "bad")]);
        assert_eq!(rates.rows[1].notes, ["99.00 % in the 14 days before: worse, by more than noise"]);
        assert_eq!(rates.rows[1].href.as_deref(), Some("/console/health?app=bank"));
    }

    #[test]
    fn a_sampled_count_is_said_to_be_one() {
        let texts = |now: HealthFigures| {
            let lines = build_lines(&now, &figures(1, 10), 14);
            (lines[lines.len() - 2].note.clone(), lines[lines.len() - 1].value.clone())
        };
        let (memory, sessions) = texts(figures(0, 40));
        assert!(memory.ends_with("; 0 of them inferred, 0 more in the background"), "{memory}");
        assert_eq!(sessions, "40");
        let (memory, sessions) =
            texts(HealthFigures { estimated: true, unexplained_sessions: 8, ..figures(0, 40) });
        assert!(memory.ends_with("; about 8 of them inferred, about 0 more in the background"), "{memory}");
        assert_eq!(sessions, "about 40");
    }

    #[test]
    fn users_have_a_line_where_sessions_name_them() {
        let labels = |now: HealthFigures| {
            build_lines(&now, &figures(0, 0), 14).into_iter().map(|line| line.label).collect::<Vec<_>>()
        };
        assert!(!labels(figures(1, 10)).contains(&"Crash-free users"));
        let named = HealthFigures { users: 4, crashed_users: 1, ..figures(1, 10) };
        assert_eq!(labels(named)[2], "Crash-free users");
        let lines = build_lines(&named, &figures(1, 10), 14);
        assert_eq!(
            (lines[2].value.as_str(), lines[2].note.as_str()),
            ("≈ 75.00 %", "no users in the 14 days before")
        );
        assert_eq!(lines[4].note, "of ≈ 5 installations and ≈ 4 users");
    }
}
