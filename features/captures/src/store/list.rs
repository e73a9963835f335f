//! Captures by id and in lists, and their deletion.

use super::{Capture, CaptureId, query_captures};
use crate::capture::CaptureKind;
use sqlx::FromRow;
use time::OffsetDateTime;
use unslide_store::report_rows::{ReportRow, ReportSample, SampleScope, read_samples};
use unslide_store::{ReportPlace, Result, TenantTx};

/// A selection of captures. `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureFilter {
    pub app: Option<String>,
    pub version: Option<String>,
    pub kind: Option<String>,
}

/// Finds a capture. Returns `None` if no capture has the id, or it is of another app than `app`.
pub async fn get(tx: &mut TenantTx, id: CaptureId, app: Option<&str>) -> Result<Option<Capture>> {
    let (connection, tenant, _) = tx.parts();
    let found =
        query_captures!("WHERE tenant = $1 AND id = $2 AND (app = $3 OR $3 IS NULL)", tenant, id.uuid(), app);
    Ok(found.fetch_optional(connection).await?.map(Capture::from))
}

/// Lists captures, the newest first, from the one after `after` on: when it was received, and its id.
pub async fn list(
    tx: &mut TenantTx,
    filter: &CaptureFilter,
    after: Option<(OffsetDateTime, CaptureId)>,
    limit: u32,
) -> Result<Vec<Capture>> {
    let (connection, tenant, _) = tx.parts();
    let found = query_captures!(
        "WHERE tenant = $1 AND (app = $2 OR $2 IS NULL) AND (version = $3 OR $3 IS NULL)
               AND (kind = $4 OR $4 IS NULL) AND ($5::timestamptz IS NULL OR (received_at, id) < ($5, $6::uuid))
         ORDER BY received_at DESC, id DESC LIMIT $7",
        tenant,
        filter.app.as_deref(),
        filter.version.as_deref(),
        filter.kind.as_deref(),
        after.map(|after| after.0),
        after.map(|after| after.1.uuid()),
        i64::from(limit)
    );
    Ok(found.fetch_all(connection).await?.into_iter().map(Capture::from).collect())
}

/// Lists the captures that came before this one and that it can be compared with, the newest first: those of the same app,
/// kind and source that have an analysis.
pub async fn earlier(tx: &mut TenantTx, of: &Capture, limit: u32) -> Result<Vec<Capture>> {
    let source = of.summary.as_ref().and_then(|summary| summary["source"].as_str());
    // A file that is opaque.
    if source.is_none() && of.kind == CaptureKind::MemoryGraph {
        return Ok(Vec::new());
    }
    let (connection, tenant, _) = tx.parts();
    let found = query_captures!(
        "WHERE tenant = $1 AND app = $2 AND kind = $3 AND (received_at, id) < ($4, $5) AND answer IS NOT NULL
               AND summary ->> 'source' IS NOT DISTINCT FROM $6
         ORDER BY received_at DESC, id DESC LIMIT $7",
        tenant,
        of.app,
        of.kind.as_str(),
        of.received_at,
        of.id.uuid(),
        source,
        i64::from(limit)
    );
    Ok(found.fetch_all(connection).await?.into_iter().map(Capture::from).collect())
}

/// Deletes a capture and returns it, so that its objects can be condemned in the same transaction. Returns `None` if no
/// capture has the id, or it is of another app than `app`.
pub async fn delete(tx: &mut TenantTx, id: CaptureId, app: Option<&str>) -> Result<Option<Capture>> {
    let (connection, tenant, _) = tx.parts();
    // Locked, so that no run begins that leaves an analysis which is not condemned.
    let capture = query_captures!(
        "WHERE tenant = $1 AND id = $2 AND (app = $3 OR $3 IS NULL) FOR UPDATE",
        tenant,
        id.uuid(),
        app
    );
    let Some(capture) = capture.fetch_optional(&mut *connection).await? else { return Ok(None) };
    sqlx::query!("DELETE FROM captures WHERE tenant = $1 AND id = $2", tenant, id as CaptureId)
        .execute(connection)
        .await?;
    Ok(Some(capture.into()))
}

/// A capture that was recorded in a run of the app.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct RunCapture {
    pub id: CaptureId,
    /// Its kind, such as `memory_graph`.
    pub kind: String,
    pub received_at: OffsetDateTime,
}

/// Lists the captures of the run that a report is of, the newest first. A device writes the id of its run in either case.
pub async fn for_run(tx: &mut TenantTx, report: &ReportRow, limit: u32) -> Result<Vec<RunCapture>> {
    let ReportRow { report_id, variant, received_at, .. } = *report;
    let places = [ReportPlace { id: report_id, variant, received_at }];
    let tenant = tx.parts().1.to_owned();
    let sample = ReportSample::new(SampleScope::Places(&places), "r.app, r.run_id", 1);
    read_samples(tx, [sample], &|query| {
        query.push(
            "SELECT c.id, c.kind, c.received_at FROM newest r JOIN captures c ON c.app = r.app
               AND c.session_id = ANY (ARRAY[r.run_id::text, upper(r.run_id::text)])
             WHERE c.tenant = ",
        );
        query.push_bind(tenant.clone());
        query.push(format!(" ORDER BY c.received_at DESC, c.id DESC LIMIT {limit}"));
    })
    .await
}
