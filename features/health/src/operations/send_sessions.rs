//! `POST /v1/sessions`.

use super::prelude::*;

use crate::store::sessions::SessionEvent;
use crate::topics;
use axum::Extension;
use axum::body::Body;
use http::HeaderMap;
use unslide_api::feature::events::{
    self, EventRequest, EventTarget, MOST_EVENTS, RefusedElement, TraceContext,
};
use unslide_model::AppSignal;
use utoipa::PartialSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{OneOfBuilder, Ref, RefOr, Schema};

/// The events that the broker has taken.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentSessions {
    /// Number of accepted events.
    #[schema(minimum = 1, maximum = 1000)]
    pub accepted: usize,
    /// Events of sessions that began too long ago: more than 30 days before, or before what the tenant keeps. They are not counted, and sending
    /// them again changes nothing.
    pub too_old: usize,
    /// Events of apps with sessions switched off: they are counted as dropped and not kept. Sending them again
    /// changes nothing.
    pub switched_off: usize,
    /// The events that were refused while these were accepted.
    #[schema(max_items = 1000)]
    pub refused: Vec<RefusedElement>,
    /// Optional texts of the events (`user`, `version`, `os`, `device`) that were left out, because they have no or more than
    /// 200 characters, or are no text; and `flags` if some of them were left out. Everything else of these events is counted.
    #[schema(max_items = 20, example = json!(["os"]))]
    pub unread: Vec<String>,
}

/// The body of a request with session events.
pub struct SessionEvents;

impl PartialSchema for SessionEvents {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::new("schemas/sessions-v1.json");
        let many = ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(MOST_EVENTS));
        OneOfBuilder::new().item(one()).item(many).into()
    }
}

impl ToSchema for SessionEvents {}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Send session events
///
/// Takes one event or an array of at most 1,000, in at most 1 MiB, also gzipped (detected by its first bytes).
/// The events go to the topic `crash.sessions`; the answer comes when the broker has all of them. A session is
/// counted once, by its `id`, for any number of events. Send an event at its begin and one at its end, or only
/// the latter. After a crash, send the crashed session at the next start with `end_reason` `crashed` and the
/// `started_at` that it had. A session that began more than 30 days before its event arrives, or before the
/// tenant's retention, is not counted: `too_old` has their number.
///
/// A request costs one unit for each event in it, and one for each 64 KiB of the body, as sent or unpacked,
/// whichever is more. They count against the same `units_per_second` as reports.
///
/// An odd `user`, `version`, `os` or `device` and odd `flags` refuse nothing: they are left out, and `unread` names them.
/// An event that can't be read or is of another app than the key's refuses no other: `refused` lists it, and it becomes a
/// dead letter with the same reason. If no event is accepted, the answer is the problem of the first, and nothing is kept.
/// With `Prefer: handling=strict` one such event refuses the whole request.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", operation_id = "send_sessions",
    request_body(description = "Replace the `started_at` of the example: it is a past date. One event or many.", content(
        (SessionEvents = "application/json", example = json!([{"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59", "installation": "b1946ac92492d234", "app": "com.example.shop", "version": "3.1.4", "started_at": "2026-11-20T08:00:00Z", "duration": 95, "foreground": true, "end_reason": "exited"}])),
        (Vec<u8> = "application/gzip"))),
    params(("prefer" = Option<String>, Header, description = "`handling=strict`: accept all events or none.")),
    responses((status = 202, description = "The broker has all events.",
        headers(("location" = String, description = "The path of the app's crash-free shares, once the events are counted; only if all events are of one app.")),
        body = SentSessions), Failures),
    security(("key" = ["reports:write"])))]
pub async fn send_sessions(
    State(broker): State<Arc<Broker>>,
    access: Access<ReportsWrite>,
    Extension(trace): Extension<TraceContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<SentSessions>, Problem> {
    let request = EventRequest { access, trace, headers, body };
    let target = EventTarget {
        topic: &broker.topics.sessions,
        signal: AppSignal::Sessions,
        unreadable_reason: topics::BAD_SESSION,
    };
    let sent = events::send_events::<SessionEvent>(&broker, target, request).await?;
    let location = sent.only_app.map(|app| format!("/v1/apps/{app}/health"));
    let body = SentSessions {
        accepted: sent.accepted,
        too_old: sent.too_old,
        switched_off: sent.switched_off,
        refused: sent.refused,
        unread: sent.unread.into_iter().collect(),
    };
    Ok(AcceptedResponse { body, location })
}
