//! Puts and deletes objects of a bucket.

use super::failure::{BucketFailure, describe_status};
use crate::settings::{PARQUET_EXPORT_SECTION, ParquetExportSettings};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, Response};
use sha2::{Digest, Sha256};
use std::error::Error;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_api::feature::buckets::{BucketTarget, find_error_code};
use unslide_model::{ContentHash, Secret};
use unslide_runtime::egress::{AllowedReceivers, GuardedClient, read_answer_body, read_retry_after};

/// The most bytes of an error that are read.
const ERROR_BYTES_LIMIT: usize = 16 << 10;
/// One text for all causes: it tells a tenant nothing about names in the operator's DNS, nor about open ports.
pub const UNREACHABLE: &str = "The bucket cannot be reached or does not answer; the operator's log says why";
/// The characters of a path that stay as they are in a URL, as S3 signs it.
const URL_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The HTTP client that writes to buckets.
pub struct BucketClient {
    pub receivers: AllowedReceivers,
    /// None if TLS cannot be set up.
    http: Option<GuardedClient>,
}

/// The body of an object.
struct ObjectBody {
    bytes: Vec<u8>,
    content_type: &'static str,
}

impl BucketClient {
    /// Makes the client. Settings that cannot be used were refused with the configuration.
    pub fn new(settings: &ParquetExportSettings) -> BucketClient {
        let receivers = settings.parse_receivers().unwrap_or_default();
        let timeout = Duration::from_millis(settings.answer_millis);
        BucketClient {
            http: GuardedClient::new(receivers.clone(), PARQUET_EXPORT_SECTION, timeout).ok(),
            receivers,
        }
    }

    /// Writes an object at a path behind the prefix. An object that is there is replaced at once.
    ///
    /// # Errors
    /// The bucket does not say that it has the object.
    pub async fn put_object(
        &self,
        target: &BucketTarget,
        path: &str,
        bytes: Vec<u8>,
        content_type: &'static str,
        at: OffsetDateTime,
    ) -> Result<(), BucketFailure> {
        let body = ObjectBody { bytes, content_type };
        self.send_request(target, Method::PUT, path, Some(body), at).await
    }

    /// Deletes an object. One that does not exist is deleted.
    ///
    /// # Errors
    /// The bucket does not say that it has no such object.
    pub async fn delete_object(
        &self,
        target: &BucketTarget,
        path: &str,
        at: OffsetDateTime,
    ) -> Result<(), BucketFailure> {
        self.send_request(target, Method::DELETE, path, None, at).await
    }

    async fn send_request(
        &self,
        target: &BucketTarget,
        method: Method,
        path: &str,
        body: Option<ObjectBody>,
        at: OffsetDateTime,
    ) -> Result<(), BucketFailure> {
        let client = self.http.as_ref().ok_or_else(|| BucketFailure::new("TLS cannot be set up"))?;
        let url = Secret::new(format!("{}/{}", target.base_url(), utf8_percent_encode(path, URL_PATH)));
        let begun = client.start_request(method.clone(), &url);
        let mut request = begun.map_err(|wrong| BucketFailure::new(format!("address: {wrong}")))?;
        let hash = hash_bytes(body.as_ref().map_or(&[], |body| body.bytes.as_slice()));
        let signed = target.sign_request(method.as_str(), url.reveal(), &hash.to_string(), at);
        let signed = signed.map_err(|error| {
            tracing::warn!(error, "a request to a bucket cannot be signed");
            BucketFailure::new("The request cannot be signed with this region and this access key")
        })?;
        for (name, value) in signed {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.header(reqwest::header::CONTENT_TYPE, body.content_type).body(body.bytes);
        }
        let mut answer = request.send().await.map_err(describe_error)?;
        let status = answer.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let code = read_error_code(&mut answer).await;
        if status == 404 && method == Method::DELETE && code != "NoSuchBucket" {
            return Ok(());
        }
        // A tenant does not read what a server in the operator's networks answers.
        let shown_code = if client.is_in_networks(&answer) { "" } else { code.as_str() };
        let seconds = read_retry_after(answer.headers()).and_then(|seconds| u32::try_from(seconds).ok());
        Err(BucketFailure {
            text: describe_status(method.as_str(), status, shown_code),
            status: Some(status),
            pause: seconds.map(|seconds| time::Duration::seconds(seconds.into())),
        })
    }
}

/// Returns the SHA-256 of bytes.
pub fn hash_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

async fn read_error_code(answer: &mut Response) -> String {
    let body = read_answer_body(answer, ERROR_BYTES_LIMIT).await.ok().flatten();
    body.map(|body| find_error_code(&body)).unwrap_or_default()
}

/// Describes an error of the connection for the tenant. The cause is for the operator's log.
fn describe_error(error: reqwest::Error) -> BucketFailure {
    let error = &error.without_url() as &dyn Error;
    tracing::warn!(error, "a bucket cannot be reached");
    BucketFailure::new(UNREACHABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_a_url_as_s3_signs_it() {
        let path = "reports/day=2026-11-29/app=com.acme%20shop/part-1-0.parquet";
        let encoded = utf8_percent_encode(path, URL_PATH).to_string();
        assert_eq!(encoded, "reports/day%3D2026-11-29/app%3Dcom.acme%2520shop/part-1-0.parquet");
    }
}
