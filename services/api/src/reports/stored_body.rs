//! The JSON of a stored report, from the database or from its segment.

use crate::http::problem::Problem;
use crate::limits::answers;
use crate::limits::permits::Reservation;
use crate::limits::transactions::Tx;
use crate::state::Api;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES, SegmentError};
use unslide_model::{ReportId, TenantId};
use unslide_report::Report;
use unslide_store::TenantTx;
use unslide_store::queries::report::{self, FoundReport};
use unslide_store::segments::BodyLocation;

/// Reason why a stored body is missing.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The database has another revision by now, or none.
    #[error("the body of the stored report {0} was revised or moved")]
    Moved(ReportId),
    /// Its segment does not exist.
    #[error("the segment {0} of a stored report is gone")]
    Gone(String),
    /// The segment does not hold the body.
    #[error("the segment {key} does not hold the stored report {report}")]
    Damaged {
        /// The segment.
        key: String,
        /// The report.
        report: ReportId,
        /// The error of the segment.
        source: SegmentError,
    },
}

/// A stored report's JSON.
#[derive(Debug)]
pub struct StoredBody {
    /// The report in KSCrash's form.
    pub json: Vec<u8>,
    /// The bytes as they were published, if the report is of another format.
    pub document: Option<Vec<u8>>,
    /// The reservation of its bytes, which may grow for data that is derived from it.
    pub reservation: Reservation,
}

/// Reads a stored report from its JSON.
///
/// # Errors
/// A failure of the service: the same report was read before it was stored.
pub fn report(json: &[u8]) -> Result<Report<'_>, Problem> {
    Report::read_stored(json).map_err(Problem::internal)
}

/// Reads the JSON of a report that was found in this transaction, and ends the transaction. Returns the inner
/// error if the body is not the one in the row. Reserves the bytes before it reads them.
///
/// # Errors
/// No bytes are left for it, a server does not answer, or the database's own copy is damaged.
pub async fn read(
    api: &Api,
    tenant: &TenantId,
    tx: Tx<TenantTx>,
    found: &FoundReport,
) -> Result<Result<StoredBody, Lost>, Problem> {
    let reservation = answers::reserve(&api.permits, tenant, found.size)?;
    let bytes = match json(api, tenant, tx, found).await? {
        Ok(bytes) => bytes,
        Err(lost) => return Ok(Err(lost)),
    };
    if api.readers.find(&bytes).is_none() {
        return Ok(Ok(StoredBody { json: bytes, document: None, reservation }));
    }
    let readers = api.readers.clone();
    let translate = move || {
        let json = readers.stored_report(&bytes).map_err(Problem::internal)?.into_owned();
        Ok::<_, Problem>((json, bytes))
    };
    let (json, document) = api.cpu.run_for(tenant, translate).await??;
    let mut reservation = reservation;
    reservation.grow(json.len() as u64)?;
    Ok(Ok(StoredBody { json, document: Some(document), reservation }))
}

async fn json(
    api: &Api,
    tenant: &TenantId,
    mut tx: Tx<TenantTx>,
    found: &FoundReport,
) -> Result<Result<Vec<u8>, Lost>, Problem> {
    let (report_id, variant) = (found.listed.report_id, found.listed.variant);
    let Some(place) = found.place else {
        let body = report::body(&mut tx, &found.listed).await?;
        tx.rollback();
        let Some(body) = body else { return Ok(Err(Lost::Moved(report_id))) };
        return Ok(Ok(api.cpu.run_for(tenant, move || body.json()).await??));
    };
    // The next step waits for object storage, and must not hold a connection.
    tx.rollback();
    from_segment(api, tenant, (report_id, variant, found.listed.revision), place).await
}

/// Reads the JSON of a report's revision from its place in a segment. Returns the inner error if it is not
/// there.
///
/// # Errors
/// Object storage does not answer.
async fn from_segment(
    api: &Api,
    tenant: &TenantId,
    (report_id, variant, revision): (ReportId, u32, u32),
    place: BodyLocation,
) -> Result<Result<Vec<u8>, Lost>, Problem> {
    let key = keys::segment(tenant, place.day, place.segment);
    let Some(frame) = segment::fetch(&api.objects, &key, place.offset, place.length).await? else {
        return Ok(Err(Lost::Gone(key.to_string())));
    };
    let id = BodyId { tenant: tenant.clone(), report_id, variant, revision };
    let read = move || segment::open(&id, &place.key, frame, MAX_BODY_BYTES);
    let body = api.cpu.run_for(tenant, read).await?;
    Ok(body.map_err(|source| Lost::Damaged { key: key.to_string(), report: report_id, source }))
}
