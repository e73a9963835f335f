//! `POST /v1/metrics`.

use super::prelude::*;

use crate::topics;
use axum::Extension;
use axum::body::Body;
use http::HeaderMap;
use unslide_api::feature::events::{
    self, EventRequest, EventTarget, MOST_EVENTS, RefusedElement, TraceContext,
};
use unslide_health_formats::MetricPayload;
use unslide_model::AppSignal;
use utoipa::PartialSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{OneOfBuilder, Ref, RefOr, Schema};

/// The events that the broker has taken.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentMetrics {
    /// Number of accepted payloads.
    #[schema(minimum = 1, maximum = 1000)]
    pub accepted: usize,
    /// Payloads of periods that ended too long ago: more than 30 days before, or before what the tenant keeps. They are not counted, and sending
    /// them again changes nothing.
    pub too_old: usize,
    /// Payloads of apps with metrics switched off: they are counted as dropped and not kept. Sending them again
    /// changes nothing.
    pub switched_off: usize,
    /// The payloads that were refused while these were accepted.
    #[schema(max_items = 1000)]
    pub refused: Vec<RefusedElement>,
    /// Members of the payloads with a value that was not understood, such as `requests.path`, and keys of MetricKit whose
    /// language or unit is not known. Everything else is counted.
    #[schema(max_items = 20, example = json!(["cpuMetrics.cumulativeCPUTime", "battery.start.level"]))]
    pub unread: Vec<String>,
}

/// The body of a request with metric payloads.
pub struct MetricPayloads;

impl PartialSchema for MetricPayloads {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::new("schemas/metrics-v1.json");
        let many = ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(MOST_EVENTS));
        OneOfBuilder::new().item(one()).item(many).into()
    }
}

impl ToSchema for MetricPayloads {}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Send metric payloads
///
/// Takes one payload of at most 256 KiB or an array of at most 1,000, in at most 1 MiB, also gzipped (detected by its first
/// bytes). A payload has the measurements of one device in one period, as JSON in Unslide's own form or as MetricKit's
/// `jsonRepresentation()`. The payloads go to the topic `crash.metrics`; the answer comes when the broker has all of them. A
/// payload is counted once, by its `id`. A period that ended more than 30 days before its payload arrives, or before the
/// tenant's retention, is not counted: `too_old` has their number.
///
/// A value that is not understood refuses nothing: it is left out, and `unread` names it. A payload that can't be read, such as
/// one without `id`, or is of another app than the key's refuses no other: `refused` lists it, and it becomes a
/// dead letter with the same reason. If no payload is accepted, the answer is the problem of the first, and nothing is kept.
/// With `Prefer: handling=strict` one such payload refuses the whole request. A request costs as much as one of session
/// events.
#[utoipa::path(post, path = "/v1/metrics", tag = "metrics", operation_id = "send_metrics",
    request_body(description = "Replace the `measured_at` of the example: it is a past date. One payload or many.", content(
        (MetricPayloads = "application/json", example = json!([{"id": "5b0c6f0e-8d61-4b0c-9a35-1f2e3d4c5b6a", "app": "com.example.shop", "version": "3.1.4", "measured_at": "2026-11-20T08:00:00Z", "measurements": [{"name": "launch_time", "unit": "ms", "value": 812}], "requests": [{"host": "api.example.com", "dns": 12, "first_byte": 90, "total": 140}]}])),
        (Vec<u8> = "application/gzip"))),
    params(("prefer" = Option<String>, Header, description = "`handling=strict`: accept all payloads or none.")),
    responses((status = 202, description = "The broker has all payloads.",
        headers(("location" = String, description = "The path of the figures of the app's versions, once the payloads are counted; only if all payloads are of one app.")),
        body = SentMetrics), Failures),
    security(("key" = ["reports:write"])))]
pub async fn send_metrics(
    State(broker): State<Arc<Broker>>,
    access: Access<ReportsWrite>,
    Extension(trace): Extension<TraceContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<SentMetrics>, Problem> {
    let request = EventRequest { access, trace, headers, body };
    let target = EventTarget {
        topic: &broker.topics.metrics,
        signal: AppSignal::Metrics,
        unreadable_reason: topics::BAD_METRICS,
    };
    let sent = events::send_events::<MetricPayload>(&broker, target, request).await?;
    let location = sent.only_app.map(|app| format!("/v1/apps/{app}/health/versions"));
    let unread = sent.unread.into_iter().collect();
    let body = SentMetrics {
        accepted: sent.accepted,
        too_old: sent.too_old,
        switched_off: sent.switched_off,
        refused: sent.refused,
        unread,
    };
    Ok(AcceptedResponse { body, location })
}
