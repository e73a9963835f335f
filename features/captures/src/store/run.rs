//! The analyses of a capture, from their beginning to their end.

use super::{Capture, CaptureId, CaptureState, analysis_work, query_captures};
use serde_json::Value;
use unslide_model::DebugId;
use unslide_store::slots::{self, AnsweringGenerations};
use unslide_store::sql::{from_row32, to_row, to_row32};
use unslide_store::{OwnerTx, Result, TenantTx, jobs};

/// An analysis that was begun.
#[derive(Clone, Debug)]
pub struct CaptureRun {
    /// The capture as it is now.
    pub capture: Capture,
    /// A run before this one that has not ended; what it has stored answers nothing.
    pub unfinished: Option<u32>,
}

/// Begins an analysis. Returns `None` if the capture was deleted.
pub async fn begin(tx: &mut TenantTx, id: CaptureId) -> Result<Option<CaptureRun>> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE captures SET state = 'analysing', run = run + 1 WHERE tenant = $1 AND id = $2",
        tenant,
        id as CaptureId
    )
    .execute(&mut *connection)
    .await?;
    let found = query_captures!("WHERE tenant = $1 AND id = $2", tenant, id.uuid())
        .fetch_optional(connection)
        .await?;
    Ok(found.map(Capture::from).map(|capture| {
        let before = capture.run.saturating_sub(1);
        let unfinished = Some(before).filter(|run| *run > 0 && capture.answer != Some(*run));
        CaptureRun { capture, unfinished }
    }))
}

/// The symbols of a debug id that an analysis has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenSymbols {
    pub debug_id: DebugId,
    /// True for the system's, false for the tenant's own.
    pub system: bool,
    /// Their generation; 0 if there were none.
    pub generation: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisEnd {
    Answers {
        /// The run that answered before, if there was one.
        before: Option<u32>,
    },
    /// The capture was deleted, or a later run was begun: what was stored is of no use.
    Useless,
}

/// Ends a run with its analysis in object storage. If newer symbols came in between, another run is queued.
pub async fn finish(
    tx: &mut TenantTx,
    id: CaptureId,
    run: u32,
    summary: &Value,
    seen: &[SeenSymbols],
) -> Result<AnalysisEnd> {
    // Slots before the capture's row, as a wake has them.
    let newer = hold(tx, seen).await?;
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT state AS "state: CaptureState", answer FROM captures
           WHERE tenant = $1 AND id = $2 AND run = $3 FOR UPDATE"#,
        tenant,
        id as CaptureId,
        to_row32(run)
    );
    let Some(found) = found.fetch_optional(connection).await? else { return Ok(AnalysisEnd::Useless) };
    write_waits(tx, id, seen).await?;
    // Queued: a wake has come while it ran, and has added a job.
    let waits = found.state == CaptureState::Queued;
    let state = if waits || newer { CaptureState::Queued } else { CaptureState::Ready };
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE captures SET state = $3, answer = $4, summary = $5, reason = NULL, detail = NULL, analysed_at = $6
         WHERE tenant = $1 AND id = $2",
        tenant,
        id as CaptureId,
        state.as_str(),
        to_row32(run),
        summary,
        now
    )
    .execute(connection)
    .await?;
    if newer && !waits {
        jobs::add_job(tx, &analysis_work(id)).await?;
    }
    Ok(AnalysisEnd::Answers { before: found.answer.map(from_row32) })
}

/// Locks the slots of what was seen until the transaction ends. Returns true if one is newer.
async fn hold(tx: &mut TenantTx, seen: &[SeenSymbols]) -> Result<bool> {
    let ids = |system| -> Vec<DebugId> {
        seen.iter().filter(|seen| seen.system == system).map(|seen| seen.debug_id).collect()
    };
    let AnsweringGenerations { own, system } = slots::hold_answering(tx, &ids(false), &ids(true)).await?;
    Ok(seen.iter().any(|seen| {
        let now = if seen.system { &system } else { &own };
        now.get(&seen.debug_id).is_some_and(|generation| *generation > seen.generation)
    }))
}

async fn write_waits(tx: &mut TenantTx, id: CaptureId, seen: &[SeenSymbols]) -> Result<()> {
    let debug_ids: Vec<_> = seen.iter().map(|seen| seen.debug_id.uuid()).collect();
    let system: Vec<bool> = seen.iter().map(|seen| seen.system).collect();
    let generations: Vec<i64> = seen.iter().map(|seen| to_row(seen.generation)).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM capture_waits WHERE tenant = $1 AND capture_id = $2", tenant, id as CaptureId)
        .execute(&mut *connection)
        .await?;
    sqlx::query!(
        "INSERT INTO capture_waits (tenant, debug_id, capture_id, system, seen_generation)
         SELECT $1, n.debug_id, $2, n.system, n.seen
         FROM unnest($3::uuid[], $4::boolean[], $5::bigint[]) AS n (debug_id, system, seen)
         ON CONFLICT DO NOTHING",
        tenant,
        id as CaptureId,
        &debug_ids,
        &system,
        &generations
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that an analysis failed: a stable word, and a sentence. One that answered before still answers.
pub async fn fail(tx: &mut OwnerTx, id: CaptureId, reason: &str, detail: &str) -> Result<()> {
    // Postgres has no NUL in texts, and a file may hold one.
    let clean = |text: &str| text.replace('\0', "\u{FFFD}");
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE captures SET reason = $3, detail = $4, analysed_at = $5,
                state = CASE WHEN state = 'queued' THEN state WHEN answer IS NULL THEN 'failed' ELSE 'ready' END
         WHERE tenant = $1 AND id = $2",
        tenant,
        id as CaptureId,
        clean(reason),
        clean(detail),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
