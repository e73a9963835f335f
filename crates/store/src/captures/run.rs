//! The analyses of a capture, from their beginning to their end.

use super::{Capture, CaptureState, query_captures};
use crate::column::U32;
use crate::jobs::{self, Work};
use crate::number::{to_row, to_row32};
use crate::slots::{self, HeldSlot};
use crate::{OwnerTx, Result, TenantTx, Uuid, wakes};
use serde_json::Value;
use std::collections::BTreeMap;
use unslide_model::{DebugId, Quality};

/// An analysis that was begun.
#[derive(Clone, Debug)]
pub struct CaptureRun {
    /// The capture as it is now.
    pub capture: Capture,
    /// A run before this one that has not ended; what it has stored answers nothing.
    pub unfinished: Option<u32>,
}

/// Begins an analysis; `None` where the capture was deleted.
pub async fn begin(tx: &mut TenantTx, id: Uuid) -> Result<Option<CaptureRun>> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE captures SET state = 'analysing', run = run + 1 WHERE tenant = $1 AND id = $2",
        tenant,
        id
    )
    .execute(&mut *connection)
    .await?;
    let found =
        query_captures!("WHERE tenant = $1 AND id = $2", tenant, id).fetch_optional(connection).await?;
    Ok(found.map(|capture| {
        let before = capture.run.saturating_sub(1);
        let unfinished = Some(before).filter(|run| *run > 0 && capture.answer != Some(*run));
        CaptureRun { capture, unfinished }
    }))
}

/// The symbols of a debug id that an analysis has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenSymbols {
    /// The debug id.
    pub debug_id: DebugId,
    /// True for the system's, false for the tenant's own.
    pub system: bool,
    /// Their generation; 0 where there were none.
    pub generation: u64,
}

/// How an analysis ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisEnd {
    /// It answers. The run that answered before is given, where there was one.
    Answers {
        /// The run that answered before.
        before: Option<u32>,
    },
    /// The capture was deleted, or a later run was begun: what was stored is of no use.
    Useless,
}

/// Ends a run with its analysis in object storage. Where newer symbols came meanwhile another one is asked for.
pub async fn finish(
    tx: &mut TenantTx,
    (id, run): (Uuid, u32),
    summary: &Value,
    seen: &[SeenSymbols],
) -> Result<AnalysisEnd> {
    // Slots before the capture's row, as a wake has them.
    let newer = hold(tx, seen).await?;
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT state AS "state: CaptureState", answer AS "answer: U32" FROM captures
           WHERE tenant = $1 AND id = $2 AND run = $3 FOR UPDATE"#,
        tenant,
        id,
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
        id,
        state.as_str(),
        to_row32(run),
        summary,
        now
    )
    .execute(connection)
    .await?;
    if newer && !waits {
        jobs::add(tx, &Work::Analyse { capture: id }).await?;
    }
    Ok(AnalysisEnd::Answers { before: found.answer.map(Into::into) })
}

/// Holds the slots of what was seen until the transaction ends; true where one is newer.
async fn hold(tx: &mut TenantTx, seen: &[SeenSymbols]) -> Result<bool> {
    let ids = |system| {
        let mut ids: Vec<Uuid> =
            seen.iter().filter(|seen| seen.system == system).map(|seen| seen.debug_id.uuid()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let (own, system) = (ids(false), ids(true));
    wakes::system::lock_out_publishers(tx).await?;
    slots::ensure(tx, &own).await?;
    let held = slots::hold(tx, &own).await?;
    let of_system = slots::of_system(tx, &system).await?;
    let generations = |slots: Vec<HeldSlot>| -> BTreeMap<DebugId, u64> {
        let there = slots.into_iter().filter(|slot| slot.quality > Quality::None);
        there.map(|slot| (slot.debug_id, slot.generation)).collect()
    };
    let (held, of_system) = (generations(held), generations(of_system));
    Ok(seen.iter().any(|seen| {
        let now = if seen.system { &of_system } else { &held };
        now.get(&seen.debug_id).is_some_and(|generation| *generation > seen.generation)
    }))
}

async fn write_waits(tx: &mut TenantTx, id: Uuid, seen: &[SeenSymbols]) -> Result<()> {
    let debug_ids: Vec<Uuid> = seen.iter().map(|seen| seen.debug_id.uuid()).collect();
    let system: Vec<bool> = seen.iter().map(|seen| seen.system).collect();
    let generations: Vec<i64> = seen.iter().map(|seen| to_row(seen.generation)).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM capture_waits WHERE tenant = $1 AND capture_id = $2", tenant, id)
        .execute(&mut *connection)
        .await?;
    sqlx::query!(
        "INSERT INTO capture_waits (tenant, debug_id, capture_id, system, seen_generation)
         SELECT $1, n.debug_id, $2, n.system, n.seen
         FROM unnest($3::uuid[], $4::boolean[], $5::bigint[]) AS n (debug_id, system, seen)
         ON CONFLICT DO NOTHING",
        tenant,
        id,
        &debug_ids,
        &system,
        &generations
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that an analysis failed: a stable word, and a sentence. One that answered before still answers.
pub async fn fail(tx: &mut OwnerTx, id: Uuid, reason: &str, detail: &str) -> Result<()> {
    // Postgres has no NUL in texts, and a file may hold one.
    let clean = |text: &str| text.replace('\0', "\u{FFFD}");
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE captures SET reason = $3, detail = $4, analysed_at = $5,
                state = CASE WHEN state = 'queued' THEN state WHEN answer IS NULL THEN 'failed' ELSE 'ready' END
         WHERE tenant = $1 AND id = $2",
        tenant,
        id,
        clean(reason),
        clean(detail),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
