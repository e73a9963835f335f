//! Rules that watch a figure: when they fire, who is told, and that a clock that moves escalates once.

use crate::alerts::messages::{made, new_rule};
use sqlx::Row;
use time::Duration;
use unslide_alerts::store::figures::{AlertEscalation, FigureComparison, WatchedFigure};
use unslide_alerts::store::firings::{AlertFiring, acknowledge_firing, escalate_due, list_firings};
use unslide_alerts::store::rules::{AlertCondition, AlertRule, NewAlertRule};
use unslide_alerts::store::{ALERT_HOOK, evaluate_rule};
use unslide_harness::database::{TestDatabase, acme};
use unslide_health::store::HEALTH_HOOK;
use unslide_model::{DistinctSketch, QuantileSketch};
use unslide_store::tables::purge_old_rows;

/// The time between two evaluations, and a little more.
const NEXT_EVALUATION: Duration = Duration::minutes(5);

pub fn figure(name: &str, comparison: FigureComparison) -> WatchedFigure {
    WatchedFigure {
        name: name.to_owned(),
        comparison,
        version: None,
        host: None,
        endpoint: None,
        days: 1,
        hours: None,
        objective: None,
        least_observations: 100,
        escalation: None,
    }
}

pub async fn make_rule(database: &TestDatabase, figure: WatchedFigure, threshold: f64) -> AlertRule {
    let (app, threshold) = (Some("shop".to_owned()), Some(threshold));
    let usual = new_rule(AlertCondition::Figure);
    made(database, &NewAlertRule { app, threshold, figure: Some(figure), ..usual }).await
}

async fn set_sessions(database: &TestDatabase, day: &str, sessions: u32, out_of_memory: u32) {
    let empty: String =
        DistinctSketch::default().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let statement = format!(
        "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, out_of_memory, squares, installations,
                                   crashed_installations, users, crashed_users)
         VALUES ('acme', 'shop', '2.0', '{day}', {sessions}, 0, {out_of_memory}, {sessions}, '\\x{empty}', '\\x{empty}', '\\x{empty}', '\\x{empty}')
         ON CONFLICT (tenant, app, version, day) DO UPDATE
         SET sessions = EXCLUDED.sessions, out_of_memory = EXCLUDED.out_of_memory, squares = EXCLUDED.squares"
    );
    database.execute(&statement).await;
}

/// Evaluates a rule at its next moment. Returns the number of new events.
async fn evaluate(database: &TestDatabase, rule: &AlertRule) -> u64 {
    database.wait(NEXT_EVALUATION);
    evaluate_now(database, rule).await
}

pub async fn evaluate_now(database: &TestDatabase, rule: &AlertRule) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let raised = evaluate_rule(&mut tx, rule.id).await.unwrap();
    let escalated = escalate_due(&mut tx, rule.id).await.unwrap();
    tx.commit().await.unwrap();
    raised + escalated
}

async fn list_all(database: &TestDatabase) -> Vec<AlertFiring> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    list_firings(&mut tx, None, None, 100).await.unwrap()
}

async fn headlines(database: &TestDatabase, rule: &AlertRule) -> Vec<String> {
    event_column(database, rule, "headline").await
}

/// Returns a column of each event of a rule, the oldest first.
pub async fn event_column(database: &TestDatabase, rule: &AlertRule, column: &str) -> Vec<String> {
    let query =
        format!("SELECT {column} FROM alert_events WHERE rule = '{}' ORDER BY occurred_at, cause", rule.id);
    database.rows(&query).await.iter().map(|row| sqlx::Row::get(row, 0)).collect()
}

