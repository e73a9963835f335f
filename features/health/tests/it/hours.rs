//! Counts by hour: what counts in which, what a repeated event changes, and that rows go after two days.

use crate::health::database::{APP, database, dump, event, payload, store_payloads, store_sessions};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_harness::database::{TestDatabase, acme, start, umbrella};
use unslide_health::store::figures::watched::{FigurePoint, list_points};
use unslide_health::store::metrics::{MetricArrival, OTHER};
use unslide_health::store::sessions::{EndReason, SessionArrival};
use unslide_store::tables::purge_old_rows;
use unslide_store::watched_figures::{FigurePeriod, FigureQuery};

/// A payload that ended some time ago.
fn payload_of(id: &str, ago: Duration, more: &Value) -> MetricArrival {
    let mut more = more.clone();
    more["measured_at"] = (start() - ago).format(&Rfc3339).unwrap().into();
    payload(id, 0, &more)
}

/// A session that began some time ago.
fn session_of(id: &str, ago: Duration, end: Option<EndReason>) -> SessionArrival {
    let mut session = event(id, &format!("installation of {id}"), 0, end);
    session.event.started_at = start() - ago;
    session.event.user = Some(format!("user of {id}"));
    session
}

fn query<'q>(figure: &'q str, host: Option<&'q str>) -> FigureQuery<'q> {
    let to = start() + Duration::HOUR;
    let period = FigurePeriod::Hours(to - Duration::hours(48), to);
    FigureQuery { figure, app: APP, version: None, host, endpoint: None, period, before: None }
}

async fn points(database: &TestDatabase, query: FigureQuery<'_>) -> Vec<FigurePoint> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    list_points(&mut tx, query).await.unwrap().unwrap()
}

/// The hours, as their distance from the current one, with the value in per cent or in its unit, and the observations.
async fn shown(database: &TestDatabase, query: FigureQuery<'_>) -> Vec<(i64, i64, i64)> {
    let whole = |value: f64| format!("{value:.0}").parse::<i64>().unwrap();
    let hours = |begin: OffsetDateTime| (start() - begin).whole_hours();
    let points = points(database, query).await.into_iter().map(|point| {
        let factor = if point.measured.unit == "1" { 100.0 } else { 1.0 };
        (hours(point.begin), whole(factor * point.measured.value), whole(point.measured.observations))
    });
    points.collect()
}

/// It is eight o'clock.
#[tokio::test]
async fn payloads_count_in_the_hour_in_which_their_period_ended() {
    let database = database().await;
    let failing = |failed: bool| json!({"requests": [{"host": "a.example.com", "path": "/orders/1", "failed": failed}]});
    let mut arrivals = Vec::new();
    for (ago, failed) in [
        (Duration::ZERO, true),
        (Duration::minutes(1), false),
        (Duration::minutes(59), true),
        (Duration::hours(47), false),
        (Duration::hours(47) + Duration::minutes(59), false),
        (Duration::hours(48), true),
        (Duration::hours(200), true),
    ] {
        arrivals.push(payload_of(&format!("p{ago}"), ago, &failing(failed)));
    }
    store_payloads(&database, &arrivals).await;
    let before = dump(&database).await;
    store_payloads(&database, &arrivals).await;
    assert_eq!(dump(&database).await, before, "what comes again counts nothing");
    let failures = shown(&database, query("request_failures", None)).await;
    assert_eq!(failures, [(0, 100, 1), (1, 50, 2), (47, 0, 1)]);
    let at_host = shown(&database, query("request_failures", Some("a.example.com"))).await;
    assert_eq!(at_host, failures);
    let of_endpoint =
        FigureQuery { endpoint: Some("a.example.com/orders/#"), ..query("request_failures", None) };
    assert_eq!(shown(&database, of_endpoint).await, failures);
    assert_eq!(shown(&database, query("request_failures", Some("b.example.com"))).await, []);
    assert_eq!(
        shown(&database, query("launch_time_p50", None)).await,
        [(0, 800, 1), (1, 800, 2), (47, 800, 1)]
    );
    let dimensions = "SELECT count(*) FROM metric_hours WHERE dimension NOT IN ('', 'host', 'endpoint')";
    assert_eq!(database.number(dimensions).await, 0);
    let endpoints = "SELECT count(*) FROM metric_hours WHERE value = 'a.example.com/orders/#'";
    assert!(database.number(endpoints).await > 0);
    // Of the days all seven count.
    let days = FigurePeriod::Days((start() - Duration::days(27)).date(), (start() + Duration::DAY).date());
    let days = points(&database, FigureQuery { period: days, ..query("request_failures", None) }).await;
    assert_eq!(days.iter().map(|point| point.measured.observations).sum::<f64>(), 7.0);
}

