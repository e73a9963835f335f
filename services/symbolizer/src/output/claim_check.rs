//! Enriched reports that are too large for their topic: the body goes to object storage, a reference
//! to it to Kafka.
//!
//! The object's name is its content, and it is stored before the transaction that refers to it: the
//! next try after an aborted transaction writes the same object.

use crate::output::dead_letters::Provenance;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{ObjectStore, Put, StorageError};
use unslide_model::{ContentHash, ReportId, Scoped};
use unslide_proto::headers;
use unslide_stream::OutRecord;

/// A body to be stored.
#[derive(Clone, Debug)]
pub struct ClaimCheckBody {
    /// The object's key.
    pub key: ObjectKey,
    /// The enriched report.
    pub bytes: Bytes,
}

/// The record that refers to a body kept apart, and the body.
pub fn apart(
    history: &Provenance<'_>,
    topic: &str,
    report: &Scoped<ReportId>,
    (revision, supersedes): (u32, Option<u32>),
    bytes: Bytes,
) -> (OutRecord, ClaimCheckBody) {
    let sha256 = ContentHash(Sha256::digest(&bytes).into());
    let key = keys::output_body(report, &sha256);
    // None of these has a character that JSON would want to be escaped.
    let value = format!(
        "{{\"unslide_body\":{{\"key\":\"{key}\",\"bytes\":{},\"sha256\":\"{sha256}\"}}}}",
        bytes.len()
    );
    let mut record = history.report(topic, report, revision, supersedes, value);
    record.headers.set(headers::BODY_KEY, key.to_string());
    record.headers.set(headers::BODY_BYTES, bytes.len().to_string());
    record.headers.set(headers::BODY_SHA256, sha256.to_string());
    (record, ClaimCheckBody { key, bytes })
}

/// Stores a body. One that is there already is written again, so that its age, by which the indexer
/// knows objects that no report refers to, begins anew.
///
/// # Errors
/// What the store says.
pub async fn store(objects: &ObjectStore, body: &ClaimCheckBody) -> Result<(), StorageError> {
    objects.put(&body.key, body.bytes.clone(), &Put::default()).await.map(drop)
}
