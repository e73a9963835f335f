//! Days of devices that MetricKit counts: each counts once, in whichever form it arrives, and its states by themselves.

use crate::health::database::{APP, database, dump, store_payloads};
use serde_json::{Value, json};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};
use unslide_harness::database::{TestDatabase, acme, start};
use unslide_health::store::figures::metric_breakdown::{self, DimensionFigures};
use unslide_health::store::metrics::{MetricArrival, MetricDimension};
use unslide_health_formats::{MetricName, MetricPayload};
use unslide_proto::event::GatewayEvent;
use unslide_store::gateway_events::EventOutcome::{self, Completed, Duplicate, New};

/// The seconds from 1970 to 2001, where Swift's dates begin.
const SWIFT_EPOCH: i64 = 978_307_200;

fn arrival(document: &Value) -> MetricArrival {
    let event = MetricPayload::from_json(document.to_string().as_bytes()).unwrap();
    MetricArrival { event, received_at: start(), sender_key: None }
}

/// Formats a time as systems before iOS 27 do.
fn device_time(time: OffsetDateTime) -> String {
    time.format(format_description!("[year]-[month]-[day] [hour]:[minute]:[second] +0000")).unwrap()
}

/// A day as systems before iOS 27 write it.
fn payload(cpu_seconds: u32) -> Value {
    json!({"appVersion": "1.0", "timeStampBegin": device_time(start() - Duration::DAY), "timeStampEnd": device_time(start()),
        "metaData": {"osVersion": "iPhone OS 27.0 (24A435)", "regionFormat": "US", "deviceType": "iPhone16,1", "bundleIdentifier": APP},
        "cpuMetrics": {"cumulativeCPUTime": format!("{cpu_seconds} sec")},
        "applicationTimeMetrics": {"cumulativeForegroundTime": "700 sec", "cumulativeBackgroundTime": "40 sec"},
        "memoryMetrics": {"peakMemoryUsage": "200,000 kB"}, "diskIOMetrics": {"cumulativeLogicalWrites": "1,300 kB"},
        "applicationExitMetrics": {"foregroundExitData": {"cumulativeNormalAppExitCount": 3}}})
}

/// The same day as iOS 27 writes it, with a state and a layer of Metal.
fn report(cpu_seconds: f64) -> Value {
    let value = |value: f64, unit: &str| json!({"value": {"value": value, "unit": unit}});
    let cpu = json!({"cpuTimeMetric": value(cpu_seconds, "s")});
    let end = start().unix_timestamp() - SWIFT_EPOCH;
    json!({"version": "2.0.0", "timeRange": {"begin": end - 86_400, "end": end},
        "environment": {"bundleIdentifier": APP, "latestApplicationVersion": "1.0", "deviceType": "iPhone16,1",
            "osVersion": {"platform": "iPhone OS", "number": "27.0", "buildNumber": "24A435"}},
        "intervalEntries": [{"duration": {"value": 86_400, "unit": "s"}, "states": [], "values": [cpu,
            {"totalForegroundTimeMetric": value(700.2, "s")}, {"totalBackgroundTimeMetric": value(40.0, "s")},
            {"peakMemoryMetric": value(200.0, "MB")}, {"logicalDiskWritesMetric": value(1.3, "MB")},
            {"metalFrameRateMetric": {"framesPerSecond": {"value": 59.5, "unit": "Hz"}}},
            {"foregroundTerminationMetric": {"normalTerminationCount": 3}}]}],
        "stateEntries": [{"state": {"domain": "com.acme.screen", "label": "map"}, "values": [{"cpuTimeMetric": value(9.0, "s")}]}]})
}

async fn figures(database: &TestDatabase, metric: MetricName, by: MetricDimension) -> Vec<DimensionFigures> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let period = (start().date(), (start() + Duration::DAY).date());
    metric_breakdown::break_down(&mut tx, APP, "1.0", metric, by, period).await.unwrap()
}

