//! Captures: files that were recorded on a device and are analysed as a whole.

pub(crate) mod symbols;

use crate::build::child::{self, Task};
use crate::build::work_folder::Room;
use crate::builder::Builder;
use crate::deletion::erase::alive;
use crate::failure::JobFailure;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use symbols::CaptureSymbols;
use unslide_artifacts::keys::{self, CaptureKeys};
use unslide_artifacts::{Put, StorageError};
use unslide_model::{DebugId, TenantId};
use unslide_signals::capture::{CaptureAnalysis, CaptureReading, MOST_ANALYSIS_BYTES, SkippedPart};
use unslide_store::captures::{self, AnalysisEnd, Capture, CaptureRun};
use unslide_store::jobs::{self, JobLease};
use unslide_store::{Uuid, segments};

/// A capture reserves room for its symcaches as an upload of at least this many bytes does.
const ROOM_BYTES: u64 = 16 << 20;

/// Analyses a capture with the symbols that there are. Every step may be done again.
pub(crate) async fn analyse(builder: &Builder, job: &JobLease, id: Uuid) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let keys = keys::capture(tenant, id);
    let mut tx = builder.store.tenant(tenant).await?;
    jobs::hold(&mut tx, job).await?;
    let Some(CaptureRun { capture, unfinished }) = captures::begin(&mut tx, id).await? else {
        // It was deleted.
        jobs::complete(&mut tx, job).await?;
        return Ok(tx.commit().await?);
    };
    let left = unfinished.map(|run| keys.analysis(run).to_string());
    segments::condemn(&mut tx, left.as_slice()).await?;
    tx.commit().await?;

    let room = builder.work.room(capture.size.max(ROOM_BYTES), builder.places.is_extra(job.id)).await?;
    download(builder, &keys, &capture, &room).await?;
    let first = read(builder, job, &room, &capture, &[]).await?;
    let found = symbols::fetch(builder, tenant, &room, &first.wanted).await?;
    let reading = if found.fetched.is_empty() {
        first
    } else {
        read(builder, job, &room, &capture, &found.fetched).await?
    };
    drop(room);
    let analysis = complete(reading, &found);
    store(builder, job, (&keys, &capture), &analysis, &found).await
}

/// Fetches the files of a capture into the job's folder, each under the name of its part.
async fn download(
    builder: &Builder,
    keys: &CaptureKeys,
    capture: &Capture,
    room: &Room,
) -> Result<(), JobFailure> {
    for part in capture.form.parts() {
        let Some(file) = capture.files.iter().find(|file| file.name == part.name) else { continue };
        let path = room.path().join(part.name);
        match builder.objects.get_to_file(&keys.part(part.name), &path, file.size).await {
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
    builder: &Builder,
    job: &JobLease,
    room: &Arc<Room>,
    capture: &Capture,
    symcaches: &[DebugId],
) -> Result<CaptureReading, JobFailure> {
    let task = Task::Analyse { form: capture.form, symcaches: symcaches.to_vec() };
    let read = child::run(builder, job, room, task).await?;
    read.map_err(|(status, reason)| JobFailure::job(status.as_str(), reason))
}

/// The analysis, with what is said of the symbols that were not fetched.
fn complete(reading: CaptureReading, found: &CaptureSymbols) -> CaptureAnalysis {
    let mut analysis = reading.analysis;
    if found.too_large > 0 {
        let what = "images have symbols that are too large together".to_owned();
        analysis.skipped.push(SkippedPart { count: found.too_large, what });
    }
    analysis
}

/// What a list says of an analysis.
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

/// Stores the analysis and ends the job; where another one is under way by now, it is thrown away.
async fn store(
    builder: &Builder,
    job: &JobLease,
    (keys, capture): (&CaptureKeys, &Capture),
    analysis: &CaptureAnalysis,
    found: &CaptureSymbols,
) -> Result<(), JobFailure> {
    let tenant: &TenantId = job.tenant()?;
    let json = serde_json::to_vec(analysis).map_err(std::io::Error::from)?;
    if json.len() > MOST_ANALYSIS_BYTES {
        let detail = format!("its analysis has {} bytes", json.len());
        return Err(JobFailure::job("too_complex", detail));
    }
    let key = keys.analysis(capture.run);
    builder.objects.put(&key, Bytes::from(json), &Put::default()).await?;
    let mut tx = builder.store.tenant(tenant).await?;
    alive(&mut tx).await?;
    let end = captures::finish(&mut tx, (capture.id, capture.run), &summary(analysis), &found.seen).await?;
    if let AnalysisEnd::Answers { before: Some(before) } = end {
        segments::condemn(&mut tx, &[keys.analysis(before).to_string()]).await?;
    }
    if end == AnalysisEnd::Useless {
        segments::condemn(&mut tx, &[key.to_string()]).await?;
    }
    jobs::complete(&mut tx, job).await?;
    Ok(tx.commit().await?)
}
