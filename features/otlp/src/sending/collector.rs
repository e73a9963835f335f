//! Requests to a collector: OTLP over HTTP in protobuf, through the egress rules.

use super::collector_answer::{CollectorAnswer, read_success};
use http::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use std::collections::BTreeMap;
use std::time::Duration;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_answer_body, read_retry_after};

/// The section of the settings with the operator's networks.
pub const COLLECTOR_SECTION: &str = "api.otlp";
/// How long a collector has, from the name's look-up to the answer's end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The client for collectors.
pub struct CollectorClient(GuardedClient);

/// Where requests go, and with which headers.
pub struct CollectorRequest {
    pub url: Secret,
    pub headers: BTreeMap<String, Secret>,
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

    /// Sends a number of records, encoded in protobuf. The texts of the answer are for the tenant.
    pub async fn post_logs(
        &self,
        request: &CollectorRequest,
        body: Vec<u8>,
        count: usize,
    ) -> CollectorAnswer {
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
        match status {
            status if status.is_success() => {
                let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let media_type = media_type.unwrap_or_default().to_owned();
                match read_answer_body(&mut answer, MAX_ANSWER_BYTES).await.ok().flatten() {
                    Some(body) => read_success(&media_type, &body, count, is_told),
                    None => failed("The answer of the collector is cut, or too long for one of OTLP"),
                }
            }
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

fn read_pause(headers: &reqwest::header::HeaderMap) -> Option<time::Duration> {
    let seconds = u32::try_from(read_retry_after(headers)?).ok()?;
    Some(time::Duration::seconds(seconds.into()))
}
