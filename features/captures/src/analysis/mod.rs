//! Analysis of captures, in jobs of the builder.

mod child;
mod symbols;

use crate::capture::{CaptureAnalysis, CaptureReading, MOST_ANALYSIS_BYTES, SkippedPart};
use crate::keys::CaptureKeys;
use crate::store::{self, AnalysisEnd, Capture, CaptureRun};
use bytes::Bytes;
use child::{AnalysisInput, TASK};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use symbols::CaptureSymbols;
use unslide_artifacts::{Put, StorageError};
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler, Room};
use unslide_model::{DebugId, TenantId};
use unslide_store::{HookFuture, OwnerTx, jobs, segments};

/// Two at once, so that one tenant's captures do not delay another's.
pub const JOBS: &[JobHandler] =
    &[JobHandler { kind: store::JOB_KIND, places: 2, child_task: Some(TASK), run, give_up }];

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(analyse(job))
}

fn give_up<'t>(tx: &'t mut OwnerTx, given_up: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async {
        let capture = given_up.job.work.row("capture")?;
        store::fail(tx, capture, given_up.reason, given_up.detail).await
    })
}

/// Bytes of the upload that a capture reserves as much room as, at least: its symcaches need some.
const ROOM_BYTES: u64 = 16 << 20;

/// Analyses a capture with the symbols that there are. Every step may be repeated.
async fn analyse(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let tenant = job.lease.tenant()?;
    let id = job.lease.work.row("capture")?;
    let keys = CaptureKeys::new(tenant, id);
    let mut tx = job.store().tenant(tenant).await?;
    jobs::lock_job(&mut tx, job.lease).await?;
    let Some(CaptureRun { capture, unfinished }) = store::begin(&mut tx, id).await? else {
        // It was deleted.
        return job.end_turn(tx, None).await;
    };
    let left = unfinished.map(|run| keys.analysis(run).to_string());
    segments::condemn_objects(&mut tx, left.as_slice()).await?;
    tx.commit().await?;

    let room = job.acquire_room(capture.size.max(ROOM_BYTES)).await?;
    download(job, &keys, &capture, &room).await?;
    let first = read(job, &room, &capture, &[]).await?;
    let found = symbols::fetch(job, tenant, &room, &first.wanted).await?;
    let reading =
        if found.fetched.is_empty() { first } else { read(job, &room, &capture, &found.fetched).await? };
    drop(room);
    let analysis = complete(reading, &found);
    finish(job, &keys, &capture, &analysis, &found).await
}

/// Fetches the files of a capture into the job's folder, each under the name of its part.
async fn download(
    job: &FeatureJob<'_>,
    keys: &CaptureKeys,
    capture: &Capture,
    room: &Room,
) -> Result<(), JobFailure> {
    for part in capture.form.list_parts() {
        let Some(file) = capture.files.iter().find(|file| file.name == part.name) else { continue };
        let path = room.path().join(part.name);
        match job.objects().get_to_file(&keys.part(part.name), &path, file.size).await {
            Ok(Some(fetched)) if fetched.head.size == file.size => {}
            Ok(None) => return Err(JobFailure::job("capture_lost", format!("{} is not stored", part.name))),
            Ok(Some(_)) | Err(StorageError::TooLarge { .. }) => {
                let detail = format!("{} is stored with another size than it came with", part.name);
                return Err(JobFailure::job("capture_changed", detail));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Has a child read the capture with the symcaches that lie in the job's folder.
async fn read(
    job: &FeatureJob<'_>,
    room: &Arc<Room>,
    capture: &Capture,
    symcaches: &[DebugId],
) -> Result<CaptureReading, JobFailure> {
    let input = AnalysisInput { form: capture.form, symcaches: symcaches.to_vec() };
    job.run_child(room, &TASK, &input, 2 * MOST_ANALYSIS_BYTES as u64).await
}

/// Returns the analysis with a note on symbols that were not fetched.
fn complete(reading: CaptureReading, found: &CaptureSymbols) -> CaptureAnalysis {
    let mut analysis = reading.analysis;
    if found.too_large > 0 {
        let what = "images have symbols that are too large together".to_owned();
        analysis.skipped.push(SkippedPart { count: found.too_large, what });
    }
    analysis
}

/// Returns the summary of an analysis for lists.
fn summary(analysis: &CaptureAnalysis) -> Value {
    let lacking = analysis.lacking.iter().filter(|image| !image.system).count();
    let tree = &analysis.tree;
    let mut summary =
        json!({"unit": tree.unit, "weight": tree.weight, "count": tree.count, "lacking": lacking});
    if let Some(vm) = &analysis.vm_tree {
        summary["vm_weight"] = json!(vm.weight);
        summary["vm_count"] = json!(vm.count);
    }
    // Captures of one source are compared.
    match (&analysis.graph, &analysis.memory) {
        (Some(graph), _) => summary["source"] = json!(graph.source),
        (None, Some(memory)) if memory.position.is_none() => summary["source"] = json!("sorted_log"),
        _ => {}
    }
    summary
}

/// Stores the analysis and ends the job. The analysis is thrown away if a later run has begun.
async fn finish(
    job: &FeatureJob<'_>,
    keys: &CaptureKeys,
    capture: &Capture,
    analysis: &CaptureAnalysis,
    found: &CaptureSymbols,
) -> Result<(), JobFailure> {
    let tenant: &TenantId = job.lease.tenant()?;
    let json = serde_json::to_vec(analysis).map_err(io::Error::from)?;
    if json.len() > MOST_ANALYSIS_BYTES {
        let detail = format!("its analysis has {} bytes", json.len());
        return Err(JobFailure::job("too_complex", detail));
    }
    let key = keys.analysis(capture.run);
    job.objects().put(&key, Bytes::from(json), &Put::default()).await?;
    let mut tx = job.store().tenant(tenant).await?;
    job.hold_tenant(&mut tx).await?;
    let end = store::finish(&mut tx, capture.id, capture.run, &summary(analysis), &found.seen).await?;
    if let AnalysisEnd::Answers { before: Some(before) } = end {
        segments::condemn_objects(&mut tx, &[keys.analysis(before).to_string()]).await?;
    }
    if end == AnalysisEnd::Useless {
        segments::condemn_objects(&mut tx, &[key.to_string()]).await?;
    }
    jobs::complete_job(&mut tx, job.lease).await?;
    Ok(tx.commit().await?)
}
