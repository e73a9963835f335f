//! `POST /v1/sessions`.

use crate::http::trace::TraceContext;
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::operations::prelude::*;
use crate::requests::body::{Chunks, gunzip, is_gzip};
use axum::Extension;
use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_store::sessions::SessionEvent;
use unslide_stream::OutRecord;
use utoipa::PartialSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{OneOfBuilder, Ref, RefOr, Schema};

/// Bytes of a request, packed and unpacked.
const MOST_BYTES: u64 = 1 << 20;
/// Events of a request.
const MOST_EVENTS: usize = 1_000;

/// What the broker has taken.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentSessions {
    /// How many events there were.
    #[schema(minimum = 1, maximum = 1000)]
    pub accepted: usize,
}

/// What one request of session events holds.
pub struct SessionEvents;

impl PartialSchema for SessionEvents {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name("SessionEvent");
        let many = ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(MOST_EVENTS));
        OneOfBuilder::new().item(one()).item(many).into()
    }
}

impl ToSchema for SessionEvents {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((SessionEvent::name().into_owned(), SessionEvent::schema()));
        SessionEvent::schemas(schemas);
    }
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Send session events
///
/// Takes one event or an array of at most 1,000, in at most 1 MiB, also gzipped (told by its first bytes).
/// The events go to the topic `crash.sessions`; the answer comes when the broker has all of them. A
/// session is counted once, by its `id`, however often its events come: send an event when a session
/// begins and one when it has ended, or only the latter. After a crash, send the crashed session at the next
/// start with `end_reason` `crashed` and the `started_at` that it had. A session that began more than 30 days
/// before its event arrives is not counted.
///
/// A request costs one unit for each event in it, and one for each 64 KiB of the body as it came or
/// unpacked, whichever is more, of the same `units_per_second` as reports. It is taken whole or not at all.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", operation_id = "send_sessions",
    request_body(description = "One event or many.", content(
        (SessionEvents = "application/json", example = json!([{"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59", "installation": "b1946ac92492d234", "app": "com.example.shop", "version": "3.1.4", "started_at": "2026-11-20T08:00:00Z", "duration": 95, "foreground": true, "end_reason": "exited"}])),
        (Vec<u8> = "application/gzip"))),
    responses((status = 202, description = "The broker has all events.",
        headers(("location" = String, description = "The path of the app's crash-free shares, once the events are counted; only where all events are of one app.")),
        body = SentSessions), Failures),
    security(("key" = ["reports:write"])))]
