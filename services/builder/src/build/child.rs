//! The child process that reads what tenants upload: one unpacks an upload, one builds each symcache, and one
//! runs each task of a feature.
//!
//! Its limits bound what a hostile file can cost. The builder and the child communicate through files in the
//! job's folder.

use crate::build::work_folder::Room;
use crate::builder::Builder;
use crate::failure::JobFailure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use unslide_artifacts::archive;
use unslide_model::{ContentHash, DebugId, Quality};
use unslide_runtime::child::{ChildLimits, ChildProgram, Ended, Limit};
use unslide_store::jobs::JobLease;
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::object;

pub(crate) const REQUEST: &str = "request.json";
pub(crate) const ANSWER: &str = "answer.json";
/// Name of the file in which the child stores a symcache.
pub(crate) const SYMCACHE: &str = "symcache";
/// Name of the file in which the child stores a derived object.
pub(crate) const DERIVED: &str = "derived";

#[derive(Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) limits: ChildLimits,
    /// Name of the setting that raises the child's memory, for error messages.
    pub(crate) memory_setting: String,
    pub(crate) task: Task,
}

impl Request {
    /// Returns the reason of a build that needs more memory than it may have.
    pub(crate) fn exceeded_memory(&self) -> String {
        format!("it needs more than {} bytes of memory ({})", self.limits.memory_bytes, self.memory_setting)
    }
}

/// The work of a child in the job's folder.
#[derive(Serialize, Deserialize)]
pub(crate) enum Task {
    /// Unpacks an upload: the answer is an [`Unpacked`](super::slices::Unpacked).
    Unpack { file: String, name: String, limits: archive::UnpackLimits },
    /// Builds the symcache of one slice, or of a source map for the debug id that its bundle has: the answer is a
    /// [`BuiltSlice`].
    Build { file: PathBuf, range: Range<u64>, bundle: Option<DebugId> },
    /// Builds a derived object of one slice: the answer is the hash of its bytes in the file [`DERIVED`].
    Derive { file: PathBuf, range: Range<u64>, name: String },
    /// Runs the task of a feature.
    Feature { name: String, input: Value, answer_bytes: u64 },
}

impl Task {
    /// Returns the size of the object to build, or 0 for a task with memory that does not grow with its file.
    fn object_bytes(&self) -> u64 {
        match self {
            Task::Build { range, .. } | Task::Derive { range, .. } => range.end.saturating_sub(range.start),
            Task::Unpack { .. } | Task::Feature { .. } => 0,
        }
    }
}

/// Result of a build; the symcache is in the file [`SYMCACHE`].
#[derive(Serialize, Deserialize)]
pub(crate) struct BuiltSlice {
    pub(crate) quality: Quality,
    /// Parts of the object that are not in the symcache, with the reason.
    pub(crate) warnings: Vec<String>,
    pub(crate) sha256: ContentHash,
}

/// Answer of a child process.
pub(crate) type ChildAnswer<T> = Result<T, ChildError>;

/// Error of a child process.
#[derive(Serialize, Deserialize)]
pub(crate) enum ChildError {
    /// The file is refused, with the reason for the object's record.
    Rejected(ObjectStatus, String),
    /// A failure for which the file is not responsible.
    Failed(JobFailure),
}

impl<E> From<E> for ChildError
where
    JobFailure: From<E>,
{
    fn from(error: E) -> ChildError {
        ChildError::Failed(error.into())
    }
}

impl ChildError {
    /// Ends the job with the reason.
    pub(crate) fn into_failure(self) -> JobFailure {
        match self {
            ChildError::Rejected(status, reason) => JobFailure::job(status.as_str(), reason),
            ChildError::Failed(failure) => failure,
        }
    }
}

/// Runs a task of a job in a child process, in the job's folder.
pub(crate) async fn run_task<T: DeserializeOwned>(
    builder: &Builder,
    job: &JobLease,
    room: &Arc<Room>,
    task: Task,
) -> ChildAnswer<T> {
    let settings = &builder.settings;
    let memory = builder.memory.acquire(task.object_bytes(), builder.places.is_extra(job.id)).await;
    let limits = ChildLimits {
        memory_bytes: memory.bytes,
        cpu_seconds: Some(settings.build_seconds),
        file_bytes: match &task {
            Task::Feature { answer_bytes, .. } => *answer_bytes,
            _ => room.limits().member_bytes.max(object::MAX_SYMCACHE_BYTES as u64),
        },
    };
    let held = (Arc::clone(room), memory);
    let memory_setting = "builder.build_memory".to_owned();
    let (request, stop) = (Request { limits, memory_setting, task }, builder.places.subscribe_stop(job.id));
    let child = run_request(&builder.child, room.path(), &request, stop, held);
    builder.places.run_child(job.id, child).await
}

/// Runs a request in a child of `program`, in `folder`. The child is stopped while `stop` is true. `held` is
/// dropped after the child has ended.
pub(crate) async fn run_request<T: DeserializeOwned>(
    program: &ChildProgram,
    folder: &Path,
    request: &Request,
    stop: watch::Receiver<bool>,
    held: impl Send + 'static,
) -> ChildAnswer<T> {
    let text = serde_json::to_vec(request).map_err(io::Error::from)?;
    tokio::fs::write(folder.join(REQUEST), text).await?;
    let ended = program.run(folder, stop, held).await;
    match ended.map_err(|error| JobFailure::Server(format!("cannot run a child process: {error}")))? {
        Ended::Done => {
            let answer = tokio::fs::read(folder.join(ANSWER)).await?;
            serde_json::from_slice(&answer).map_err(io::Error::from)?
        }
        Ended::LimitReached(limit) => {
            let limits = request.limits;
            let reason = match limit {
                Limit::Memory => request.exceeded_memory(),
                Limit::Cpu => {
                    let seconds = limits.cpu_seconds.unwrap_or_default();
                    format!("it needs more than {seconds} s of CPU (builder.build_cpu)")
                }
                Limit::FileSize => {
                    format!("it makes a file of more than {} bytes", limits.file_bytes)
                }
            };
            Err(ChildError::Rejected(ObjectStatus::TooComplex, reason))
        }
        Ended::Failed(detail) => {
            tracing::error!(detail, "a child process crashed on a file");
            let reason = format!("a child process crashed on it: {detail}");
            Err(ChildError::Rejected(ObjectStatus::Malformed, reason))
        }
        Ended::Interrupted(detail) => {
            let detail = format!("a child process was interrupted, perhaps for want of memory: {detail}");
            Err(JobFailure::Again(detail).into())
        }
    }
}