/// Returns how often the processor time of all payloads, of the state, the frame rate and the ends of the app count.
async fn counted(database: &TestDatabase) -> [f64; 4] {
    let observations = |found: Vec<DimensionFigures>| found.iter().map(|figures| figures.observations).sum();
    let ends = database.number("SELECT coalesce(sum(ends), 0)::bigint FROM app_ends").await;
    [
        observations(figures(database, MetricName::CpuTime, MetricDimension::Model).await),
        observations(figures(database, MetricName::CpuTime, MetricDimension::State).await),
        observations(figures(database, MetricName::FrameRate, MetricDimension::Model).await),
        f64::from(i32::try_from(ends).unwrap()),
    ]
}

#[tokio::test]
async fn one_day_counts_once_in_whichever_form_it_arrives() {
    let old = || arrival(&payload(100));
    let new = || arrival(&report(99.6));
    let named = |id: &str, of_apple: &Value| arrival(&json!({"id": id, "metric_kit": of_apple}));
    let orders: [(Vec<MetricArrival>, Vec<EventOutcome>); 4] = [
        (vec![new(), old(), new()], vec![New, Duplicate, Duplicate]),
        (vec![old(), new(), old(), new()], vec![New, Completed, Duplicate, Duplicate]),
        (
            vec![named("m1", &payload(100)), named("m2", &report(99.6)), named("m3", &report(99.6))],
            vec![New, Completed, Duplicate],
        ),
        (
            vec![named("m1", &report(99.6)), named("m2", &report(99.6)), old()],
            vec![New, Duplicate, Duplicate],
        ),
    ];
    for (arrivals, outcomes) in orders {
        // One by one, and together.
        let one_by_one = database().await;
        for (arrived, expected) in arrivals.iter().zip(&outcomes) {
            assert_eq!(store_payloads(&one_by_one, std::slice::from_ref(arrived)).await, [*expected]);
        }
        assert_eq!(counted(&one_by_one).await, [1.0, 1.0, 1.0, 3.0]);
        let before = dump(&one_by_one).await;
        store_payloads(&one_by_one, &arrivals).await;
        assert_eq!(dump(&one_by_one).await, before, "a replay changes nothing");
        let together = database().await;
        store_payloads(&together, &arrivals).await;
        assert_eq!(counted(&together).await, [1.0, 1.0, 1.0, 3.0]);
    }
    // Another device of the model, and the same figures of another day.
    let database = database().await;
    let mut later = payload(100);
    later["timeStampEnd"] = json!(device_time(start() - Duration::DAY));
    let days = [old(), arrival(&payload(107)), arrival(&later)];
    assert_eq!(store_payloads(&database, &days).await, [New; 3]);
}

#[tokio::test]
async fn states_are_counted_by_themselves_in_rows_of_the_day() {
    let database = database().await;
    let mut two = report(99.6);
    let state = json!({"state": {"domain": "com.acme.screen", "label": "list"}, "values": two["stateEntries"][0]["values"]});
    two["stateEntries"].as_array_mut().unwrap().push(state);
    assert_eq!(store_payloads(&database, &[arrival(&two)]).await, [New]);
    let rows = database
        .rows("SELECT value, metric, observations FROM metric_days WHERE dimension = 'state' ORDER BY 1, 2")
        .await;
    let rows: Vec<(String, String, f64)> = rows
        .iter()
        .map(|row| (sqlx::Row::get(row, 0), sqlx::Row::get(row, 1), sqlx::Row::get(row, 2)))
        .collect();
    let row = |label: &str| (format!("com.acme.screen: {label}"), "cpu_time".to_owned(), 1.0);
    assert_eq!(rows, [row("list"), row("map")]);
    let found = figures(&database, MetricName::CpuTime, MetricDimension::State).await;
    let medians: Vec<Option<f64>> = found.iter().map(|state| state.p50).collect();
    assert_eq!(medians, [Some(9_000.0), Some(9_000.0)]);
    let all = figures(&database, MetricName::CpuTime, MetricDimension::Model).await;
    assert_eq!(all[0].p50, Some(99_600.0), "a state is a part of the day and not added to it");
}