pub async fn send_sessions(
    State(api): State<Api>,
    access: Access<ReportsWrite>,
    Extension(trace): Extension<TraceContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<SentSessions>, Problem> {
    let chunks = Chunks::new(&headers, body, MOST_BYTES, api.limits.pace())?;
    // A tenant that is over its rate is refused before its body is read.
    let mut charge = Charge::of_reports(&api, access.tenant(), access.principal.limits.units_per_second)?;
    let mut reserved = Reservation::new(&api.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect(&mut reserved).await?;
    let (maker, tenant, app) = (api.clone(), access.tenant().clone(), access.principal.app.clone());
    let work = move || {
        charge.received(body.len() as u64)?;
        let body = match is_gzip(&body) {
            true => gunzip(&body, MOST_BYTES, &mut reserved, &mut charge)?.into(),
            false => body,
        };
        let events = events(&body, app.as_deref(), maker.clock.now())?;
        charge.reports(events.len())?;
        let location = location(&events);
        // The records hold the bytes of the body, and little more.
        let records = events.into_iter().map(|(event, bytes)| record(&maker, &tenant, trace, &event, &bytes));
        Ok::<_, Problem>((records.collect::<Vec<OutRecord>>(), location, reserved))
    };
    let (records, location, reserved) = api.cpu.run_for(access.tenant(), work).await??;
    api.producer.send_all(&records).await?;
    drop(reserved);
    api.metrics.sessions.inc_by(records.len() as u64);
    Ok(AcceptedResponse { body: SentSessions { accepted: records.len() }, location })
}

/// Where the figures of the events' app are, if it is one app. Bundle identifiers need no escapes in a path.
fn location(events: &[(SessionEvent, Bytes)]) -> Option<String> {
    let app = &events.first()?.0.app;
    let plain = app.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    let one = events.iter().all(|(event, _)| event.app == *app);
    (plain && one && !matches!(app.as_str(), "." | "..")).then(|| format!("/v1/apps/{app}/health"))
}

/// The events of a body with their bytes.
fn events(
    body: &Bytes,
    app: Option<&str>,
    now: OffsetDateTime,
) -> Result<Vec<(SessionEvent, Bytes)>, Problem> {
    let invalid = |detail: String| Problem::new(Kind::InvalidBody, detail);
    if !body.trim_ascii_start().starts_with(b"[") {
        let bytes = body.slice_ref(body.trim_ascii());
        return Ok(vec![(event(&bytes, app, now, "")?, bytes)]);
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
        Ok((event(&bytes, app, now, &format!("event {index}: "))?, bytes))
    };
    values.iter().enumerate().map(read).collect()
}

/// One event; `place` says which in errors.
fn event(bytes: &[u8], app: Option<&str>, now: OffsetDateTime, place: &str) -> Result<SessionEvent, Problem> {
    let read = SessionEvent::read(bytes).and_then(|event| event.check_start(now).map(|()| event));
    let event = read.map_err(|error| Problem::new(Kind::InvalidBody, format!("{place}{error}")))?;
    match app {
        Some(own) if event.app != own => {
            let problem = format!("{place}the key speaks for {own} alone, and the event is not of it");
            Err(Problem::new(Kind::InsufficientScope, problem))
        }
        _ => Ok(event),
    }
}

fn record(
    api: &Api,
    tenant: &TenantId,
    trace: TraceContext,
    event: &SessionEvent,
    bytes: &Bytes,
) -> OutRecord {
    let topic: Arc<str> = api.topics.sessions.as_str().into();
    let mut record = OutRecord::to(topic, bytes.clone())
        .header(headers::TENANT, tenant.as_str().to_owned())
        .header(headers::TRACEPARENT, trace.header());
    if let Some(signer) = &api.signer {
        let signed = signer.headers(tenant, api.clock.now_micros() / 1_000, bytes);
        signed.into_iter().for_each(|(name, value)| record.headers.push(name, value));
    }
    // The events of one session lie in one partition, in their order.
    record.key(format!("{tenant}/{}", event.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const EVENT: &str =
        r#"{"id":"s1","installation":"i","app":"com.acme.shop","started_at":"2026-11-20T08:00:00Z"}"#;

    fn read(body: &str, app: Option<&str>) -> Result<usize, (Kind, String)> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let read = events(&body, app, datetime!(2026-11-20 09:00 UTC));
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
    fn the_figures_of_one_app_are_named_and_those_of_several_are_not() {
        let located = |body: String| {
            let body = Bytes::from(body);
            location(&events(&body, None, datetime!(2026-11-20 09:00 UTC)).unwrap())
        };
        assert_eq!(located(EVENT.to_owned()).as_deref(), Some("/v1/apps/com.acme.shop/health"));
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
            (EVENT.replace("2026", "2028"), "`started_at` lies more than a day ahead"),
            ("[".repeat(5_000), ""),
        ] {
            let (kind, detail) = read(&body, None).unwrap_err();
            assert_eq!(kind, Kind::InvalidBody);
            assert!(detail.contains(words), "{detail}");
        }
        let (kind, detail) = read(&format!("[{EVENT}]"), Some("com.acme.bank")).unwrap_err();
        assert_eq!(kind, Kind::InsufficientScope);
        assert!(detail.starts_with("event 0: the key speaks for com.acme.bank alone"), "{detail}");
    }
}
