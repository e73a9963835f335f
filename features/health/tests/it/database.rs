//! A database of one test, with the hook of health and events to fill it with.

use serde_json::{Value, json};
use sqlx::Row;
use time::format_description::well_known::Rfc3339;
use time::{Date, Duration};
use unslide_harness::database::{TestDatabase, acme, start};
use unslide_health::store::HEALTH_HOOK;
use unslide_health::store::metrics::{self, MetricArrival};
use unslide_health::store::sessions::{self, EndReason, SessionArrival, SessionEvent, TerminationEvidence};
use unslide_health_formats::MetricPayload;
use unslide_model::TenantId;
use unslide_proto::event::GatewayEvent;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::partitions;

pub const APP: &str = "com.acme.shop";

/// The tables that events change.
pub const TABLES: [&str; 10] = [
    "sessions",
    "session_days",
    "session_hour_counts",
    "metric_payloads",
    "memory_exceptions",
    "metric_versions",
    "metric_days",
    "metric_hours",
    "signal_drops",
    "app_ends",
];

pub async fn database() -> TestDatabase {
    TestDatabase::new(&[HEALTH_HOOK]).await
}

/// Everything that events have changed, as text.
pub async fn dump(database: &TestDatabase) -> Vec<String> {
    let mut dump = Vec::new();
    for table in TABLES {
        let rows = database.rows(&format!("SELECT t::text FROM {table} t ORDER BY 1")).await;
        dump.extend(rows.iter().map(|row| format!("{table} {}", row.get::<String, _>(0))));
    }
    dump
}

/// An event of a session of installation `i` in version 1.0 that began `days` days ago.
pub fn event(id: &str, installation: &str, days: i64, end: Option<EndReason>) -> SessionArrival {
    let event = SessionEvent {
        id: id.to_owned(),
        installation: Some(installation.to_owned()),
        sessions: None,
        crashed: None,
        user: Some("robin".to_owned()),
        app: APP.to_owned(),
        version: "1.0".to_owned(),
        os: Some("iOS 26.1".to_owned()),
        device: Some("iPhone16,1".to_owned()),
        flags: None,
        pid: None,
        started_at: start() - Duration::days(days),
        ended_at: None,
        duration: end.map(|_| 12.5),
        foreground: Some(true),
        sampled: None,
        end_reason: end,
        termination: None,
        unread: Vec::new(),
    };
    SessionArrival { event, received_at: start(), sender_key: None }
}

/// The session of an installation of its own. The app reported its footprint and perhaps its limit, in MiB; with a
/// limit it ended by itself.
pub fn measured(id: &str, footprint: u64, limit: Option<u64>) -> SessionArrival {
    let mut measured = event(id, &format!("installation of {id}"), 0, None);
    measured.event.termination = Some(TerminationEvidence {
        exit_called: limit.is_some(),
        footprint: Some(footprint << 20),
        footprint_limit: limit.map(|limit| limit << 20),
        ..TerminationEvidence::default()
    });
    measured
}

/// A payload with more fields that ended `days` days ago.
pub fn payload(id: &str, days: i64, more: &Value) -> MetricArrival {
    let at = (start() - Duration::days(days)).format(&Rfc3339).unwrap();
    let mut payload = json!({"id": id, "app": APP, "version": "1.0", "measured_at": at,
        "measurements": [{"name": "launch_time", "unit": "ms", "value": 800}],
        "requests": [{"host": "api.example.com", "dns": 10, "total": 200}]});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let payload = MetricPayload::from_json(payload.to_string().as_bytes()).unwrap();
    MetricArrival { event: payload, received_at: start(), sender_key: None }
}

/// The first day that the tests keep.
pub fn oldest_day() -> Date {
    (start() - Duration::days(90)).date()
}

/// Stores session events of a tenant.
pub async fn store_sessions_for(
    database: &TestDatabase,
    tenant: &TenantId,
    arrivals: &[SessionArrival],
) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let arrivals: Vec<&SessionArrival> = arrivals.iter().collect();
    let stored = sessions::store(&mut tx, &arrivals, oldest_day()).await.unwrap();
    tx.commit().await.unwrap();
    stored
}

/// Stores session events of [`acme`].
pub async fn store_sessions(database: &TestDatabase, arrivals: &[SessionArrival]) -> Vec<EventOutcome> {
    store_sessions_for(database, &acme(), arrivals).await
}

/// Stores metric payloads of a tenant.
pub async fn store_payloads_for(
    database: &TestDatabase,
    tenant: &TenantId,
    arrivals: &[MetricArrival],
) -> Vec<EventOutcome> {
    for day in arrivals.iter().map(|arrival| arrival.event.event_day()) {
        partitions::ensure_partitions(&database.store, day, day).await.unwrap();
    }
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let arrivals: Vec<&MetricArrival> = arrivals.iter().collect();
    let stored = metrics::store(&mut tx, &arrivals, oldest_day()).await.unwrap();
    tx.commit().await.unwrap();
    stored
}

/// Stores metric payloads of [`acme`].
pub async fn store_payloads(database: &TestDatabase, arrivals: &[MetricArrival]) -> Vec<EventOutcome> {
    store_payloads_for(database, &acme(), arrivals).await
}
