//! The JSON of a stored report, from the database or from its segment.

use crate::http::answers;
use crate::limits::permits::Reservation;
use crate::problem::{DroppedBody, Problem};
use crate::reports::symbolication::Symbolication;
use crate::storage::Storage;
use crate::storage::transactions::Tx;
use futures::future::join_all;
use memchr::memmem;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES, SegmentError};
use unslide_model::{ReportId, TenantId};
use unslide_report::{ReadError, Report};
use unslide_store::TenantTx;
use unslide_store::queries::report::{self, BodyPlace, FoundReport};
use unslide_store::queries::reports::ReportRow;
use unslide_store::segments::{BodyLocation, ReportBody};
use unslide_symbolicate::Analysis;

/// Error of a read of a stored body.
#[derive(Debug)]
pub enum StoredBodyError {
    /// The body is not in the place that its row names, or is damaged.
    Lost(LostBody),
    /// A limit or a server is in the way.
    Problem(Problem),
}

impl<E> From<E> for StoredBodyError
where
    Problem: From<E>,
{
    fn from(error: E) -> StoredBodyError {
        StoredBodyError::Problem(Problem::from(error))
    }
}

/// Reason why a stored body is missing.
#[derive(Debug, thiserror::Error)]
pub enum LostBody {
    /// The database has another revision by now, or none.
    #[error("the body of the stored report {0} was revised or moved")]
    Moved(ReportId),
    /// Its segment does not exist.
    #[error("the segment {0} of a stored report is gone")]
    Gone(String),
    /// The segment does not hold the body.
    #[error("the segment {key} does not hold the stored report {report}")]
    Damaged {
        key: String,
        report: ReportId,
        /// The error of the segment.
        source: SegmentError,
    },
    /// It was dropped.
    #[error(transparent)]
    Dropped(Box<DroppedBody>),
    /// The bytes in its place are no report.
    #[error("the body of the stored report {report} cannot be read")]
    Unreadable { report: ReportId, source: Problem },
}

impl LostBody {
    fn from_problem(found: &FoundReport, source: impl Into<Problem>) -> LostBody {
        LostBody::Unreadable { report: found.listed.report_id, source: source.into() }
    }
}

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
pub fn read_report(json: &[u8]) -> Result<Report<'_>, Problem> {
    Report::read_stored(json).map_err(Problem::internal)
}

/// Reads the JSON of a report that was found in this transaction, and ends the transaction. Reserves the bytes
/// before it reads them.
///
/// # Errors
/// Returns [`StoredBodyError::Lost`] if the body is not the one in the row or is damaged, and [`StoredBodyError::Problem`] if no
/// bytes are left for it or a server does not answer.
pub async fn read_body(
    symbolication: &Symbolication,
    tenant: &TenantId,
    tx: Tx<TenantTx>,
    found: &FoundReport,
) -> Result<StoredBody, StoredBodyError> {
    let reservation = answers::reserve_bytes(&symbolication.capacity.permits, tenant, found.size)?;
    let bytes = read_json(&symbolication.storage, tenant, tx, found).await?;
    finish_body(symbolication, tenant, found, bytes, reservation).await
}

/// Reads the JSON of several reports that were found in this transaction, and ends the transaction: one statement for those in the
/// database, and those in segments at the same time. A report that was moved or revised at this moment is left out, and
/// a damaged one.
///
/// # Errors
/// Those of [`read_body`].
pub async fn read_bodies(
    symbolication: &Symbolication,
    tenant: &TenantId,
    mut tx: Tx<TenantTx>,
    found: &[FoundReport],
) -> Result<Vec<StoredBody>, Problem> {
    let reserve =
        |found: &FoundReport| answers::reserve_bytes(&symbolication.capacity.permits, tenant, found.size);
    let reservations: Vec<Reservation> = found.iter().map(reserve).collect::<Result<_, _>>()?;
    let listed: Vec<_> = found.iter().map(|one| &one.listed).collect();
    let mut inline = report::load_bodies(&mut tx, &listed).await?;
    // The next step waits for object storage, and must not hold a connection.
    tx.rollback();
    let read = found.iter().zip(reservations).enumerate().map(|(at, (found, reservation))| {
        let body = inline.remove(&at);
        async move {
            let storage = &symbolication.storage;
            let bytes = match (found.place, body) {
                (BodyPlace::Database, Some(body)) => decompress_body(storage, tenant, found, body).await?,
                (BodyPlace::Segment(place), _) => {
                    from_segment(storage, body_id(tenant, found), place).await?
                }
                _ => return Err(StoredBodyError::Lost(LostBody::Moved(found.listed.report_id))),
            };
            finish_body(symbolication, tenant, found, bytes, reservation).await
        }
    });
    let mut bodies = Vec::with_capacity(found.len());
    for body in join_all(read).await {
        match body {
            Ok(body) => bodies.push(body),
            Err(StoredBodyError::Lost(lost)) => tracing::debug!(error = %lost, "a report is left out"),
            Err(StoredBodyError::Problem(problem)) => return Err(problem),
        }
    }
    Ok(bodies)
}

