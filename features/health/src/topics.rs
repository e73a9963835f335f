//! The topics of the indexer: session events and metric payloads.

use crate::store::metrics::{self, MetricArrival};
use crate::store::sessions::{self, SessionArrival, SessionEvent};
use time::Date;
use unslide_health_formats::MetricPayload;
use unslide_indexer::{EventTopic, TopicEvent};
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
        store: store_sessions,
    },
    EventTopic {
        kind: "metrics",
        name: |topics| &topics.metrics,
        read: TopicEvent::read::<MetricPayload>,
        unreadable_reason: BAD_METRICS,
        store: store_metrics,
    },
];

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
