//! A collector of OTLP logs: it keeps what it was sent, and answers as a test wants.

use crate::otlp::otlp_api::PROTOBUF;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;
use tokio::sync::watch;
use unslide_world::wait_until;

/// How a collector answers.
#[derive(Clone, Default)]
pub enum Reply {
    /// It takes all records.
    #[default]
    Take,
    Status(u16),
    /// A page of the web with status 200.
    Page,
    /// It refuses requests with a report that has one of these ids with status 400, and takes others.
    Refuse(Vec<String>),
    /// It takes records, and rejects a number of them by a partial success.
    Reject(i64),
}

#[derive(Default)]
struct Received {
    records: Vec<LogRecord>,
    authorization: Option<String>,
    reply: Reply,
    requests: usize,
}

#[derive(Clone)]
pub struct Collector {
    received: Arc<Mutex<Received>>,
    is_held: watch::Sender<bool>,
    pub port: u16,
}

impl Collector {
    pub async fn start() -> Collector {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let collector = Collector { received: Arc::default(), is_held: watch::Sender::new(false), port };
        let app = Router::new().route("/v1/logs", post(take_logs)).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        collector
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1/logs", self.port)
    }

    /// Answers so from now on.
    pub fn reply_with(&self, reply: Reply) {
        self.received.lock().reply = reply;
    }

    /// Lets requests wait for their answer, or answers them.
    pub fn hold_answers(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
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
    assert_eq!(headers["content-type"], PROTOBUF);
    let groups = ExportLogsServiceRequest::decode(body).unwrap().resource_logs.into_iter();
    let scopes = groups.flat_map(|logs| logs.scope_logs);
    let records: Vec<LogRecord> = scopes.flat_map(|scope| scope.log_records).collect();
    let reply = {
        let mut received = collector.received.lock();
        received.requests += 1;
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        received.authorization = authorization;
        received.reply.clone()
    };
    collector.is_held.subscribe().wait_for(|is_held| !is_held).await.unwrap();
    let mut partial_success = ExportLogsPartialSuccess::default();
    match reply {
        Reply::Take => {}
        Reply::Status(status) => return StatusCode::from_u16(status).unwrap().into_response(),
        Reply::Page => return Html("<html><body>Sign in</body></html>").into_response(),
        Reply::Refuse(ids) => {
            if records.iter().any(|record| ids.contains(&attribute(record, "app.crash.id"))) {
                return StatusCode::BAD_REQUEST.into_response();
            }
        }
        Reply::Reject(number) => {
            partial_success.rejected_log_records = number;
            partial_success.error_message = "too old".to_owned();
        }
    }
    collector.received.lock().records.extend(records);
    let answer = ExportLogsServiceResponse { partial_success: Some(partial_success) };
    ([("content-type", PROTOBUF)], answer.encode_to_vec()).into_response()
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
