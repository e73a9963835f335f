//! A collector of OTLP logs: it keeps what it was sent, and fails as a test wants.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;
use unslide_world::wait_until;

#[derive(Default)]
struct Received {
    records: Vec<LogRecord>,
    authorization: Option<String>,
    /// The status of the next answers; 200 if 0.
    status: u16,
    requests: usize,
}

#[derive(Clone, Default)]
pub struct Collector {
    received: Arc<Mutex<Received>>,
    pub port: u16,
}

impl Collector {
    pub async fn start() -> Collector {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let collector = Collector { port, ..Collector::default() };
        let app = Router::new().route("/v1/logs", post(take_logs)).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        collector
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1/logs", self.port)
    }

    /// Answers with this status from now on.
    pub fn answer_with(&self, status: u16) {
        self.received.lock().status = status;
    }

    pub fn count_requests(&self) -> usize {
        self.received.lock().requests
    }

    pub fn authorization(&self) -> Option<String> {
        self.received.lock().authorization.clone()
    }

    /// Waits until it has this many records, and returns them.
    pub async fn wait_for_records(&self, count: usize) -> Vec<LogRecord> {
        assert!(wait_until(async || self.received.lock().records.len() >= count).await, "no record {count}");
        self.received.lock().records.clone()
    }
}

async fn take_logs(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> Response {
    let mut received = collector.received.lock();
    received.requests += 1;
    received.authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    if received.status >= 400 {
        return StatusCode::from_u16(received.status).unwrap().into_response();
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportLogsServiceRequest::decode(body).unwrap();
    let groups = request.resource_logs.into_iter().flat_map(|logs| logs.scope_logs);
    received.records.extend(groups.flat_map(|scope| scope.log_records));
    let partial_success =
        Some(ExportLogsPartialSuccess { rejected_log_records: 0, error_message: String::new() });
    ExportLogsServiceResponse { partial_success }.encode_to_vec().into_response()
}

/// Returns an attribute of a record as text.
pub fn attribute(record: &LogRecord, key: &str) -> String {
    let found = record.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(AnyKind::StringValue(text)) => text,
        Some(AnyKind::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}