#[tokio::test]
async fn sessions_count_in_the_hour_of_their_begin_however_late_they_end() {
    let database = database().await;
    let minutes = Duration::minutes;
    let begun = [minutes(0), minutes(30), minutes(50), Duration::hours(47), Duration::hours(49)];
    let events = |end: Option<EndReason>| -> Vec<SessionArrival> {
        begun.iter().enumerate().map(|(n, ago)| session_of(&format!("s{n}"), *ago, end)).collect()
    };
    store_sessions(&database, &events(None)).await;
    let sessions = shown(&database, query("crash_free_sessions", None)).await;
    assert_eq!(sessions, [(0, 100, 1), (1, 100, 2), (47, 100, 1)]);
    store_sessions(&database, &events(Some(EndReason::Crashed))[..2]).await;
    store_sessions(&database, &events(Some(EndReason::OutOfMemory))[2..]).await;
    let before = dump(&database).await;
    store_sessions(&database, &events(None)).await;
    store_sessions(&database, &events(Some(EndReason::Crashed))[..2]).await;
    assert_eq!(dump(&database).await, before, "what comes again counts nothing");
    for (figure, expected) in [
        ("crash_free_sessions", [(0, 0, 1), (1, 50, 2), (47, 100, 1)]),
        ("crash_free_users", [(0, 0, 1), (1, 50, 2), (47, 100, 1)]),
        ("out_of_memory_sessions", [(0, 0, 1), (1, 50, 2), (47, 100, 1)]),
    ] {
        assert_eq!(shown(&database, query(figure, None)).await, expected, "{figure}");
    }
    // Sessions that were counted before they came have a day alone.
    let mut counted = session_of("counted", Duration::ZERO, None);
    (counted.event.installation, counted.event.user) = (None, None);
    (counted.event.sessions, counted.event.crashed) = (Some(1_000), Some(10));
    store_sessions(&database, &[counted]).await;
    assert_eq!(shown(&database, query("crash_free_sessions", None)).await[0].2, 1);
}

#[tokio::test]
async fn rows_of_hours_go_after_two_days_and_are_of_one_tenant() {
    let database = database().await;
    store_payloads(&database, &[payload("m1", 0, &json!({}))]).await;
    store_sessions(&database, &[session_of("s1", Duration::ZERO, None)]).await;
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(list_points(&mut tx, query("launch_time_p50", None)).await.unwrap(), Some(Vec::new()));
    assert_eq!(list_points(&mut tx, query("launch_time", None)).await.unwrap(), None, "no such figure");
    tx.rollback().await.unwrap();
    database.wait(Duration::hours(49));
    assert_eq!(purge_old_rows(&database.store).await.unwrap(), 0);
    database.wait(Duration::hours(2));
    let rows = "SELECT (SELECT count(*) FROM metric_hours) + (SELECT count(*) FROM session_hour_counts)";
    let kept = database.number(rows).await;
    assert!(kept > 1);
    assert_eq!(i64::try_from(purge_old_rows(&database.store).await.unwrap()).unwrap(), kept);
    assert_eq!(database.number(rows).await, 0);
    assert!(database.number("SELECT count(*) FROM metric_days").await > 0, "days stay");
}

/// Proves: fairness
#[tokio::test]
async fn hours_have_the_bounds_of_their_day() {
    let database = database().await;
    let arrivals: Vec<MetricArrival> = (0..230)
        .map(|n| {
            let requests = json!([{"host": format!("h{n}.example.com"), "total": 5}]);
            payload_of(&format!("m{n}"), Duration::ZERO, &json!({ "requests": requests }))
        })
        .collect();
    store_payloads(&database, &arrivals).await;
    assert_eq!(
        database.number("SELECT count(DISTINCT value) FROM metric_hours WHERE dimension = 'host'").await,
        201
    );
    assert_eq!(shown(&database, query("request_failures", Some(OTHER))).await, [(0, 0, 30)]);
}

/// What a payload adds to the hours beside the days. It prints the figures that the documentation has.
#[tokio::test]
async fn a_payload_adds_fewer_rows_of_hours_than_of_days() {
    let database = database().await;
    let requests: Vec<Value> = (0..10)
        .map(|n| {
            json!({"host": format!("h{}.example.com", n % 3), "path": format!("/path{}", char::from(b'a' + n)), "method": "GET",
                   "status": 200, "protocol": "h2", "dns": 10, "connect": 20, "tls": 30, "first_byte": 90, "total": 140 + n})
        })
        .collect();
    let more = json!({"requests": requests, "os": "iOS 26.1", "device": "iPhone16,1"});
    store_payloads(&database, &[payload("m1", 0, &more)]).await;
    let mut counts = Vec::new();
    for table in ["metric_days", "metric_hours"] {
        let rows = database.number(&format!("SELECT count(*) FROM {table}")).await;
        let bytes = format!("SELECT sum(pg_column_size(t.*))::bigint FROM {table} t");
        let bytes = database.number(&bytes).await;
        println!("{table}: {rows} rows, {bytes} bytes");
        counts.push((rows, bytes));
    }
    assert!(counts[1].0 < counts[0].0 && counts[1].0 > 0, "{counts:?}");
}
