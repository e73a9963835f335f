//! Groups with many reports in an hour.

use crate::alerts::figures::{evaluate_now, event_column};
use crate::alerts::messages::{made, new_rule};
use time::{Duration, OffsetDateTime};
use unslide_alerts::store::ALERT_HOOK;
use unslide_alerts::store::rules::{AlertCondition, NewAlertRule};
use unslide_harness::database::{TestDatabase, start};
use unslide_health::store::HEALTH_HOOK;

/// Adds a group without reports.
pub async fn add_group(database: &TestDatabase, number: u8, merged_into: Option<u8>) {
    let target = merged_into.map_or_else(|| "NULL".to_owned(), |target| format!("'{}'", id(target)));
    let now = database.store.now().unix_timestamp();
    let row = format!(
        "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
                             first_version, last_seen, last_version, own_reports, merged_into)
         VALUES ('acme', '{0}', 'shop', '{0}', 'crash', 'bug {number}', 'Cart::total', false, 9, to_timestamp({now}), '1.0',
                 to_timestamp({now}), '2.0', 9, {target})",
        id(number)
    );
    database.execute(&row).await;
}

pub fn id(number: u8) -> String {
    format!("00000000-0000-0000-0000-0000000000{number:02}")
}

/// Counts reports of a group in an hour: folded, or as they arrive.
async fn add_reports(
    database: &TestDatabase,
    number: u8,
    hour: OffsetDateTime,
    reports: i64,
    is_folded: bool,
) {
    let (group, hour) = (id(number), hour.unix_timestamp());
    let row = if is_folded {
        format!(
            "INSERT INTO group_hours VALUES ('acme', '{group}', to_timestamp({hour}), {reports})
             ON CONFLICT (tenant, group_id, hour) DO UPDATE SET reports = EXCLUDED.reports"
        )
    } else {
        format!(
            "INSERT INTO group_deltas (tenant, group_id, hour, version, model, os_version, reports, added_at)
             VALUES ('acme', '{group}', to_timestamp({hour}), '2.0', '', '', {reports}, to_timestamp({hour}))"
        )
    };
    database.execute(&row).await;
    database
        .execute(&format!("UPDATE groups SET last_seen = to_timestamp({hour}) WHERE id = '{group}'"))
        .await;
}

async fn add_sessions(database: &TestDatabase, hour: OffsetDateTime, sessions: i64) {
    let row = format!(
        "INSERT INTO session_hour_counts (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                                          background_memory, squares, users, crashed_users)
         VALUES ('acme', 'shop', to_timestamp({}), '2.0', {sessions}, 0, 0, 0, 0, {sessions}, '', '')",
        hour.unix_timestamp()
    );
    database.execute(&row).await;
}

#[tokio::test]
async fn a_group_that_hits_many_sessions_is_told_once_until_its_share_doubles_or_a_week_is_over() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::FrequentGroup)).await;
    assert_eq!((rule.threshold, rule.least_reports), (0.5, Some(100)));
    for (number, target) in [(1, None), (2, None), (3, Some(1)), (4, None)] {
        add_group(&database, number, target).await;
    }
    database.execute(&format!("UPDATE groups SET status = 'ignored' WHERE id = '{}'", id(4))).await;
    add_sessions(&database, start(), 20_000).await;
    // What is merged into the first group counts for it, folded or not. The second one has too few, the fourth is ignored.
    add_reports(&database, 1, start(), 60, true).await;
    add_reports(&database, 3, start(), 30, true).await;
    add_reports(&database, 3, start(), 20, false).await;
    add_reports(&database, 2, start(), 99, true).await;
    add_reports(&database, 4, start(), 5_000, true).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    assert_eq!(
        event_column(&database, &rule, "headline").await,
        ["bug 1: 110 reports in an hour, 0.55 % of its sessions"]
    );
    let detail =
        "Cart::total. Hour from 2026-11-20 08:00 UTC. An hour has 20000 sessions; the rule asks for 0.5 %.";
    assert_eq!(event_column(&database, &rule, "detail").await, [detail]);
    assert_eq!(event_column(&database, &rule, "path").await, [format!("/console/groups/{}", id(1))]);
    database.wait(Duration::minutes(5));
    add_reports(&database, 1, start(), 150, true).await;
    assert_eq!(evaluate_now(&database, &rule).await, 0, "not doubled");
    database.wait(Duration::minutes(5));
    add_reports(&database, 1, start(), 190, true).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1, "doubled");
    database.wait(Duration::days(8));
    let later = start() + Duration::days(8);
    add_sessions(&database, later, 20_000).await;
    add_reports(&database, 1, later, 120, true).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1, "a week is over");
}

