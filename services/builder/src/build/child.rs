//! The child process that reads what tenants upload: one unpacks an upload, one builds each symcache, one analyses a
//! capture.
//!
//! Its limits bound what a hostile file can cost. Builder and child speak through files in the job's folder.

use crate::build::work_folder::Room;
use crate::builder::Builder;
use crate::failure::JobFailure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use unslide_artifacts::archive;
use unslide_model::{CaptureForm, ContentHash, DebugId, Quality};
use unslide_runtime::child::{ChildLimits, Ended, Limit};
use unslide_signals::capture::MOST_ANALYSIS_BYTES;
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::object;

pub(crate) const REQUEST: &str = "request.json";
pub(crate) const ANSWER: &str = "answer.json";
/// Where the child leaves a symcache.
pub(crate) const SYMCACHE: &str = "symcache";

#[derive(Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) limits: ChildLimits,
    pub(crate) task: Task,
}

/// What a child does in the job's folder.
#[derive(Serialize, Deserialize)]
pub(crate) enum Task {
    /// Unpacks an upload: the answer is an [`Unpacked`].
    Unpack { file: String, name: String, limits: archive::UnpackLimits },
    /// Builds the symcache of one slice: the answer is a [`BuiltSlice`].
    Build { file: PathBuf, range: Range<u64> },
    /// Analyses a capture with the symcaches of these debug ids: the answer is a `CaptureReading`.
    Analyse { form: CaptureForm, symcaches: Vec<DebugId> },
}

/// A symcache in the file [`SYMCACHE`].
#[derive(Serialize, Deserialize)]
pub(crate) struct BuiltSlice {
    pub(crate) quality: Quality,
    pub(crate) sha256: ContentHash,
}

/// An answer; or why the file gives none, for the object's record; or a failure that is not the file's.
pub(crate) type ChildAnswer<T> = Result<Result<T, (ObjectStatus, String)>, JobFailure>;

/// Has a child do something in the job's folder.
pub(crate) async fn run<T: DeserializeOwned>(
    builder: &Builder,
    room: &Arc<Room>,
    task: Task,
) -> ChildAnswer<T> {
    let settings = &builder.settings;
    let limits = ChildLimits {
        memory_bytes: settings.build_bytes,
        cpu_seconds: Some(settings.build_seconds),
        file_bytes: match &task {
            Task::Analyse { .. } => 2 * MOST_ANALYSIS_BYTES as u64,
            _ => room.limits().member_bytes.max(object::MAX_SYMCACHE_BYTES as u64),
        },
    };
    let request = serde_json::to_vec(&Request { limits, task }).map_err(io::Error::from)?;
    tokio::fs::write(room.path().join(REQUEST), request).await?;
    let ended = builder.child.run(room.path(), Arc::clone(room)).await;
    match ended.map_err(|error| JobFailure::Server(format!("cannot run a child process: {error}")))? {
        Ended::Done => {
            let answer = tokio::fs::read(room.path().join(ANSWER)).await?;
            serde_json::from_slice(&answer).map_err(io::Error::from)?
        }
        Ended::LimitReached(limit) => {
            let reason = match limit {
                Limit::Memory => {
                    format!(
                        "it needs more than {} bytes of memory (builder.build_memory)",
                        limits.memory_bytes
                    )
                }
                Limit::Cpu => {
                    format!("it needs more than {} s of CPU (builder.build_cpu)", settings.build_seconds)
                }
                Limit::FileSize => {
                    format!("it makes a file of more than {} bytes", limits.file_bytes)
                }
            };
            Ok(Err((ObjectStatus::TooComplex, reason)))
        }
        Ended::Failed(detail) => {
            tracing::error!(detail, "a child process crashed on a file");
            Ok(Err((ObjectStatus::Malformed, format!("the builder crashed on it: {detail}"))))
        }
        Ended::Interrupted(detail) => Err(JobFailure::Again(format!(
            "a child process was interrupted, perhaps for want of memory: {detail}"
        ))),
    }
}
