//! Summaries at the receiver's hour.

use crate::alerts::figures::{evaluate_now, event_column};
use crate::alerts::hours::hex;
use crate::alerts::messages::{made, new_rule};
use time::Duration;
use unslide_alerts::store::ALERT_HOOK;
use unslide_alerts::store::rules::{AlertCondition, NewAlertRule};
use unslide_alerts::store::schedule::SummarySchedule;
use unslide_alerts::store::summary::is_time_zone;
use unslide_harness::database::TestDatabase;
use unslide_health::store::HEALTH_HOOK;
use unslide_model::DistinctSketch;

fn at(hour: u8, time_zone: &str, weekly: bool) -> NewAlertRule {
    let summary = Some(SummarySchedule { hour, time_zone: time_zone.to_owned(), weekly });
    NewAlertRule { summary, app: Some("shop".into()), ..new_rule(AlertCondition::Summary) }
}

/// Writes what happened on 20 November, a Friday, and the day before.
async fn fill(database: &TestDatabase) {
    let empty = format!("'\\x{}'", hex(&DistinctSketch::default().to_bytes()));
    for (number, first_seen, status, regressed, reports) in [
        (1, "2026-11-20 10:00", "open", "NULL", 120),
        (2, "2026-11-19 10:00", "regressed", "'2026-11-20 11:00Z'", 30),
        (3, "2026-11-01 10:00", "open", "NULL", 500),
        (4, "2026-11-01 10:00", "resolved", "NULL", 0),
    ] {
        let id = format!("00000000-0000-0000-0000-00000000000{number}");
        let row = format!(
            "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
                                 first_version, last_seen, last_version, own_reports, status, regressed_at, resolved_at)
             VALUES ('acme', '{id}', 'shop', '{id}', 'crash', 'bug {number}', '', false, 9, '{first_seen}Z', '1.0',
                     '2026-11-20 12:00Z', '2.0', 9, '{status}', {regressed},
                     CASE '{status}' WHEN 'resolved' THEN timestamptz '2026-11-20 09:00Z' END);
             INSERT INTO group_days (tenant, group_id, day, reports)
             SELECT 'acme', '{id}', '2026-11-20', {reports} WHERE {reports} > 0"
        );
        database.execute(&row).await;
    }
    for (day, crashed) in [("2026-11-19", 10), ("2026-11-20", 100)] {
        let row = format!(
            "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations,
                                       crashed_installations, users, crashed_users)
             VALUES ('acme', 'shop', '2.0', '{day}', 10000, {crashed}, 10000, {empty}, {empty}, {empty}, {empty})"
        );
        database.execute(&row).await;
    }
}

#[tokio::test]
async fn a_summary_comes_once_a_day_at_the_receivers_hour() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    assert!(is_time_zone(&database.store, "Europe/Oslo").await.unwrap());
    assert!(!is_time_zone(&database.store, "Nowhere").await.unwrap());
    // The test begins at 8:00 UTC, 9:00 in Oslo: the hour of today was before the rule.
    let oslo = made(&database, &at(8, "Europe/Oslo", false)).await;
    let later = made(&database, &at(11, "UTC", false)).await;
    let weekly = made(&database, &at(9, "UTC", true)).await;
    fill(&database).await;
    for (hours, told) in [(3, Some(&later)), (19, None)] {
        database.wait(Duration::hours(hours));
        for rule in [&oslo, &later, &weekly] {
            let is_told = told.is_some_and(|told| told.id == rule.id);
            assert_eq!(
                evaluate_now(&database, rule).await,
                u64::from(is_told),
                "{:?} after {hours} h",
                rule.summary
            );
        }
    }
    database.wait(Duration::hours(1));
    assert_eq!(evaluate_now(&database, &oslo).await, 1);
    database.wait(Duration::minutes(5));
    assert_eq!(evaluate_now(&database, &oslo).await, 0, "once a day");
    assert_eq!(
        event_column(&database, &oslo, "headline").await,
        ["shop in a day: 99.00 % of sessions without a crash"]
    );
    let detail = "Worse than before, 99.90 %. New bugs: 1, bug 1 (120). Bugs that came back: 1, bug 2 (30). Resolved bugs: 1. \
                  Most reports: bug 3 (500), bug 1 (120), bug 2 (30).";
    assert_eq!(event_column(&database, &oslo, "detail").await, [detail]);
    assert_eq!(event_column(&database, &oslo, "path").await, ["/console?app=shop"]);
    assert_eq!(evaluate_now(&database, &later).await, 0, "its hour is still to come");
    database.wait(Duration::hours(50));
    assert_eq!(evaluate_now(&database, &weekly).await, 1, "on Monday");
    assert_eq!(
        event_column(&database, &weekly, "headline").await,
        ["shop in 7 days: 99.45 % of sessions without a crash"]
    );
}

#[tokio::test]
async fn a_summary_with_labels_is_about_the_bugs_of_a_team() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let with = |labels: &[&str]| NewAlertRule {
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        ..at(11, "UTC", false)
    };
    let team = made(&database, &with(&["owner:@a"])).await;
    let nobody = made(&database, &with(&["owner:none"])).await;
    let other = made(&database, &with(&["owner:@b"])).await;
    fill(&database).await;
    let label = "INSERT INTO group_labels (tenant, group_id, label)
                 SELECT 'acme', id, CASE title WHEN 'bug 1' THEN 'owner:@a' ELSE 'owner:none' END FROM groups
                 WHERE title IN ('bug 1', 'bug 2')";
    database.execute(label).await;
    database.wait(Duration::hours(27));
    assert_eq!(evaluate_now(&database, &team).await, 1);
    let detail = "Worse than before, 99.90 %. Bugs with owner:@a. New bugs: 1, bug 1 (120). Most reports: bug 1 (120).";
    assert_eq!(event_column(&database, &team, "detail").await, [detail]);
    // A bug without a label of the word has no owner, either.
    assert_eq!(evaluate_now(&database, &nobody).await, 1);
    let detail = "Worse than before, 99.90 %. Bugs with owner:none. Bugs that came back: 1, bug 2 (30). Resolved bugs: 1. \
                  Most reports: bug 3 (500), bug 2 (30).";
    assert_eq!(event_column(&database, &nobody, "detail").await, [detail]);
    assert_eq!(evaluate_now(&database, &other).await, 0, "it has no bug");
}
