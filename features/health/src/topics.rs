//! The topics of the indexer: session events and metric payloads.

use crate::store::metrics::{self, MetricArrival};
use crate::store::sessions::{self, SessionArrival, SessionEvent};
use serde_json::{Map, Value};
use time::Date;
use unslide_health_formats::MetricPayload;
use unslide_indexer::{AppKeys, EventKeys, EventTopic, TopicEvent};
use unslide_store::gateway_events::EventOutcome;
use unslide_store::{HookFuture, TenantTx};

/// Reason of session events that cannot be read.
pub const BAD_SESSION: &str = "bad_session";
/// Reason of metric payloads that cannot be read.
pub const BAD_METRICS: &str = "bad_metrics";

pub const TOPICS: &[EventTopic] = &[
    EventTopic {
        kind: "sessions",
        name: |topics| &topics.sessions,
        read: TopicEvent::read::<SessionEvent>,
        unreadable_reason: BAD_SESSION,
        keys: Some(EventKeys { list: list_flags, replace: replace_flags }),
        store: store_sessions,
    },
    EventTopic {
        kind: "metrics",
        name: |topics| &topics.metrics,
        read: TopicEvent::read::<MetricPayload>,
        unreadable_reason: BAD_METRICS,
        keys: None,
        store: store_metrics,
    },
];

fn list_flags(event: &TopicEvent) -> Option<AppKeys<'_>> {
    let event = &event.arrival::<SessionEvent>()?.event;
    Some(AppKeys { app: &event.app, keys: event.flags.as_ref()? })
}

fn replace_flags(event: TopicEvent, flags: Option<Map<String, Value>>) -> TopicEvent {
    event.change_event(|event: &mut SessionEvent| event.flags = flags)
}

fn store_sessions<'t>(
    tx: &'t mut TenantTx,
    events: &'t [&'t TopicEvent],
    keep_from: Date,
) -> HookFuture<'t, Vec<EventOutcome>> {
    Box::pin(async move {
        let arrivals: Vec<&SessionArrival> = events.iter().filter_map(|event| event.arrival()).collect();
        sessions::store(tx, &arrivals, keep_from).await
    })
}

fn store_metrics<'t>(
    tx: &'t mut TenantTx,
    events: &'t [&'t TopicEvent],
    keep_from: Date,
) -> HookFuture<'t, Vec<EventOutcome>> {
    Box::pin(async move {
        let arrivals: Vec<&MetricArrival> = events.iter().filter_map(|event| event.arrival()).collect();
        metrics::store(tx, &arrivals, keep_from).await
    })
}
