//! Asks a source for a file, through the egress rules.

use super::answer::{SourceAnswer, StatusMeaning, describe_failure, read_status};
use super::download::SourceDownload;
use super::failure::{SourceFailure, describe_error};
use crate::settings::{SYMBOL_SOURCES_SECTION, SymbolSourcesSettings};
use crate::target::{SourceTarget, SymbolSourceKind};
use http::header::AUTHORIZATION;
use reqwest::{Method, RequestBuilder, Response};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_api::feature::buckets::find_error_code;
use unslide_model::Secret;
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_retry_after};

/// Timeout of a whole answer, from the look-up of the name to the last byte.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(900);
/// The most bytes of an error that are read.
const ERROR_BYTES_LIMIT: usize = 4 << 10;
/// SHA-256 of a body without bytes.
const EMPTY_BODY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// One text for all causes: it tells a tenant nothing about names in the operator's DNS, nor about open ports.
pub const UNREACHABLE: &str = "The source cannot be reached or does not answer; the operator's log says why";

/// The HTTP client that asks sources.
pub struct SourceClient {
    pub receivers: AllowedReceivers,
    /// None if TLS cannot be set up.
    http: Option<GuardedClient>,
    answer_timeout: Duration,
}

impl SourceClient {
    /// Makes the client. Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &SymbolSourcesSettings) -> SourceClient {
        let receivers = settings.parse_receivers().unwrap_or_default();
        SourceClient {
            http: GuardedClient::new(receivers.clone(), SYMBOL_SOURCES_SECTION, DOWNLOAD_TIMEOUT).ok(),
            answer_timeout: Duration::from_millis(settings.answer_millis),
            receivers,
        }
    }

    /// Asks for the file at a path. The body of the answer is not read yet.
    ///
    /// # Errors
    /// The source says nothing about the file.
    pub async fn ask_for_file(
        &self,
        target: &SourceTarget,
        path: &str,
        at: OffsetDateTime,
    ) -> Result<SourceAnswer, SourceFailure> {
        let client = self.http.as_ref().ok_or_else(|| SourceFailure::new("TLS cannot be set up"))?;
        let request = build_request(client, target, &target.url_of_path(path), at)?;
        let sent = tokio::time::timeout(self.answer_timeout, request.send()).await;
        let mut answer = sent.map_err(|_| silence())?.map_err(|error| describe_error(error, UNREACHABLE))?;
        let (kind, status) = (target.kind(), answer.status().as_u16());
        let meaning = read_status(kind, target.has_credentials(), status);
        match meaning {
            StatusMeaning::Found => {
                return Ok(SourceAnswer::Found(SourceDownload::new(answer, self.answer_timeout)));
            }
            StatusMeaning::NotFound => return Ok(SourceAnswer::NotFound),
            StatusMeaning::NoObjectOrBucket | StatusMeaning::Failed => {}
        }
        let code = match kind {
            SymbolSourceKind::S3 => find_error_code(&self.read_error(&mut answer).await),
            SymbolSourceKind::Http => String::new(),
        };
        if meaning == StatusMeaning::NoObjectOrBucket && code != "NoSuchBucket" {
            return Ok(SourceAnswer::NotFound);
        }
        // A tenant does not read what a server in the operator's networks answers.
        let shown_code = if client.is_in_networks(&answer) { "" } else { code.as_str() };
        let seconds = read_retry_after(answer.headers()).and_then(|seconds| u32::try_from(seconds).ok());
        Err(SourceFailure {
            text: describe_failure(kind, status, shown_code),
            status: Some(status),
            pause: seconds.map(|seconds| time::Duration::seconds(seconds.into())),
        })
    }

    /// Reads the begin of an error, as far as it comes in time.
    async fn read_error(&self, answer: &mut Response) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while body.len() < ERROR_BYTES_LIMIT
                && let Ok(Some(chunk)) = answer.chunk().await
            {
                body.extend_from_slice(&chunk);
            }
        };
        // What came until then is enough.
        let _ = tokio::time::timeout(self.answer_timeout, reading).await;
        body.truncate(ERROR_BYTES_LIMIT);
        body
    }
}

fn build_request(
    client: &GuardedClient,
    target: &SourceTarget,
    url: &Secret,
    at: OffsetDateTime,
) -> Result<RequestBuilder, SourceFailure> {
    let begun = client.start_request(Method::GET, url);
    let mut request = begun.map_err(|wrong| SourceFailure::new(format!("address: {wrong}")))?;
    match target {
        SourceTarget::S3(bucket) => {
            let signed =
                bucket.sign_request("GET", url.reveal(), EMPTY_BODY_SHA256, at).map_err(|error| {
                    tracing::warn!(error, "a request to a bucket cannot be signed");
                    SourceFailure::new("The request cannot be signed with this region and this access key")
                })?;
            for (name, value) in signed {
                request = request.header(name, value);
            }
        }
        SourceTarget::Http { authorization, .. } if !authorization.is_empty() => {
            request = request.header(AUTHORIZATION, authorization.reveal());
        }
        SourceTarget::Http { .. } => {}
    }
    Ok(request)
}

/// The failure of a source that does not answer in time.
fn silence() -> SourceFailure {
    tracing::warn!("a symbol source does not answer in time");
    SourceFailure::new(UNREACHABLE)
}
