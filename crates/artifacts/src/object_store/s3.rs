//! S3 through the AWS SDK, with rustls and ring.

use super::download::{DownloadBody, Opened};
use super::{Condition, ETag, Head, ListingEntry, ListingPage, Put};
use crate::keys::{ObjectKey, Prefix};
use crate::{Settings, StorageError};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use aws_smithy_http_client::tls;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::timeout;

pub(crate) struct S3 {
    client: Client,
    bucket: String,
    settings: Box<Settings>,
    /// True once the bucket answered. Until then a 404 is investigated, because some stores say "no
    /// such key" if the bucket does not exist.
    answered: AtomicBool,
}

/// Failure of one call, before the caller decides whether "not found" is an answer.
enum Failure {
    NotFound,
    Error(StorageError),
}

fn classify_error<E>(operation: &'static str, key: &str, error: &SdkError<E, HttpResponse>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    let code = error.code().unwrap_or_default();
    let detail = if code.is_empty() && status == 0 {
        aws_sdk_s3::error::DisplayErrorContext(error).to_string()
    } else {
        format!("{status} {code} {}", error.message().unwrap_or_default()).trim_end().to_owned()
    };
    let key = key.to_owned();
    Failure::Error(match (status, code) {
        (_, "NoSuchBucket") => StorageError::Refused { operation, key, detail },
        (_, "InvalidObjectState" | "KeyTooLongError") => {
            StorageError::ObjectAtFault { operation, key, detail }
        }
        // The upload is missing, not the object.
        (_, "NoSuchUpload" | "InvalidPart") => StorageError::Unfinished { key },
        (404, _) => return Failure::NotFound,
        (412, _) | (_, "ConditionalRequestConflict" | "PreconditionFailed") => {
            StorageError::Precondition { key }
        }
        (408 | 409 | 429 | 500.., _) | (_, "SlowDown" | "RequestTimeout" | "ThrottlingException") => {
            StorageError::Transient { operation, key, detail }
        }
        // Credentials are not available, or the settings give no valid request.
        (0, _) if matches!(error, SdkError::ConstructionFailure(_)) => {
            StorageError::Refused { operation, key, detail }
        }
        (0, _) | (200..300, _) => StorageError::Transient { operation, key, detail },
        _ => StorageError::Refused { operation, key, detail },
    })
}

impl Failure {
    fn into_error(self, operation: &'static str, key: &str) -> StorageError {
        match self {
            Failure::Error(error) => error,
            Failure::NotFound => StorageError::Transient {
                operation,
                key: key.to_owned(),
                detail: "404 where an object was expected".into(),
            },
        }
    }
}

fn time_of(modified: Option<aws_sdk_s3::primitives::DateTime>) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(modified?.as_nanos()).ok()
}

/// Returns a field that a successful answer must have. A broken connection can leave a 200 without
/// its body, which the SDK reads as an answer without fields.
fn require_field<T>(
    field: Option<T>,
    name: &str,
    operation: &'static str,
    key: &str,
) -> Result<T, StorageError> {
    field.ok_or_else(|| StorageError::Transient {
        operation,
        key: key.to_owned(),
        detail: format!("the answer has no {name}"),
    })
}

fn etag_of(etag: Option<String>, operation: &'static str, key: &ObjectKey) -> Result<ETag, StorageError> {
    require_field(etag, "ETag", operation, key.as_str()).map(ETag)
}

fn head_of(
    operation: &'static str,
    key: &ObjectKey,
    size: Option<i64>,
    etag: Option<String>,
    modified: Option<aws_sdk_s3::primitives::DateTime>,
    metadata: Option<HashMap<String, String>>,
) -> Result<Head, StorageError> {
    let size = size.and_then(|size| u64::try_from(size).ok());
    Ok(Head {
        size: require_field(size, "Content-Length", operation, key.as_str())?,
        etag: etag_of(etag, operation, key)?,
        modified: time_of(modified),
        metadata: metadata.unwrap_or_default().into_iter().collect::<BTreeMap<_, _>>(),
    })
}

