//! Requests to a collector: OTLP over HTTP in protobuf, through the egress rules.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use prost::Message;
use reqwest::{Method, StatusCode, Url};
use std::collections::BTreeMap;
use std::time::Duration;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient};

/// The section of the settings with the operator's networks.
pub const COLLECTOR_SECTION: &str = "api.otlp";
/// How long a collector has, from the name's look-up to the answer's end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer that are read, and characters of its message.
const MAX_ANSWER_BYTES: usize = 64 << 10;
const MESSAGE_CHARS_LIMIT: usize = 300;

/// The client for collectors.
pub struct CollectorClient(GuardedClient);

/// Where requests go, and with which headers.
pub struct CollectorRequest {
    pub url: Secret,
    pub headers: BTreeMap<String, Secret>,
}

/// The answer of a collector.
pub enum CollectorAnswer {
    /// It took the records, but for a number of them, for this reason.
    Taken { refused: usize, message: String },
    /// It does not take these records, now or later.
    Refused(String),
    /// It cannot take them now, or not with these settings.
    Failed { problem: String, pause: Option<time::Duration> },
}

/// Checks what a URL must not have: secrets in it would be shown.
///
/// # Errors
/// Returns what is wrong with it.
pub fn check_collector_url(url: &Url) -> Result<(), String> {
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(
            "a URL without a query, a fragment, a user and a password: secrets are headers".to_owned()
        );
    }
    Ok(())
}

impl CollectorClient {
    /// Makes the client.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(receivers: AllowedReceivers) -> Result<CollectorClient, reqwest::Error> {
        Ok(CollectorClient(GuardedClient::new(receivers, COLLECTOR_SECTION, ANSWER_TIMEOUT)?))
    }

    /// Sends records. The texts of the answer are for the tenant.
    pub async fn post_logs(&self, request: &CollectorRequest, logs: Vec<ResourceLogs>) -> CollectorAnswer {
        let body = ExportLogsServiceRequest { resource_logs: logs }.encode_to_vec();
        let failed = |problem: &str| CollectorAnswer::Failed { problem: problem.to_owned(), pause: None };
        let started = match self.0.start_request(Method::POST, &request.url) {
            Ok(started) => started,
            Err(wrong) => return failed(&format!("export.url: {wrong}")),
        };
        let mut sent = started.header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &request.headers {
            sent = sent.header(name.as_str(), value.reveal());
        }
        let mut answer = match sent.body(body).send().await {
            Ok(answer) => answer,
            Err(error) => {
                let error = &error.without_url() as &dyn std::error::Error;
                tracing::warn!(error, "a collector cannot be reached");
                return failed(
                    "The collector cannot be reached or does not answer; the operator's log says why",
                );
            }
        };
        let (status, wanted) = (answer.status(), read_pause(answer.headers()));
        // A tenant does not read what a server in the operator's networks answers.
        let is_told = !self.0.is_in_networks(&answer);
        let mut bytes = Vec::new();
        while bytes.len() < MAX_ANSWER_BYTES
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            let left = MAX_ANSWER_BYTES - bytes.len();
            bytes.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
        }
        match status {
            status if status.is_success() => read_success(&bytes, is_told),
            // The records themselves; every other status is about the request.
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                CollectorAnswer::Refused(format!(
                    "The collector does not take a record: it answered with HTTP {status}"
                ))
            }
            status => CollectorAnswer::Failed {
                problem: format!("The collector answered with HTTP {status} and did not take the records"),
                pause: wanted,
            },
        }
    }
}

/// Reads a partial success. An answer that cannot be read counts as a success without one.
fn read_success(body: &[u8], is_told: bool) -> CollectorAnswer {
    let partial = ExportLogsServiceResponse::decode(body).ok().and_then(|answer| answer.partial_success);
    let Some(partial) = partial else {
        return CollectorAnswer::Taken { refused: 0, message: String::new() };
    };
    let message = if is_told { partial.error_message } else { "its own log says why".to_owned() };
    let message = message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_LIMIT).collect();
    CollectorAnswer::Taken {
        refused: usize::try_from(partial.rejected_log_records).unwrap_or_default(),
        message,
    }
}

fn read_pause(headers: &reqwest::header::HeaderMap) -> Option<time::Duration> {
    let seconds: u32 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(time::Duration::seconds(seconds.into()))
}
