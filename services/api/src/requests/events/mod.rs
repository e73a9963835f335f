//! Events that gateways may also write to a topic themselves: one or an array in a request, sent on byte for byte.

mod read;

pub use read::split_values;

use crate::http::trace::TraceContext;
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::problem::Problem;
use crate::requests::access::{Access, ReportsWrite};
use crate::requests::body::{self, Chunks, unpack_body};
use crate::requests::broker::Broker;
use crate::requests::records::RecordMaker;
use crate::requests::refused::{RefusedElement, RefusedValue, wants_all_or_nothing};
use crate::storage::Storage;
use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use read::{EventRules, ReceivedEvent, check_events, read_events};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{AppSignal, TenantId};
use unslide_proto::event::GatewayEvent;
use unslide_store::app_signals;
use unslide_stream::OutRecord;

/// Maximum size of a request, compressed and unpacked, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of events in a request.
pub const MOST_EVENTS: usize = 1_000;
/// How long a response waits for the number of events that are not kept.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of unknown keys that a response names.
const MOST_UNREAD: usize = 20;

/// The topic that takes the events of a request.
#[derive(Clone, Copy, Debug)]
pub struct EventTarget<'t> {
    pub topic: &'t str,
    pub signal: AppSignal,
    /// Reason of an event that cannot be read: the one that the indexer has for the same event.
    pub unreadable_reason: &'static str,
}

/// Summary of the events that the broker has taken.
#[derive(Debug)]
pub struct SentEvents {
    pub accepted: usize,
    /// Number of events older than the retention time.
    pub too_old: usize,
    /// Number of other events of an app with their signal switched off: they are counted and not kept. 0 if
    /// that is not known.
    pub switched_off: usize,
    /// Keys with values that were not understood, at most twenty.
    pub unread: BTreeSet<String>,
    /// The events that were refused while others were accepted.
    pub refused: Vec<RefusedElement>,
    /// The app of the events, if they have a single one and its bundle identifier needs no escapes in a path.
    pub only_app: Option<String>,
}

/// A request with events that are not read yet.
pub struct EventRequest {
    pub access: Access<ReportsWrite>,
    /// The trace of the request.
    pub trace: TraceContext,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Body,
}

/// Sends the events of a request to the topic of their signal. Returns a summary after the broker has them. An event that
/// is refused is sent with the reason in its headers.
///
/// # Errors
/// The request is over a limit, no event is accepted, one is refused although the client wants all or none, or the broker
/// fails.
pub async fn send_events<E: GatewayEvent>(
    broker: &Arc<Broker>,
    target: EventTarget<'_>,
    request: EventRequest,
) -> Result<SentEvents, Problem> {
    let EventRequest { access, trace, headers, body } = request;
    broker.check_topics()?;
    let chunks = Chunks::new(&headers, body, MOST_BYTES, broker.capacity.limits.client_pace())?;
    // A tenant that is over its rate is refused before its body is read.
    let mut charge =
        Charge::for_reports(&broker.capacity, access.tenant(), access.principal.limits.units_per_second)?;
    let mut reserved = Reservation::new(&broker.capacity.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect_body(&mut reserved).await?;
    let (maker, is_strict) = (broker.clone(), wants_all_or_nothing(&headers));
    let (tenant, app) = (access.tenant().clone(), access.principal.app.clone());
    let now = broker.storage.clock.now();
    let keep_from = broker.storage.retention.first_day(access.principal.limits.retention_days, now);
    let (topic, unreadable_reason): (Arc<str>, _) = (target.topic.into(), target.unreadable_reason);
    let work = move |body: Bytes| {
        charge.charge_received(body.len() as u64)?;
        let body = unpack_body(&body, MOST_BYTES, &mut reserved, &mut charge)?;
        let rules = EventRules { app: app.as_deref(), now, keep_from, unreadable_reason };
        let events = read_events::<E>(&body, &rules)?;
        check_events(&events, is_strict)?;
        charge.charge_reports(events.len())?;
        // The records hold the bytes of the body, and little more.
        let maker =
            RecordMaker { broker: &maker, tenant: &tenant, sender: "", sender_key: None, trace, topic };
        let records: Vec<OutRecord> = events.iter().map(|event| make_record(&maker, event)).collect();
        Ok::<_, Problem>((records, EventTotals::from_events(&events), reserved))
    };
    let (records, totals, reserved) = body::read_body(&broker.capacity, access.tenant(), body, work).await?;
    broker.producer.send_all(&records).await?;
    drop(reserved);
    broker.metrics.events(target.signal.as_str(), totals.accepted);
    // This is only a hint: the broker has the events, whether the settings can be read or not.
    let hint = switched_off(&broker.storage, access.tenant(), target.signal, &totals);
    let switched_off = tokio::time::timeout(HINT_TIMEOUT, hint).await.map_or(0, Result::unwrap_or_default);
    let only_app = totals.only_app().map(str::to_owned);
    let EventTotals { accepted, too_old, unread, refused, .. } = totals;
    Ok(SentEvents { accepted, too_old, switched_off, unread, refused, only_app })
}

fn make_record(maker: &RecordMaker<'_>, event: &ReceivedEvent) -> OutRecord {
    match event {
        ReceivedEvent::Accepted { event, bytes } => maker.make_event(bytes, &event.id),
        ReceivedEvent::Refused(refused) => maker.make_refused(&RefusedValue {
            bytes: &refused.bytes,
            version: refused.version.as_deref(),
            reason: refused.reason,
            detail: &refused.detail,
        }),
    }
}

/// Returns how many of the events the indexer will not keep, because their app has switched their signal off.
async fn switched_off(
    storage: &Storage,
    tenant: &TenantId,
    signal: AppSignal,
    totals: &EventTotals,
) -> Result<usize, Problem> {
    let apps: BTreeSet<&str> = totals.apps.keys().map(String::as_str).collect();
    let mut tx = storage.tenant(tenant).await?;
    let signals = app_signals::read_for_apps(&mut tx, &apps).await?;
    let off = totals.apps.iter().filter(|(app, _)| !signals.for_app(app).keeps_signal(signal));
    Ok(off.map(|(_, events)| events).sum())
}

/// Totals of the events of a request.
struct EventTotals {
    accepted: usize,
    /// Number of events that are not too old, for each app.
    apps: BTreeMap<String, usize>,
    too_old: usize,
    unread: BTreeSet<String>,
    refused: Vec<RefusedElement>,
}

impl EventTotals {
    fn from_events(events: &[ReceivedEvent]) -> EventTotals {
        let mut totals = EventTotals {
            accepted: 0,
            apps: BTreeMap::new(),
            too_old: 0,
            unread: BTreeSet::new(),
            refused: Vec::new(),
        };
        for (index, event) in events.iter().enumerate() {
            let event = match event {
                ReceivedEvent::Accepted { event, .. } => event,
                ReceivedEvent::Refused(refused) => {
                    totals.refused.push(refused.to_element(index));
                    continue;
                }
            };
            totals.accepted += 1;
            *totals.apps.entry(event.app.clone()).or_default() += usize::from(!event.is_too_old);
            totals.too_old += usize::from(event.is_too_old);
            let room = MOST_UNREAD.saturating_sub(totals.unread.len());
            totals.unread.extend(event.unread.iter().take(room).cloned());
        }
        totals
    }

    fn only_app(&self) -> Option<&str> {
        let app = self.apps.keys().next()?;
        let plain =
            app.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        (plain && self.apps.len() == 1 && !matches!(app.as_str(), "." | "..")).then_some(app)
    }
}
