//! Loading of a stored report for a request, if its key may see it.

use crate::operations::prelude::*;
use crate::reports::stored_body::{self, LostBody, StoredBody, StoredBodyError};
use crate::storage::transactions::Tx;
use unslide_model::ReportId;
use unslide_store::TenantTx;
use unslide_store::queries::report::{self, FoundReport};
use unslide_store::queries::reports::ReportRow;

/// Finds the stored report of an id without its body, if the key may see it. Also returns the transaction
/// that found it.
///
/// # Errors
/// [`Kind::NotFound`], or [`Kind::InvalidParameter`] for an invalid id.
pub async fn find_report(
    storage: &Storage,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
) -> Result<(Tx<TenantTx>, FoundReport), Problem> {
    let id: ReportId = parse_parameter("id", id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = report::find_report(&mut tx, id, variant).await?;
    let Some(found) = found.filter(|found| access.can_see(&found.listed.app)) else {
        return Err(Problem::new(Kind::NotFound, "there is no such report"));
    };
    Ok((tx, found))
}

/// Returns the stored report of an id with its JSON and the reservation, if the key may see it.
///
/// # Errors
/// Those of [`find_report`] and [`body_of`].
pub async fn load_report(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
) -> Result<(FoundReport, StoredBody), Problem> {
    let (tx, found) = find_report(&symbolication.storage, access, id, variant).await?;
    body_of(symbolication, access, id, variant, tx, found).await
}

/// Returns the JSON of reports that a list of this key has. One that was moved, revised or deleted since is left out.
///
/// # Errors
/// As [`load_report`].
pub async fn load_listed(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    listed: &[ReportRow],
) -> Result<Vec<StoredBody>, Problem> {
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let found = report::find_listed(&mut tx, listed).await?;
    stored_body::read_bodies(symbolication, access.tenant(), tx, &found).await
}

/// Reads the JSON of a report from the database or its segment. If it is not at the place in the row, it was
/// moved or revised since. The row is then read again, and the result belongs to the new row.
///
/// # Errors
/// Those of [`find_report`]; [`Kind::BodyNotKept`] if the body was dropped, [`Kind::Unavailable`] if object storage does not
/// answer, [`Kind::Internal`] if the body is lost or damaged.
pub async fn body_of(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
    tx: Tx<TenantTx>,
    found: FoundReport,
) -> Result<(FoundReport, StoredBody), Problem> {
    let first = match stored_body::read_body(symbolication, access.tenant(), tx, &found).await {
        Ok(body) => return Ok((found, body)),
        Err(StoredBodyError::Lost(LostBody::Dropped(dropped))) => {
            return Err(Problem::for_dropped_body(*dropped));
        }
        Err(StoredBodyError::Lost(lost)) => lost,
        Err(StoredBodyError::Problem(problem)) => return Err(problem),
    };
    tracing::debug!(error = %first, "a body was moved after its row was read: the row is read again");
    let (tx, found) = find_report(&symbolication.storage, access, id, variant).await?;
    match stored_body::read_body(symbolication, access.tenant(), tx, &found).await {
        Ok(body) => Ok((found, body)),
        Err(StoredBodyError::Problem(problem)) => Err(problem),
        Err(StoredBodyError::Lost(LostBody::Dropped(dropped))) => Err(Problem::for_dropped_body(*dropped)),
        Err(StoredBodyError::Lost(lost)) => {
            symbolication.storage.metrics.lost_bodies.inc();
            Err(Problem::internal(lost))
        }
    }
}