fn user_metadata(put: &Put) -> Option<HashMap<String, String>> {
    (!put.metadata.is_empty()).then(|| put.metadata.clone().into_iter().collect())
}

/// Returns the values of `If-None-Match` and `If-Match`.
fn condition_headers(put: &Put) -> (Option<String>, Option<String>) {
    match &put.condition {
        Condition::Always => (None, None),
        Condition::Absent => (Some("*".into()), None),
        Condition::Unchanged(etag) => (None, Some(etag.0.clone())),
    }
}

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest time for which a failed conditional write is examined.
const WRITE_CHECK_TIMEOUT: Duration = Duration::from_secs(4);

/// Returns the time limits of a request with a body of this size, for each try and for all of them.
fn timeouts(settings: &Settings, body_bytes: u64) -> TimeoutConfig {
    let each = settings.try_timeout(body_bytes);
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(each)
        .operation_attempt_timeout(each)
        .operation_timeout(settings.request_timeout(body_bytes))
        .build()
}

/// Returns the authorities that servers are trusted by: the system's, and those of the settings.
fn trust(settings: &Settings) -> tls::TlsContext {
    let mut store = tls::TrustStore::default();
    if let Some(path) = &settings.ca_file {
        match std::fs::read(path) {
            Ok(pem) => store = store.with_pem_certificate(pem),
            // The configuration was refused if it could not be read then.
            Err(error) => {
                tracing::error!(file = %path.display(), error = %error, "authorities cannot be read");
            }
        }
    }
    tls::TlsContext::builder().with_trust_store(store).build().unwrap_or_default()
}

/// The longest pause before readiness asks the bucket a second time.
const CHECK_BACKOFF: Duration = Duration::from_millis(100);

