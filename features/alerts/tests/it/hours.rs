//! Rules that watch hours: an outage of an hour fires, whatever the rest of its day is like.

use crate::alerts::figures::{evaluate_now, event_column, figure, make_rule};
use crate::alerts::messages::{made, new_rule};
use time::{Duration, OffsetDateTime};
use unslide_alerts::store::ALERT_HOOK;
use unslide_alerts::store::figures::{FigureComparison, WatchedFigure};
use unslide_alerts::store::rules::{AlertCondition, NewAlertRule};
use unslide_harness::database::{TestDatabase, start};
use unslide_health::store::HEALTH_HOOK;
use unslide_model::{DistinctSketch, QuantileSketch};

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same figures of an hour and of its day: requests, launches and sessions, of which this many are bad.
async fn count(database: &TestDatabase, hour: OffsetDateTime, all: u32, bad: u32) {
    let empty = hex(&DistinctSketch::default().to_bytes());
    let mut launches = QuantileSketch::default();
    (0..all).for_each(|n| launches.add_value(if n < bad { 9_000.0 } else { 800.0 }, 1_000));
    let (launches, none) = (hex(&launches.to_bytes()), hex(&QuantileSketch::default().to_bytes()));
    let hour = hour.unix_timestamp();
    for (metric, sketch) in [("requests", none), ("launch_time", launches)] {
        let rows = format!(
            "INSERT INTO metric_hours (tenant, app, dimension, value, metric, hour, version, observations, failed, squares,
                                       sampled, sketch)
             VALUES ('acme', 'shop', '', '', '{metric}', to_timestamp({hour}), '2.0', {all}, {bad}, {all}, false,
                     '\\x{sketch}');
             INSERT INTO metric_days (tenant, app, dimension, value, metric, day, version, observations, failed, squares,
                                      sampled, sketch)
             VALUES ('acme', 'shop', '', '', '{metric}', to_timestamp({hour})::date, '2.0', {all}, {bad}, {all}, false,
                     '\\x{sketch}')
             ON CONFLICT (tenant, app, version, dimension, day, value, metric) DO UPDATE
             SET observations = metric_days.observations + EXCLUDED.observations,
                 failed = metric_days.failed + EXCLUDED.failed, squares = metric_days.squares + EXCLUDED.squares"
        );
        database.execute(&rows).await;
    }
    let sessions = format!(
        "INSERT INTO session_hour_counts (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                                    background_memory, squares, users, crashed_users)
         VALUES ('acme', 'shop', to_timestamp({hour}), '2.0', {all}, {bad}, {bad}, 0, 0, {all}, '\\x{empty}', '\\x{empty}');
         INSERT INTO session_days (tenant, app, version, day, sessions, crashed, out_of_memory, squares, installations,
                                   crashed_installations, users, crashed_users)
         VALUES ('acme', 'shop', '2.0', to_timestamp({hour})::date, {all}, {bad}, {bad}, {all}, '\\x{empty}',
                 '\\x{empty}', '\\x{empty}', '\\x{empty}')
         ON CONFLICT (tenant, app, version, day) DO UPDATE
         SET sessions = session_days.sessions + EXCLUDED.sessions, crashed = session_days.crashed + EXCLUDED.crashed,
             out_of_memory = session_days.out_of_memory + EXCLUDED.out_of_memory,
             squares = session_days.squares + EXCLUDED.squares"
    );
    database.execute(&sessions).await;
}

fn hourly(name: &str, comparison: FigureComparison, hours: Option<u8>) -> WatchedFigure {
    let objective = (comparison == FigureComparison::BurnRate).then_some(0.99);
    WatchedFigure { hours, objective, ..figure(name, comparison) }
}

