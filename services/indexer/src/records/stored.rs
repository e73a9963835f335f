//! Reads the stored form of a report as if its record came again, for jobs that replace it by another form of the same revision.

use super::enriched::{ReadReport, Unreadable, read_report};
use super::{Content, Reading};
use crate::feature::RewriteReports;
use crate::rewriting::LoadedRewriters;
use bytes::Bytes;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_model::{ReportId, TenantId};
use unslide_proto::headers;
use unslide_report::ReadLimits;
use unslide_report::reader::ReportReaders;
use unslide_store::reports::Arrival;
use unslide_store::requests::RequestSource;
use unslide_stream::{Headers, Record, RecordRef, SignatureSettings, Signatures};

/// The document of a stored report, with what its record had.
#[derive(Debug)]
pub struct StoredDocument<'s> {
    pub tenant: &'s TenantId,
    pub report_id: ReportId,
    pub source: &'s RequestSource,
    /// The document as it was published.
    pub document: Vec<u8>,
}

/// Returns a stored report as the rewriter of a feature leaves it. The revision and the identity are those that it has. Returns
/// None if the rewriter changes nothing.
///
/// # Errors
/// Returns why the document cannot be read or rewritten.
pub fn rewrite_stored_report(
    stored: StoredDocument<'_>,
    readers: &ReportReaders,
    (name, rewriter): (&'static str, Arc<dyn RewriteReports>),
    now: OffsetDateTime,
) -> Result<Option<Arrival>, String> {
    let StoredDocument { tenant, report_id, source, document } = stored;
    // It was within the limits when it was stored first; with our additions only its size may exceed them.
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let reading = Reading {
        content: Content::Reports,
        readers: readers.clone(),
        rewriters: LoadedRewriters::single(name, rewriter),
        limits,
        signatures: Arc::new(Signatures::new(&SignatureSettings::default())),
        now,
        has_spans: false,
    };
    let mut headers = Headers::new()
        .with(headers::TENANT, tenant.to_string())
        .with(headers::REPORT_ID, report_id.to_string())
        .with(headers::CONTENT_HASH, source.content_hash.to_string())
        .with(headers::REVISION, source.revision.to_string());
    if let Some(traceparent) = &source.traceparent {
        headers.push(headers::TRACEPARENT, traceparent.clone());
    }
    if let Some(key) = source.sender_key {
        headers.push(headers::SENDER_KEY, key.to_string());
    }
    let record = Record {
        at: RecordRef { topic: Arc::from(""), partition: 0, offset: 0 },
        time_millis: None,
        key: None,
        value: Some(Bytes::from(document)),
        headers,
    };
    let read = read_report(&record, &reading)
        .map_err(|Unreadable { reason, detail }| format!("{reason}: {detail}"))?;
    let ReadReport { arrival, is_rewritten, .. } = read;
    let arrival = Arrival { received_at: source.received_at, revision: source.revision, ..arrival };
    Ok(is_rewritten.then_some(arrival))
}
