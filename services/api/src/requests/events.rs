//! Events that gateways may also write to a topic themselves: one or an array in a request, sent on byte for byte.

use crate::http::problem::{Kind, Problem};
use crate::http::trace::TraceContext;
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::requests::access::{Access, ReportsWrite};
use crate::requests::body::{self, Chunks, unpack_body};
use crate::state::Api;
use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use time::{Date, OffsetDateTime};
use unslide_model::TenantId;
use unslide_proto::event::GatewayEvent;
use unslide_proto::headers;
use unslide_store::app_signals::{self, AppSignal};
use unslide_store::gateway_events::is_too_old;
use unslide_stream::OutRecord;

/// Maximum size of a request, compressed and unpacked, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of events in a request.
pub const MOST_EVENTS: usize = 1_000;
/// How long a response waits for the number of events that are not kept.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of unknown keys that a response names.
const MOST_UNREAD: usize = 20;

/// The parts of an event that are needed while the broker takes its bytes.
#[derive(Clone, Debug)]
pub struct ReadGatewayEvent {
    /// The id that is unique among the events of an app.
    id: String,
    app: String,
    /// Keys with values that were not understood.
    unread: Vec<String>,
    /// True if the store will not count it because of its age.
    is_too_old: bool,
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

/// Sends the events of a request to the topic of their signal, all or none of them. Returns a summary after
/// the broker has them.
///
/// # Errors
/// The request is over a limit, an event cannot be read, or the broker fails.
pub async fn send_events<E: GatewayEvent>(
    api: &Api,
    topic: &str,
    signal: AppSignal,
    request: EventRequest,
) -> Result<SentEvents, Problem> {
    let EventRequest { access, trace, headers, body } = request;
    api.check_topics()?;
    let chunks = Chunks::new(&headers, body, MOST_BYTES, api.limits.client_pace())?;
    // A tenant that is over its rate is refused before its body is read.
    let mut charge = Charge::for_reports(api, access.tenant(), access.principal.limits.units_per_second)?;
    let mut reserved = Reservation::new(&api.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect_body(&mut reserved).await?;
    let (maker, tenant, app) = (api.clone(), access.tenant().clone(), access.principal.app.clone());
    let now = api.clock.now();
    let keep_from = api.retention.first_day(access.principal.limits.retention_days, now);
    let topic: Arc<str> = topic.into();
    let work = move |body: Bytes| {
        charge.charge_received(body.len() as u64)?;
        let body = unpack_body(&body, MOST_BYTES, &mut reserved, &mut charge)?;
        let events = read_events::<E>(&body, &EventRules { app: app.as_deref(), now, keep_from })?;
        charge.charge_reports(events.len())?;
        // The records hold the bytes of the body, and little more.
        let record = |(event, bytes): &(ReadGatewayEvent, Bytes)| {
            let record = build_record(&maker, &tenant, trace, Arc::clone(&topic), bytes);
            // Events with the same id are in the same partition, in order.
            record.key(format!("{tenant}/{}", event.id))
        };
        let records: Vec<OutRecord> = events.iter().map(record).collect();
        Ok::<_, Problem>((records, EventTotals::from_events(&events), reserved))
    };
    let (records, totals, reserved) = body::read_body(api, access.tenant(), body, work).await?;
    api.producer.send_all(&records).await?;
    drop(reserved);
    api.metrics.events(signal.as_str(), records.len());
    // This is only a hint: the broker has the events, whether the settings can be read or not.
    let hint = switched_off(api, access.tenant(), signal, &totals);
    let switched_off = tokio::time::timeout(HINT_TIMEOUT, hint).await.map_or(0, Result::unwrap_or_default);
    let only_app = totals.only_app().map(str::to_owned);
    Ok(SentEvents {
        accepted: records.len(),
        too_old: totals.too_old,
        switched_off,
        unread: totals.unread,
        only_app,
    })
}

/// Returns how many of the events the indexer will not keep, because their app has switched their signal off.
async fn switched_off(
    api: &Api,
    tenant: &TenantId,
    signal: AppSignal,
    totals: &EventTotals,
) -> Result<usize, Problem> {
    let apps: BTreeSet<&str> = totals.apps.keys().map(String::as_str).collect();
    let mut tx = api.tenant(tenant).await?;
    let signals = app_signals::read_for_apps(&mut tx, &apps).await?;
    let off = totals.apps.iter().filter(|(app, _)| !signals.for_app(app).keeps_signal(signal));
    Ok(off.map(|(_, events)| events).sum())
}

/// Totals of the events of a request.
struct EventTotals {
    /// Number of events that are not too old, for each app.
    apps: BTreeMap<String, usize>,
    too_old: usize,
    unread: BTreeSet<String>,
}

impl EventTotals {
    fn from_events(events: &[(ReadGatewayEvent, Bytes)]) -> EventTotals {
        let mut totals = EventTotals { apps: BTreeMap::new(), too_old: 0, unread: BTreeSet::new() };
        for (event, _) in events {
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

/// Rules for the events of a request.
struct EventRules<'r> {
    /// The only app that the key may send events of.
    app: Option<&'r str>,
    now: OffsetDateTime,
    /// The first day of the tenant's retention time.
    keep_from: Date,
}

/// Reads the events of a body, each with its bytes.
fn read_events<E: GatewayEvent>(
    body: &Bytes,
    rules: &EventRules<'_>,
) -> Result<Vec<(ReadGatewayEvent, Bytes)>, Problem> {
    let invalid = |detail: String| Problem::new(Kind::InvalidBody, detail);
    if !body.trim_ascii_start().starts_with(b"[") {
        let bytes = body.slice_ref(body.trim_ascii());
        return Ok(vec![(read_event::<E>(&bytes, rules, "")?, bytes)]);
    }
    let values: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    if values.is_empty() {
        return Err(invalid("the array has no event".to_owned()));
    }
    if values.len() > MOST_EVENTS {
        let detail = format!("more than {MOST_EVENTS} events; send them in several requests");
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    let read = |(index, value): (usize, &&RawValue)| {
        let bytes = body.slice_ref(value.get().as_bytes());
        Ok((read_event::<E>(&bytes, rules, &format!("event {index}: "))?, bytes))
    };
    values.iter().enumerate().map(read).collect()
}

/// Reads one event; `place` names its position in error messages.
fn read_event<E: GatewayEvent>(
    bytes: &[u8],
    rules: &EventRules<'_>,
    place: &str,
) -> Result<ReadGatewayEvent, Problem> {
    let event = E::read_at(bytes, rules.now)
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("{place}{error}")))?;
    match rules.app {
        Some(own) if event.app() != own => {
            let problem =
                format!("{place}the key is valid for the app {own} only, and the event is of another app");
            Err(Problem::new(Kind::InsufficientScope, problem))
        }
        _ => Ok(ReadGatewayEvent {
            id: event.id().to_owned(),
            app: event.app().to_owned(),
            unread: event.unread_keys().to_vec(),
            is_too_old: is_too_old(&event, rules.now, rules.keep_from),
        }),
    }
}

/// Creates a tenant's record for a topic that gateways write to, signed if the api has a key.
pub fn build_record(
    api: &Api,
    tenant: &TenantId,
    trace: TraceContext,
    topic: Arc<str>,
    bytes: &Bytes,
) -> OutRecord {
    let mut record = OutRecord::for_topic(topic, bytes.clone())
        .header(headers::TENANT, tenant.as_str().to_owned())
        .header(headers::TRACEPARENT, trace.format_header());
    if let Some(signer) = &api.signer {
        let signed = signer.signature_headers(tenant, api.clock.now_micros() / 1_000, bytes);
        signed.into_iter().for_each(|(name, value)| record.headers.push(name, value));
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};
    use unslide_proto::event::EventError;

    /// An event as a feature has it.
    #[derive(serde::Deserialize)]
    struct Launch {
        id: String,
        app: String,
        #[serde(with = "time::serde::rfc3339")]
        measured_at: OffsetDateTime,
    }

    impl GatewayEvent for Launch {
        fn from_json(json: &[u8]) -> Result<Launch, EventError> {
            serde_json::from_slice(json).map_err(|error| EventError::Json(error.to_string()))
        }

        fn id(&self) -> &str {
            &self.id
        }

        fn app(&self) -> &str {
            &self.app
        }

        fn event_time(&self) -> (&'static str, OffsetDateTime) {
            ("measured_at", self.measured_at)
        }
    }

    const EVENT: &str = r#"{"id":"m1","app":"com.acme.shop","measured_at":"2026-11-20T08:00:00Z"}"#;

    const RULES: EventRules<'static> =
        EventRules { app: None, now: datetime!(2026-11-20 09:00 UTC), keep_from: date!(2026 - 08 - 22) };

    fn read(body: &str, app: Option<&str>) -> Result<usize, (Kind, String)> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let read = read_events::<Launch>(&body, &EventRules { app, ..RULES });
        read.map(|events| {
            assert!(events.iter().all(|(_, bytes)| bytes == EVENT), "byte for byte");
            events.len()
        })
        .map_err(|problem| (problem.kind(), problem.detail().unwrap_or_default().to_owned()))
    }

    #[test]
    fn one_event_or_an_array_is_taken_byte_for_byte() {
        assert_eq!(read(EVENT, None), Ok(1));
        assert_eq!(read(&format!("\n {EVENT} \n"), Some("com.acme.shop")), Ok(1));
        assert_eq!(read(&format!(" [{EVENT},\n{EVENT}] "), None), Ok(2));
        let most = vec![EVENT; MOST_EVENTS].join(",");
        assert_eq!(read(&format!("[{most}]"), None), Ok(MOST_EVENTS));
        let (kind, detail) = read(&format!("[{most},{EVENT}]"), None).unwrap_err();
        assert_eq!(
            (kind, detail.as_str()),
            (Kind::TooLarge, "more than 1000 events; send them in several requests")
        );
    }

    #[test]
    fn events_that_are_too_old_are_counted_apart_from_those_of_their_app() {
        let totals = |started_at: &str, keep_from| {
            let body = Bytes::from(format!("[{EVENT},{}]", EVENT.replace("2026-11-20", started_at)));
            let read = read_events::<Launch>(&body, &EventRules { keep_from, ..RULES }).unwrap();
            let totals = EventTotals::from_events(&read);
            (totals.too_old, totals.apps["com.acme.shop"])
        };
        assert_eq!(totals("2026-10-21", RULES.keep_from), (0, 2), "30 days ago");
        assert_eq!(totals("2026-10-20", RULES.keep_from), (1, 1), "31 days ago");
        assert_eq!(totals("2026-11-13", date!(2026 - 11 - 13)), (0, 2), "the first day that is kept");
        assert_eq!(totals("2026-11-12", date!(2026 - 11 - 13)), (1, 1), "the day before it");
    }

    #[test]
    fn one_app_is_named_and_several_are_not() {
        let located = |body: String| {
            let body = Bytes::from(body);
            let read = read_events::<Launch>(&body, &RULES).unwrap();
            EventTotals::from_events(&read).only_app().map(str::to_owned)
        };
        assert_eq!(located(EVENT.to_owned()).as_deref(), Some("com.acme.shop"));
        assert_eq!(located(format!("[{EVENT},{}]", EVENT.replace("shop", "bank"))), None);
        for odd in ["a/b", "..", "ä", "a\\r\\nb", "a b"] {
            assert_eq!(located(EVENT.replace("com.acme.shop", odd)), None, "{odd}");
        }
    }

    #[test]
    fn a_refusal_names_the_event_and_the_field() {
        for (body, words) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "the array has no event"),
            (format!("[{EVENT},"), "EOF"),
            (format!("{EVENT}{EVENT}"), "trailing"),
            (format!("[{EVENT},{{}}]"), "event 1: missing field"),
            (EVENT.replace("2026", "2028"), "`measured_at` lies more than a day ahead"),
            ("[".repeat(5_000), ""),
        ] {
            let (kind, detail) = read(&body, None).unwrap_err();
            assert_eq!(kind, Kind::InvalidBody);
            assert!(detail.contains(words), "{detail}");
        }
        let (kind, detail) = read(&format!("[{EVENT}]"), Some("com.acme.bank")).unwrap_err();
        assert_eq!(kind, Kind::InsufficientScope);
        assert!(detail.starts_with("event 0: the key is valid for the app com.acme.bank only"), "{detail}");
    }
}