#[tokio::test]
async fn a_bad_figure_fires_once_and_says_when_it_is_good_again() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = make_rule(&database, figure("out_of_memory_sessions", FigureComparison::Above), 0.02).await;
    assert_eq!(evaluate(&database, &rule).await, 0, "nothing was counted");
    set_sessions(&database, "2026-11-20", 3, 3).await;
    assert_eq!(evaluate(&database, &rule).await, 0, "three sessions do not alarm");
    set_sessions(&database, "2026-11-20", 1_000, 20).await;
    assert_eq!(evaluate(&database, &rule).await, 0, "20 of 1,000 are not above 2 %");
    set_sessions(&database, "2026-11-20", 1_000, 21).await;
    assert_eq!(evaluate(&database, &rule).await, 1);
    set_sessions(&database, "2026-11-20", 2_000, 60).await;
    assert_eq!(evaluate(&database, &rule).await, 0, "it is still bad");
    assert_eq!(list_all(&database).await[0].ended_at, None);
    set_sessions(&database, "2026-11-20", 4_000, 60).await;
    assert_eq!(evaluate(&database, &rule).await, 1);
    assert_eq!(evaluate(&database, &rule).await, 0, "it is still good");
    let target = "out_of_memory_sessions of shop is";
    let expected = [format!("{target} 2.10 %"), format!("Good again: {target} 1.50 %")];
    assert_eq!(headlines(&database, &rule).await, expected);
    set_sessions(&database, "2026-11-20", 4_000, 400).await;
    assert_eq!(evaluate(&database, &rule).await, 1, "a second time is a second firing");
    assert_eq!(list_all(&database).await.len(), 2);
    // With too few sessions of a new day nothing is known: the firing stays.
    database.wait(Duration::days(1));
    assert_eq!(evaluate_now(&database, &rule).await, 0);
    assert_eq!(list_all(&database).await[0].ended_at, None);
    database.wait(Duration::days(100));
    purge_old_rows(&database.store).await.unwrap();
    assert_eq!(list_all(&database).await.len(), 1, "one that has not ended is kept");
}

/// Whether two shares of 1,000 differ by more than chance explains: the two-proportion z-test at 1 % with Yates' correction.
fn differs(now: f64, before: f64) -> bool {
    let (size, pooled) = (1_000.0, (now + before) / 2_000.0);
    let deviation = (pooled * (1.0 - pooled) * 2.0 / size).sqrt();
    let z = ((now - before) / size - 1.0 / size) / deviation;
    z > 2.575_829
}

#[tokio::test]
async fn a_figure_that_is_worse_beyond_noise_fires() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = make_rule(&database, figure("out_of_memory_sessions", FigureComparison::Worse), 0.0).await;
    set_sessions(&database, "2026-11-19", 1_000, 20).await;
    let first = (21..1_000).find(|now| differs(f64::from(*now), 20.0)).unwrap();
    set_sessions(&database, "2026-11-20", 1_000, first - 1).await;
    assert_eq!(evaluate(&database, &rule).await, 0, "{first}");
    set_sessions(&database, "2026-11-20", 1_000, first).await;
    assert_eq!(evaluate(&database, &rule).await, 1, "{first}");
    set_sessions(&database, "2026-11-20", 1_000, first - 1).await;
    assert_eq!(evaluate(&database, &rule).await, 1, "within noise it is good again");
}

#[tokio::test]
async fn quantiles_are_watched_by_version_by_host_and_by_endpoint() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    // Of the values from 1 to 1,000 the 90th percentile is 900, and of ten times these 9,000.
    for (metric, version, dimension, host, factor) in [
        ("launch_time", "2.0", "", "", 1.0),
        ("launch_time", "1.9", "", "", 10.0),
        ("request_total", "2.0", "host", "api.example.com", 1.0),
        ("request_total", "2.0", "host", "cdn.example.com", 10.0),
        ("request_total", "2.0", "endpoint", "GET api.example.com/cart", 1.0),
        ("request_total", "2.0", "endpoint", "POST api.example.com/payment", 10.0),
    ] {
        let mut sketch = QuantileSketch::default();
        (1..=1_000).for_each(|value| sketch.add_value(f64::from(value) * factor, 1_000));
        let bytes: String = sketch.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let statement = format!(
            "INSERT INTO metric_days (tenant, app, version, dimension, day, value, metric, observations, failed, squares,
                                      sampled, sketch)
             VALUES ('acme', 'shop', '{version}', '{dimension}', '2026-11-20', '{host}', '{metric}', 1000, 0, 1000, false,
                     '\\x{bytes}')"
        );
        database.execute(&statement).await;
    }
    let above = FigureComparison::Above;
    for (version, host, name, threshold, fires) in [
        (Some("2.0"), None, "launch_time_p90", 880.0, 1),
        (Some("2.0"), None, "launch_time_p90", 920.0, 0),
        (Some("1.9"), None, "launch_time_p90", 8_800.0, 1),
        (None, None, "launch_time_p50", 800.0, 1),
        (None, None, "launch_time_p50", 1_000.0, 0),
        (None, Some("api.example.com"), "request_total_p90", 920.0, 0),
        (None, Some("cdn.example.com"), "request_total_p90", 920.0, 1),
        (None, Some("other.example.com"), "request_total_p90", 1.0, 0),
    ] {
        let (version, host) = (version.map(str::to_owned), host.map(str::to_owned));
        let watched = WatchedFigure { version, host, ..figure(name, above) };
        let rule = make_rule(&database, watched.clone(), threshold).await;
        assert_eq!(evaluate_now(&database, &rule).await, fires, "{watched:?} {threshold}");
    }
    for (endpoint, fires) in [
        ("GET api.example.com/cart", 0),
        ("POST api.example.com/payment", 1),
        ("api.example.com/payment", 0),
        ("cdn.example.com", 0),
    ] {
        let watched =
            WatchedFigure { endpoint: Some(endpoint.to_owned()), ..figure("request_total_p90", above) };
        let rule = make_rule(&database, watched.clone(), 920.0).await;
        assert_eq!(evaluate_now(&database, &rule).await, fires, "{watched:?}");
    }
    let said = database.rows("SELECT headline FROM alert_firings WHERE headline LIKE '%payment%'").await;
    let said: Vec<String> = said.iter().map(|row| row.get(0)).collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("request_total_p90 of shop at POST api.example.com/payment is "), "{said:?}");
}