impl S3 {
    pub(super) async fn new(settings: &Settings) -> S3 {
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
            .tls_context(trust(settings))
            .build_https();
        let region = Region::new(settings.region.clone());
        let mut config = match &settings.access_key {
            Some(access_key) => aws_sdk_s3::Config::builder().credentials_provider(Credentials::new(
                access_key.clone(),
                settings.secret_key.reveal(),
                None,
                None,
                "settings",
            )),
            None => {
                let found = aws_config::defaults(BehaviorVersion::latest())
                    .http_client(http.clone())
                    .region(region.clone())
                    .load()
                    .await;
                aws_sdk_s3::config::Builder::from(&found)
            }
        };
        config = config
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(region)
            .force_path_style(settings.path_style)
            .retry_config(RetryConfig::standard().with_max_attempts(settings.attempts))
            .timeout_config(timeouts(settings, 0))
            // Some stores do not support trailing checksums; content is verified by SHA-256.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        if let Some(endpoint) = &settings.endpoint {
            config = config.endpoint_url(endpoint);
        }
        S3 {
            client: Client::from_conf(config.build()),
            bucket: settings.bucket.clone(),
            settings: Box::new(settings.clone()),
            answered: AtomicBool::new(false),
        }
    }

    pub(super) async fn check(&self) -> Result<(), StorageError> {
        // The caller waits for at most two seconds and needs the reason of a failure: one retry
        // only.
        let retries = RetryConfig::standard().with_max_attempts(2).with_initial_backoff(CHECK_BACKOFF);
        let once_more = aws_sdk_s3::Config::builder().retry_config(retries);
        let ask = self.client.list_objects_v2().bucket(&self.bucket).max_keys(1);
        let listed = ask.customize().config_override(once_more).send().await;
        listed.map_err(|e| classify_error("list", &self.bucket, &e).into_error("list", &self.bucket))?;
        self.answered.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn put(&self, key: &ObjectKey, bytes: Bytes, put: &Put) -> Result<ETag, StorageError> {
        let size = bytes.len() as u64;
        self.put_body(key, bytes.into(), size, put).await
    }

    pub(super) async fn put_file(
        &self,
        key: &ObjectKey,
        path: &Path,
        put: &Put,
    ) -> Result<ETag, StorageError> {
        let body = ByteStream::from_path(path).await.map_err(|e| StorageError::File(e.into()))?;
        let size = body.size_hint().0;
        self.put_body(key, body, size, put).await
    }

    /// Returns the settings of a request with a body of this size.
    fn body_settings(&self, body_bytes: u64) -> aws_sdk_s3::config::Builder {
        aws_sdk_s3::Config::builder().timeout_config(timeouts(&self.settings, body_bytes))
    }

    async fn put_body(
        &self,
        key: &ObjectKey,
        body: ByteStream,
        size: u64,
        put: &Put,
    ) -> Result<ETag, StorageError> {
        let (none_match, matches) = condition_headers(put);
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key.as_str())
            .set_if_none_match(none_match)
            .set_if_match(matches)
            .set_metadata(user_metadata(put))
            .body(body)
            .customize()
            .config_override(self.body_settings(size))
            .send()
            .await;
        match sent {
            Ok(output) => etag_of(output.e_tag, "put", key),
            Err(error) => {
                Err(self.write_failure(classify_error("put", key.as_str(), &error), key, put).await)
            }
        }
    }

    /// Interprets the failure of a write. S3 answers 404 to a conditional write of a deleted
    /// object: its condition failed. A store that refuses a write may close the connection before
    /// it has read the body, so that the client sees a broken connection and no answer. Then the
    /// object itself is checked.
    async fn write_failure(&self, failure: Failure, key: &ObjectKey, put: &Put) -> StorageError {
        let precondition = || StorageError::Precondition { key: key.to_string() };
        let error = match failure {
            Failure::NotFound if matches!(put.condition, Condition::Unchanged(_)) => return precondition(),
            other => other.into_error("put", key.as_str()),
        };
        if !error.is_transient() || matches!(put.condition, Condition::Always) {
            return error;
        }
        let Ok(Ok(found)) = timeout(WRITE_CHECK_TIMEOUT, self.head(key)).await else { return error };
        let holds = match &put.condition {
            Condition::Always => true,
            Condition::Absent => found.is_none(),
            Condition::Unchanged(etag) => found.is_some_and(|head| head.etag == *etag),
        };
        if holds { error } else { precondition() }
    }

    pub(super) async fn begin_parts(&self, key: &ObjectKey, put: &Put) -> Result<String, StorageError> {
        let begun = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(key.as_str())
            .set_metadata(user_metadata(put))
            .send()
            .await;
        let output =
            begun.map_err(|e| classify_error("put", key.as_str(), &e).into_error("put", key.as_str()))?;
        require_field(output.upload_id, "UploadId", "put", key.as_str())
    }

    pub(super) async fn put_part(
        &self,
        key: &ObjectKey,
        id: &str,
        number: usize,
        part: Bytes,
    ) -> Result<String, StorageError> {
        let limits = self.body_settings(part.len() as u64);
        let sent = self
            .client
            .upload_part()
            .bucket(&self.bucket)
            .key(key.as_str())
            .upload_id(id)
            .part_number(i32::try_from(number).unwrap_or(i32::MAX))
            .body(part.into())
            .customize()
            .config_override(limits)
            .send()
            .await;
        let output =
            sent.map_err(|e| classify_error("put", key.as_str(), &e).into_error("put", key.as_str()))?;
        Ok(etag_of(output.e_tag, "put", key)?.0)
    }

    pub(super) async fn complete_parts(
        &self,
        key: &ObjectKey,
        id: &str,
        tags: &[String],
        put: &Put,
    ) -> Result<ETag, StorageError> {
        let parts = tags
            .iter()
            .zip(1..)
            .map(|(tag, number)| CompletedPart::builder().e_tag(tag).part_number(number).build());
        let (none_match, matches) = condition_headers(put);
        let sent = self
            .client
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(key.as_str())
            .upload_id(id)
            .set_if_none_match(none_match)
            .set_if_match(matches)
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build())
            .send()
            .await;
        match sent {
            Ok(output) => etag_of(output.e_tag, "put", key),
            Err(error) => {
                Err(self.write_failure(classify_error("put", key.as_str(), &error), key, put).await)
            }
        }
    }

    pub(super) async fn abort_parts(&self, key: &ObjectKey, id: &str) -> Result<(), StorageError> {
        let sent = self.client.abort_multipart_upload().bucket(&self.bucket).key(key.as_str()).upload_id(id);
        let aborted = sent
            .send()
            .await
            .map_err(|e| classify_error("abort", key.as_str(), &e).into_error("abort", key.as_str()));
        match aborted {
            Ok(_) | Err(StorageError::Unfinished { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn head(&self, key: &ObjectKey) -> Result<Option<Head>, StorageError> {
        let sent = self.client.head_object().bucket(&self.bucket).key(key.as_str()).send().await;
        match sent {
            Ok(output) => {
                let HeadObjectOutput { content_length, e_tag, last_modified, metadata, .. } = output;
                head_of("head", key, content_length, e_tag, last_modified, metadata).map(Some)
            }
            Err(error) => match classify_error("head", key.as_str(), &error) {
                // A HEAD's 404 has no body, so a missing bucket looks the same.
                Failure::NotFound => self.check().await.map(|()| None),
                Failure::Error(error) => Err(error),
            },
        }
    }

    pub(super) async fn open(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
    ) -> Result<Option<Opened>, StorageError> {
        let sent = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(key.as_str())
            .set_range(range.as_ref().map(|r| format!("bytes={}-{}", r.start, r.end.saturating_sub(1))))
            .send()
            .await;
        match sent {
            Ok(output) => {
                let GetObjectOutput { body, content_length, e_tag, last_modified, metadata, .. } = output;
                let head = head_of("get", key, content_length, e_tag, last_modified, metadata)?;
                Ok(Some((head, DownloadBody::S3(body))))
            }
            Err(error) => {
                let status = error.raw_response().map(|response| response.status().as_u16());
                match (classify_error("get", key.as_str(), &error), range) {
                    (Failure::NotFound, _) if self.answered.load(Ordering::Relaxed) => Ok(None),
                    (Failure::NotFound, _) => self.check().await.map(|()| None),
                    (_, Some(range)) if status == Some(416) => {
                        Err(StorageError::Range { key: key.to_string(), start: range.start, end: range.end })
                    }
                    (Failure::Error(error), _) => Err(error),
                }
            }
        }
    }

    pub(super) async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&ObjectKey>,
        max: u16,
    ) -> Result<ListingPage, StorageError> {
        let sent = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(prefix.as_str())
            .set_start_after(after.map(ToString::to_string))
            .max_keys(i32::from(max))
            .send()
            .await;
        let output = sent
            .map_err(|e| classify_error("list", prefix.as_str(), &e).into_error("list", prefix.as_str()))?;
        let more = require_field(output.is_truncated, "IsTruncated", "list", prefix.as_str())?;
        let entries: Vec<_> = output
            .contents
            .unwrap_or_default()
            .into_iter()
            .filter_map(|object| {
                let size = u64::try_from(object.size.unwrap_or_default()).unwrap_or_default();
                Some(ListingEntry {
                    key: ObjectKey::from_listing(object.key?),
                    size,
                    modified: time_of(object.last_modified),
                })
            })
            .collect();
        let next = entries.last().filter(|_| more).map(|entry| entry.key.clone());
        Ok(ListingPage { entries, next })
    }

    pub(super) async fn delete(&self, key: &ObjectKey) -> Result<(), StorageError> {
        let sent = self.client.delete_object().bucket(&self.bucket).key(key.as_str()).send().await;
        match sent {
            Ok(_) => Ok(()),
            Err(error) => match classify_error("delete", key.as_str(), &error) {
                Failure::NotFound => Ok(()),
                Failure::Error(error) => Err(error),
            },
        }
    }
}
