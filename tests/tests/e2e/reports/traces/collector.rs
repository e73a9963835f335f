//! A collector of OpenTelemetry, made from the protocol's own messages.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use unslide_tests::EVENTUAL_TIMEOUT;

/// A span as the collector got it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The service that sent it.
    pub service: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for a root.
    pub parent: String,
    pub began: u64,
    pub ended: u64,
    pub attributes: BTreeMap<String, String>,
}

impl Received {
    /// An attribute as text, or nothing.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// The collector. It answers while it is open, and holds every request while it is not.
#[derive(Clone)]
pub struct Collector {
    pub url: String,
    open: watch::Sender<bool>,
    spans: watch::Sender<Vec<Received>>,
    requests: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
}

impl Collector {
    /// Starts a collector, open or not.
    pub async fn start(is_open: bool) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let collector = Collector {
            url: format!("http://{}", listener.local_addr().expect("an address")),
            open: watch::Sender::new(is_open),
            spans: watch::Sender::default(),
            requests: Arc::default(),
        };
        let router = Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        collector
    }

    /// Opens or closes it.
    pub fn set_open(&self, is_open: bool) {
        self.open.send_replace(is_open);
    }

    /// The requests that it answered: headers and bodies.
    pub fn requests(&self) -> Vec<(HeaderMap, Bytes)> {
        self.requests.lock().expect("no panic").clone()
    }

    /// The spans of a trace so far.
    pub fn spans(&self, trace: &str) -> Vec<Received> {
        self.spans.borrow().iter().filter(|span| span.trace == trace).cloned().collect()
    }

    /// Waits until a trace has a span of which this is true.
    pub async fn wait_for(&self, trace: &str, is_wanted: impl Fn(&Received) -> bool) {
        let mut spans = self.spans.subscribe();
        let has = |spans: &Vec<Received>| spans.iter().any(|span| span.trace == trace && is_wanted(span));
        let waited = tokio::time::timeout(EVENTUAL_TIMEOUT, spans.wait_for(has)).await;
        assert!(waited.is_ok(), "the span is not among {:#?}", self.spans(trace));
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if collector.open.subscribe().wait_for(|open| *open).await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body.clone()) else { return StatusCode::BAD_REQUEST };
    collector.requests.lock().expect("no panic").push((headers, body));
    collector.spans.send_modify(|spans| spans.extend(received(request)));
    StatusCode::OK
}

fn received(request: ExportTraceServiceRequest) -> Vec<Received> {
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let about = texts(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        let service = about.get("service.name").cloned().unwrap_or_default();
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Received {
                service: service.clone(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                began: span.start_time_unix_nano,
                ended: span.end_time_unix_nano,
                attributes: texts(span.attributes),
            });
        }
    }
    spans
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|attribute| (attribute.key, text(attribute.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
