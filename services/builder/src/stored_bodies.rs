//! Reads the bodies of stored reports, for jobs that need no worker.

use crate::failure::JobFailure;
use crate::storage::JobStorage;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::error::Error;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES};
use unslide_model::{ReportId, TenantId};
use unslide_store::requests::{self, RequestSource};
use unslide_store::segments::ReportBody;

/// Maximum number of reports with bodies in memory at the same time.
const BODIES_IN_MEMORY_LIMIT: usize = 8;
/// Times that a body is looked for: it may move between the look-up and the read.
const LOOKS_LIMIT: usize = 2;

/// A report by its id and variant.
pub type ReportVariant = (ReportId, u32);

/// Failure of a reader of stored documents.
pub type ReaderError = Box<dyn Error + Send + Sync>;

/// Gives the document of each of these reports, as it was published, to `read` on a blocking thread. Returns what that makes of them.
/// A report without a body, or with a damaged one, and one that `read` fails for is left out; `failed` is what the log says then.
///
/// # Errors
/// The database or object storage fails.
pub(crate) async fn read_bodies<T: Send + 'static>(
    storage: &JobStorage,
    tenant: &TenantId,
    reports: &[ReportVariant],
    failed: &'static str,
    read: impl Fn(ReportVariant, &RequestSource, Vec<u8>) -> Result<T, ReaderError> + Clone + Send + 'static,
) -> Result<Vec<T>, JobFailure> {
    let mut results = Vec::with_capacity(reports.len());
    for some in reports.chunks(BODIES_IN_MEMORY_LIMIT) {
        let mut left = some.to_vec();
        for _ in 0..LOOKS_LIMIT {
            let mut moved = Vec::new();
            for (report, source) in load_sources(storage, tenant, &left).await? {
                match fetch_body(storage, tenant, report, source).await? {
                    Some(body) => results.extend(read_one(body, failed, read.clone()).await),
                    None => moved.push(report),
                }
            }
            left = moved;
            if left.is_empty() {
                break;
            }
        }
    }
    Ok(results)
}

async fn load_sources(
    storage: &JobStorage,
    tenant: &TenantId,
    reports: &[ReportVariant],
) -> Result<BTreeMap<ReportVariant, RequestSource>, JobFailure> {
    let mut tx = storage.store.tenant(tenant).await?;
    let sources = requests::find_sources(&mut tx, reports).await?;
    tx.rollback().await?;
    Ok(sources)
}

/// A body as it is stored: inline, or a frame of a segment.
struct FetchedBody {
    id: BodyId,
    source: RequestSource,
    /// Empty for an inline body.
    frame: Bytes,
}

/// Fetches a body. Returns None if it is no longer in its place.
async fn fetch_body(
    storage: &JobStorage,
    tenant: &TenantId,
    (report_id, variant): ReportVariant,
    source: RequestSource,
) -> Result<Option<FetchedBody>, JobFailure> {
    let id = BodyId { tenant: tenant.clone(), report_id, variant, revision: source.revision };
    let frame = match &source.body {
        ReportBody::Inline(_) => Some(Bytes::new()),
        ReportBody::Segment(place) => {
            let key = keys::for_segment(tenant, place.day, place.segment);
            segment::fetch_frame(&storage.objects, &key, place.offset, place.length).await?
        }
    };
    Ok(frame.map(|frame| FetchedBody { id, source, frame }))
}

impl FetchedBody {
    fn read_document(&self) -> Result<Vec<u8>, ReaderError> {
        Ok(match &self.source.body {
            ReportBody::Inline(_) => self.source.body.decompress_json()?,
            ReportBody::Segment(place) => {
                segment::open_frame(&self.id, &place.key, self.frame.clone(), MAX_BODY_BYTES)?
            }
        })
    }
}

async fn read_one<T: Send + 'static>(
    body: FetchedBody,
    failed: &'static str,
    read: impl FnOnce(ReportVariant, &RequestSource, Vec<u8>) -> Result<T, ReaderError> + Send + 'static,
) -> Option<T> {
    let (tenant, report_id) = (body.id.tenant.clone(), body.id.report_id);
    let work = move || {
        let document = body.read_document()?;
        read((body.id.report_id, body.id.variant), &body.source, document)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(result)) => Some(result),
        Ok(Err(error)) => {
            tracing::warn!(tenant = %tenant, report.id = %report_id, error = %error, "{failed}");
            None
        }
        Err(error) => {
            tracing::error!(tenant = %tenant, report.id = %report_id, error = %error, "{failed}");
            None
        }
    }
}
