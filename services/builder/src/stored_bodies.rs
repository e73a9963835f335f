//! Bodies of stored reports: the jobs that read them need no worker.

use crate::failure::JobFailure;
use crate::storage::JobStorage;
use std::collections::BTreeMap;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES};
use unslide_model::{BodyKey, ReportId, TenantId};
use unslide_store::requests::{self, RequestSource};
use unslide_store::segments::ReportBody;

/// The body of a stored report, not decompressed yet.
#[derive(Debug)]
pub struct FetchedBody(Content);

#[derive(Debug)]
enum Content {
    Inline(ReportBody),
    Frame(BodyId, BodyKey, bytes::Bytes),
}

/// A report by its id and variant.
pub type ReportVariant = (ReportId, u32);

/// Returns the sources of reports of a tenant. A deleted report has none.
///
/// # Errors
/// The database fails.
pub(crate) async fn load_sources(
    storage: &JobStorage,
    tenant: &TenantId,
    reports: &[ReportVariant],
) -> Result<BTreeMap<ReportVariant, RequestSource>, JobFailure> {
    let mut tx = storage.store.tenant(tenant).await?;
    let sources = requests::find_sources(&mut tx, reports).await?;
    tx.rollback().await?;
    Ok(sources)
}

/// Fetches the body of a report. Returns None if it is no longer in its place.
///
/// # Errors
/// Object storage fails.
pub(crate) async fn fetch_body(
    storage: &JobStorage,
    tenant: &TenantId,
    (report_id, variant): ReportVariant,
    source: &RequestSource,
) -> Result<Option<FetchedBody>, JobFailure> {
    let place = match &source.body {
        ReportBody::Inline(_) => return Ok(Some(FetchedBody(Content::Inline(source.body.clone())))),
        ReportBody::Segment(place) => place,
    };
    let key = keys::for_segment(tenant, place.day, place.segment);
    let frame = segment::fetch_frame(&storage.objects, &key, place.offset, place.length).await?;
    let id = BodyId { tenant: tenant.clone(), report_id, variant, revision: source.revision };
    Ok(frame.map(|frame| FetchedBody(Content::Frame(id, place.key, frame))))
}

impl FetchedBody {
    /// Returns the document as it was published. Work for a blocking thread.
    ///
    /// # Errors
    /// The body was shortened, or is damaged.
    pub fn read_document(self) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(match self.0 {
            Content::Inline(body) => body.decompress_json()?,
            Content::Frame(id, key, frame) => segment::open_frame(&id, &key, frame, MAX_BODY_BYTES)?,
        })
    }
}