#[tokio::test]
async fn a_firing_goes_to_the_second_receiver_once_unless_a_person_acknowledges() {
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let second = made(&database, &new_rule(AlertCondition::Regression)).await;
    let escalation = Some(AlertEscalation { rule: second.id, minutes: 7 });
    let figure = Some(figure("out_of_memory_sessions", FigureComparison::Above));
    let (app, threshold, usual) = (Some("shop".to_owned()), Some(0.02), new_rule(AlertCondition::Figure));
    let rule = made(&database, &NewAlertRule { app, threshold, figure, escalation, ..usual }).await;
    set_sessions(&database, "2026-11-20", 1_000, 100).await;
    assert_eq!(evaluate_now(&database, &rule).await, 1);
    database.wait(Duration::minutes(6));
    assert_eq!(evaluate_now(&database, &rule).await, 0, "a person has seven minutes");
    assert!(headlines(&database, &second).await.is_empty());
    database.wait(Duration::MINUTE);
    // Two processes look at the same moment.
    let raised = tokio::join!(evaluate_now(&database, &rule), evaluate_now(&database, &rule));
    assert_eq!(raised.0 + raised.1, 1);
    for _ in 0..3 {
        assert_eq!(evaluate(&database, &rule).await, 0, "once");
    }
    let bad = "out_of_memory_sessions of shop is 10.00 %";
    assert_eq!(headlines(&database, &second).await, [format!("Not acknowledged: {bad}")]);
    // Both receivers hear of the rest.
    let firing = list_all(&database).await.remove(0);
    assert!(firing.escalated_at.is_some());
    let acknowledge = async |by: &str| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let changed = acknowledge_firing(&mut tx, firing.id, by).await.unwrap();
        tx.commit().await.unwrap();
        changed
    };
    assert!(acknowledge("key").await);
    assert!(!acknowledge("other key").await, "the first one counts");
    assert_eq!(list_all(&database).await[0].acknowledged_by.as_deref(), Some("key"));
    set_sessions(&database, "2026-11-20", 1_000, 10).await;
    assert_eq!(evaluate(&database, &rule).await, 2);
    let good = "Good again: out_of_memory_sessions of shop is 1.00 %".to_owned();
    let both = [format!("Acknowledged: {bad}"), good];
    assert_eq!(headlines(&database, &rule).await[1..], both);
    assert_eq!(headlines(&database, &second).await[1..], both);
    // A firing that was acknowledged in time is not escalated.
    set_sessions(&database, "2026-11-20", 1_000, 100).await;
    assert_eq!(evaluate(&database, &rule).await, 1);
    let newest = list_all(&database).await.remove(0);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(acknowledge_firing(&mut tx, newest.id, "link").await.unwrap());
    tx.commit().await.unwrap();
    database.wait(Duration::HOUR);
    assert_eq!(evaluate_now(&database, &rule).await, 0);
    assert_eq!(headlines(&database, &second).await.len(), 3);
}