#[tokio::test]
async fn an_hour_that_fails_fires_although_its_day_does_not_and_is_good_again_with_the_next_one() {
    use FigureComparison::{Above, Below, Worse};
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let mut rules = Vec::new();
    for (name, comparison, threshold) in [
        ("request_failures", Above, 0.1),
        ("launch_time_p50", Above, 1_000.0),
        ("crash_free_sessions", Below, 0.9),
        ("out_of_memory_sessions", Above, 0.1),
        ("request_failures", Worse, 0.0),
    ] {
        let day = make_rule(&database, hourly(name, comparison, None), threshold).await;
        let hour = make_rule(&database, hourly(name, comparison, Some(1)), threshold).await;
        rules.push((name, day, hour));
    }
    // It is eight: of 2,150 requests of the day 7 % fail, all in this hour.
    count(&database, start() - Duration::hours(1), 2_000, 0).await;
    count(&database, start(), 150, 150).await;
    for (name, day, hour) in &rules {
        assert_eq!(
            (evaluate_now(&database, day).await, evaluate_now(&database, hour).await),
            (0, 1),
            "{name}"
        );
    }
    database.wait(Duration::minutes(20));
    for (name, _, hour) in &rules {
        assert_eq!(evaluate_now(&database, hour).await, 0, "{name} is bad still");
    }
    // As long as the next hour has too few observations, nothing is known of it.
    database.wait(Duration::minutes(45));
    count(&database, start() + Duration::HOUR, 99, 0).await;
    for (name, _, hour) in &rules {
        assert_eq!(evaluate_now(&database, hour).await, 0, "{name} is judged by the hour before");
    }
    database
        .execute(
            "DELETE FROM metric_hours WHERE observations = 99; DELETE FROM session_hour_counts WHERE sessions = 99",
        )
        .await;
    count(&database, start() + Duration::HOUR, 120, 0).await;
    database.wait(Duration::minutes(5));
    for (name, _, hour) in &rules {
        assert_eq!(evaluate_now(&database, hour).await, 1, "{name} is good again");
    }
    let (_, _, first) = &rules[0];
    let target = "request_failures of shop is";
    assert_eq!(
        event_column(&database, first, "headline").await,
        [format!("{target} 100.00 %"), format!("Good again: {target} 0.00 %")]
    );
    let details = event_column(&database, first, "detail").await;
    assert!(details[0].ends_with("Hours: 1, up to 2026-11-20 09:00 UTC."), "{details:?}");
    let path = "/console/health/figure?app=shop&figure=request_failures&by=hour";
    assert_eq!(event_column(&database, first, "path").await, [path, path]);
}

#[tokio::test]
async fn just_after_midnight_the_hour_before_is_judged() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = make_rule(&database, hourly("request_failures", FigureComparison::Above, Some(1)), 0.1).await;
    count(&database, start() + Duration::hours(15), 150, 150).await;
    database.wait(Duration::hours(16) + Duration::minutes(2));
    assert_eq!(evaluate_now(&database, &rule).await, 1);
}

#[tokio::test]
async fn a_burn_rate_is_bad_in_both_windows() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let six = hourly("request_failures", FigureComparison::BurnRate, Some(6));
    let rule = make_rule(&database, six.clone(), 5.0).await;
    let short = make_rule(&database, WatchedFigure { hours: Some(1), ..six.clone() }, 5.0).await;
    let sessions = WatchedFigure { name: "crash_free_sessions".to_owned(), ..six };
    let sessions = make_rule(&database, sessions, 5.0).await;
    // 1 % may fail. Of six hours 3 % do, a rate of 3, and of the last one 15 %.
    for hour in 1..6 {
        count(&database, start() - Duration::hours(hour), 1_000, 6).await;
    }
    count(&database, start(), 1_000, 150).await;
    assert_eq!(evaluate_now(&database, &rule).await, 0, "a peak is not yet what lasts");
    assert_eq!(evaluate_now(&database, &short).await, 1);
    // With 6 % of the five hours before it is 7.5.
    database.execute("UPDATE metric_hours SET failed = 60 WHERE failed = 6; UPDATE session_hour_counts SET crashed = 60 WHERE crashed = 6").await;
    database.wait(Duration::minutes(5));
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    assert_eq!(evaluate_now(&database, &sessions).await, 1);
    assert_eq!(
        event_column(&database, &rule, "headline").await,
        ["request_failures of shop is 7.50 %, a burn rate of 7.5"]
    );
    let detail = event_column(&database, &rule, "detail").await.remove(0);
    assert!(
        detail.starts_with("The limit is 5.0 times what 99.00 % good allows; the last hour has 15.0"),
        "{detail}"
    );
    // The last hour is good: what lasts is over, although six hours are bad on average.
    count(&database, start() + Duration::HOUR, 1_000, 10).await;
    database.wait(Duration::HOUR);
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    assert_eq!(evaluate_now(&database, &sessions).await, 1);
}

#[tokio::test]
async fn a_version_that_crashes_in_an_hour_is_told_once_a_day() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule =
        made(&database, &NewAlertRule { threshold: Some(95.0), ..new_rule(AlertCondition::CrashFree) }).await;
    count(&database, start() - Duration::hours(2), 4_000, 0).await;
    count(&database, start(), 150, 15).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    assert_eq!(
        event_column(&database, &rule, "headline").await,
        ["Only 90.00 % of the sessions of shop 2.0 are crash-free"]
    );
    assert_eq!(
        event_column(&database, &rule, "detail").await,
        ["Of 150 sessions of the hour from 2026-11-20 08:00 UTC; the rule asks for 95 %."]
    );
    let path = "/console/health/figure?app=shop&figure=crash_free_sessions&version=2.0&by=hour";
    assert_eq!(event_column(&database, &rule, "path").await, [path]);
    count(&database, start() + Duration::HOUR, 150, 30).await;
    database.wait(Duration::HOUR);
    assert_eq!(evaluate_now(&database, &rule).await, 0);
}