fn body_id(tenant: &TenantId, found: &FoundReport) -> BodyId {
    let (report_id, variant) = (found.listed.report_id, found.listed.variant);
    BodyId { tenant: tenant.clone(), report_id, variant, revision: found.listed.revision }
}

/// Translates a body of another format, and hides what is off for the tenant.
async fn finish_body(
    symbolication: &Symbolication,
    tenant: &TenantId,
    found: &FoundReport,
    bytes: Vec<u8>,
    mut reservation: Reservation,
) -> Result<StoredBody, StoredBodyError> {
    if symbolication.readers.find(&bytes).is_none() {
        let body = StoredBody { json: bytes, document: None, reservation };
        return hide_members(symbolication, tenant, found, body).await;
    }
    let readers = symbolication.readers.clone();
    let translate = move || {
        let json = readers.stored_report(&bytes)?.into_owned();
        Ok::<_, ReadError>((json, bytes))
    };
    let translated = symbolication.capacity.cpu.run_for(tenant, translate).await?;
    let (json, document) = translated
        .map_err(|error| StoredBodyError::Lost(LostBody::from_problem(found, Problem::internal(error))))?;
    reservation.reserve_more(json.len() as u64)?;
    hide_members(symbolication, tenant, found, StoredBody { json, document: Some(document), reservation })
        .await
}

/// Removes the members of analyses that are off for the tenant: one that has turned an analysis off must not find what it said
/// in stored reports.
async fn hide_members(
    symbolication: &Symbolication,
    tenant: &TenantId,
    found: &FoundReport,
    mut body: StoredBody,
) -> Result<StoredBody, StoredBodyError> {
    let is_in = |member: &str| memmem::find(&body.json, format!(",\"{member}\":").as_bytes()).is_some();
    let is_off = |analysis: &&Analysis| !analysis.is_enabled(&found.analysis_switches);
    let off = symbolication.analyses.iter().filter(is_off).map(|analysis| analysis.member);
    let hidden: Vec<&str> = off.filter(|member| is_in(member)).collect();
    if hidden.is_empty() {
        return Ok(body);
    }
    let cut = move || {
        let ranges = read_report(&body.json)?.find_own_members(&hidden);
        for range in ranges.into_iter().rev() {
            let member: Vec<u8> = body.json.drain(range).collect();
            // A document of another format has our members as they are. One that has not is not shown.
            body.document = body.document.take().and_then(|mut document| {
                let at = memmem::find(&document, &member)?;
                document.drain(at..at + member.len());
                Some(document)
            });
        }
        Ok::<_, Problem>(body)
    };
    let cut = symbolication.capacity.cpu.run_for(tenant, cut).await?;
    cut.map_err(|problem| StoredBodyError::Lost(LostBody::from_problem(found, problem)))
}

async fn read_json(
    storage: &Storage,
    tenant: &TenantId,
    mut tx: Tx<TenantTx>,
    found: &FoundReport,
) -> Result<Vec<u8>, StoredBodyError> {
    let report_id = found.listed.report_id;
    match found.place {
        BodyPlace::Database => {
            let body = report::load_body(&mut tx, &found.listed).await?;
            tx.rollback();
            let body = body.ok_or(StoredBodyError::Lost(LostBody::Moved(report_id)))?;
            decompress_body(storage, tenant, found, body).await
        }
        BodyPlace::Segment(place) => {
            // The next step waits for object storage, and must not hold a connection.
            tx.rollback();
            from_segment(storage, body_id(tenant, found), place).await
        }
        BodyPlace::Dropped { kept_bodies } => {
            let like = report::find_like(&mut tx, &found.listed).await?;
            tx.rollback();
            let listed = ReportRow { like_report: like.map(|(id, _)| id), ..found.listed.clone() };
            let dropped = DroppedBody { listed, kept_bodies, like };
            Err(StoredBodyError::Lost(LostBody::Dropped(Box::new(dropped))))
        }
    }
}

/// Unpacks a body of the database.
async fn decompress_body(
    storage: &Storage,
    tenant: &TenantId,
    found: &FoundReport,
    body: ReportBody,
) -> Result<Vec<u8>, StoredBodyError> {
    let unpacked = storage.capacity.cpu.run_for(tenant, move || body.decompress_json()).await?;
    unpacked.map_err(|error| StoredBodyError::Lost(LostBody::from_problem(found, error)))
}

/// Reads the JSON of a report's revision from its place in a segment.
///
/// # Errors
/// Those of [`read`].
async fn from_segment(
    storage: &Storage,
    id: BodyId,
    place: BodyLocation,
) -> Result<Vec<u8>, StoredBodyError> {
    let (tenant, report) = (id.tenant.clone(), id.report_id);
    let key = keys::for_segment(&tenant, place.day, place.segment);
    let Some(frame) = segment::fetch_frame(&storage.objects, &key, place.offset, place.length).await? else {
        return Err(StoredBodyError::Lost(LostBody::Gone(key.to_string())));
    };
    let read = move || segment::open_frame(&id, &place.key, frame, MAX_BODY_BYTES);
    let body = storage.capacity.cpu.run_for(&tenant, read).await?;
    body.map_err(|source| StoredBodyError::Lost(LostBody::Damaged { key: key.to_string(), report, source }))
}