#[tokio::test]
async fn without_sessions_the_count_alone_is_judged_and_few_sessions_say_nothing() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = NewAlertRule { least_reports: Some(30), ..new_rule(AlertCondition::FrequentGroup) };
    let rule = made(&database, &rule).await;
    add_group(&database, 1, None).await;
    add_reports(&database, 1, start(), 30, true).await;
    add_sessions(&database, start() - Duration::HOUR, 99).await;
    assert_eq!(evaluate_now(&database, &rule).await, 0);
    database.execute("DELETE FROM session_hour_counts").await;
    database.wait(Duration::minutes(5));
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    let detail = event_column(&database, &rule, "detail").await.remove(0);
    assert!(detail.ends_with("The app sends no sessions, so the count alone is judged."), "{detail}");
}

#[tokio::test]
async fn a_group_that_grows_is_compared_with_the_same_hour_of_the_days_before() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::GrowingGroup)).await;
    for (number, usual, now) in [(1, 40, 120), (2, 50, 120), (3, 0, 19)] {
        add_group(&database, number, None).await;
        for day in 1..=7 {
            add_reports(&database, number, start() - Duration::days(day), usual, true).await;
            add_reports(&database, number, start() - Duration::days(day) - Duration::HOUR, 900, true).await;
        }
        add_reports(&database, number, start(), now, false).await;
    }
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    assert_eq!(event_column(&database, &rule, "headline").await, ["bug 1: 120 reports in an hour"]);
    let detail = event_column(&database, &rule, "detail").await.remove(0);
    assert!(detail.ends_with("The same hour of the 7 days before had 40.0."), "{detail}");
}

/// Counts reports of a group in a version, today: folded.
async fn add_version_reports(database: &TestDatabase, number: u8, version: &str, day: i64, reports: i64) {
    let row = format!(
        "INSERT INTO group_breakdowns (tenant, group_id, dimension, value, day, reports)
         VALUES ('acme', '{}', 'version', '{version}', (to_timestamp({}) AT TIME ZONE 'UTC')::date, {reports})",
        id(number),
        (start() - Duration::days(day)).unix_timestamp()
    );
    database.execute(&row).await;
}

async fn add_version_sessions(database: &TestDatabase, version: &str, day: i64, sessions: i64) {
    let row = format!(
        "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations,
                                   crashed_installations, users, crashed_users)
         VALUES ('acme', 'shop', '{version}', (to_timestamp({}) AT TIME ZONE 'UTC')::date, {sessions}, 0, {sessions}, '', '', '', '')",
        (start() - Duration::days(day)).unix_timestamp()
    );
    database.execute(&row).await;
}

#[tokio::test]
async fn a_group_that_hits_many_sessions_of_a_version_is_told_once_for_each_version() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::WidespreadGroup)).await;
    assert_eq!((rule.threshold, rule.least_reports), (0.5, Some(20)));
    database.execute("UPDATE alert_rules SET created_at = created_at - interval '30 days'").await;
    for (number, target) in [(1, None), (2, None), (3, Some(1)), (4, None)] {
        add_group(&database, number, target).await;
    }
    database.execute(&format!("UPDATE groups SET status = 'resolved' WHERE id = '{}'", id(4))).await;
    for (version, day, sessions) in
        [("2.0", 0, 5_000), ("2.0", 6, 15_000), ("2.0", 7, 900_000), ("1.9", 0, 20_000), ("0.1", 0, 99)]
    {
        add_version_sessions(&database, version, day, sessions).await;
    }
    // What is merged counts for its target. The second group has too few, the fourth is resolved, and 0.1 has few sessions.
    for (number, version, day, reports) in [
        (1, "2.0", 0, 60),
        (3, "2.0", 6, 50),
        (1, "2.0", 7, 9_000),
        (1, "1.9", 0, 99),
        (1, "0.1", 0, 90),
        (2, "2.0", 0, 99),
        (4, "2.0", 0, 5_000),
    ] {
        add_version_reports(&database, number, version, day, reports).await;
    }
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    let headline = ["bug 1: 0.55 % of the sessions of shop 2.0"];
    assert_eq!(event_column(&database, &rule, "headline").await, headline);
    let detail = "Cart::total. 110 reports in 20000 sessions of the last 7 days; the rule asks for 0.5 %.";
    assert_eq!(event_column(&database, &rule, "detail").await, [detail]);
    database.wait(Duration::minutes(5));
    add_version_reports(&database, 3, "2.0", 0, 100).await;
    add_version_reports(&database, 3, "1.9", 0, 1).await;
    assert_eq!(
        evaluate_now(&database, &rule).await,
        1,
        "another version, and not twice the share in the first one"
    );
    database.wait(Duration::minutes(5));
    add_version_reports(&database, 3, "2.0", 1, 10).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1, "twice the share");
}
