//! The work of a child process, its answer, and the run of both in a folder.

use crate::child::{ChildLimits, ChildProgram, Ended, Limit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use unslide_model::{ContentHash, DebugId, Quality};
use unslide_symbolicate::object::ObjectError;

pub(crate) const REQUEST: &str = "request.json";
pub(crate) const ANSWER: &str = "answer.json";
/// Name of the file in which the child stores a symcache.
pub const SYMCACHE: &str = "symcache";
/// Name of the file in which the child stores a derived object.
pub const DERIVED: &str = "derived";

/// The request of a child process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The limits that the child applies to itself.
    pub limits: ChildLimits,
    /// Name of the setting that raises the child's memory, for error messages.
    pub memory_setting: String,
    /// The work.
    pub task: Task,
}

impl Request {
    /// Returns the reason of a build that needs more memory than it may have.
    pub(crate) fn exceeded_memory(&self) -> String {
        format!("it needs more than {} bytes of memory ({})", self.limits.memory_bytes, self.memory_setting)
    }
}

/// The work of a child in its folder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Builds the symcache of one slice, or of a source map for the debug id that its bundle has: the answer is a
    /// [`BuiltSlice`].
    Build {
        /// The file with the slice.
        file: PathBuf,
        /// The slice in the file.
        range: Range<u64>,
        /// The debug id of the source map's bundle.
        bundle: Option<DebugId>,
    },
    /// Builds a derived object of one slice: the answer is the hash of its bytes in the file [`DERIVED`].
    Derive {
        /// The file with the slice.
        file: PathBuf,
        /// The slice in the file.
        range: Range<u64>,
        /// The name of the derived object.
        name: String,
    },
    /// Runs a [`ChildTask`].
    Named {
        /// The name of the task.
        name: String,
        /// The input of the task.
        input: Value,
        /// Maximum size of a file that the task writes, in bytes.
        file_bytes: u64,
    },
}

impl Task {
    /// Returns the size of the object to build, or 0 for a task with memory that does not grow with its file.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        match self {
            Task::Build { range, .. } | Task::Derive { range, .. } => range.end.saturating_sub(range.start),
            Task::Named { .. } => 0,
        }
    }
}

/// Result of a build; the symcache is in the file [`SYMCACHE`].
#[derive(Debug, Serialize, Deserialize)]
pub struct BuiltSlice {
    /// The quality of the symcache.
    pub quality: Quality,
    /// Parts of the object that are not in the symcache, with the reason.
    pub warnings: Vec<String>,
    /// The hash of the symcache.
    pub sha256: ContentHash,
}

/// Work of a program in a child process, in the folder of its request. The program has a list of these, because a child
/// reads no configuration.
#[derive(Clone, Copy, Debug)]
pub struct ChildTask {
    /// The name of the task.
    pub name: &'static str,
    /// Does the work, and returns the answer.
    pub run: fn(Value) -> Result<Box<RawValue>, ChildTaskError>,
}

/// The failure of a [`ChildTask`].
#[derive(Debug)]
pub enum ChildTaskError {
    /// The file is the cause: the reason is for its sender.
    Malformed(String),
    /// The folder's files could not be used.
    Io(io::Error),
}

impl From<io::Error> for ChildTaskError {
    fn from(error: io::Error) -> ChildTaskError {
        ChildTaskError::Io(error)
    }
}

impl From<serde_json::Error> for ChildTaskError {
    fn from(error: serde_json::Error) -> ChildTaskError {
        ChildTaskError::Io(error.into())
    }
}

/// The answer of a child process.
pub type TaskAnswer<T> = Result<T, TaskError>;

/// Why a child process has no result.
#[derive(Debug, Serialize, Deserialize)]
pub enum TaskError {
    /// The file is refused, with the reason for its sender.
    Rejected(Rejection, String),
    /// A failure for which the file is not responsible.
    Failed(ChildFailure),
}

/// The class of a file that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rejection {
    /// It is damaged.
    Malformed,
    /// It is a file that no symcache is built from.
    Unsupported,
    /// It exceeds a limit of the child.
    TooComplex,
}

impl Rejection {
    /// Returns the class of an object's error.
    #[must_use]
    pub fn from_object_error(error: &ObjectError) -> Rejection {
        match error {
            ObjectError::Unsupported(_) => Rejection::Unsupported,
            ObjectError::TooLarge(_) | ObjectError::NeedsMemory(_) | ObjectError::TooComplex(_) => {
                Rejection::TooComplex
            }
            _ => Rejection::Malformed,
        }
    }
}

/// A failure for which the file is not responsible, by the action that it needs.
#[derive(Debug, Serialize, Deserialize)]
pub enum ChildFailure {
    /// This machine cannot run the child: the work waits.
    Server(String),
    /// The attempt failed, and the file may be the cause: it is tried again.
    Again(String),
}

impl From<io::Error> for ChildFailure {
    fn from(error: io::Error) -> ChildFailure {
        let detail = format!("cannot use temporary files: {error}");
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => {
                ChildFailure::Server(detail)
            }
            _ => ChildFailure::Again(detail),
        }
    }
}

impl From<ChildFailure> for TaskError {
    fn from(failure: ChildFailure) -> TaskError {
        TaskError::Failed(failure)
    }
}

impl From<io::Error> for TaskError {
    fn from(error: io::Error) -> TaskError {
        TaskError::Failed(error.into())
    }
}

/// Runs a request in a child of `program`, in `folder`. The child is stopped while `stop` is true. `held` is
/// dropped after the child has ended.
///
/// # Errors
/// Returns an error if the file is refused, or if the child cannot work.
pub async fn run_request<T: DeserializeOwned>(
    program: &ChildProgram,
    folder: &Path,
    request: &Request,
    stop: watch::Receiver<bool>,
    held: impl Send + 'static,
) -> TaskAnswer<T> {
    let text = serde_json::to_vec(request).map_err(io::Error::from)?;
    tokio::fs::write(folder.join(REQUEST), text).await?;
    let ended = program.run(folder, stop, held).await;
    match ended.map_err(|error| ChildFailure::Server(format!("cannot run a child process: {error}")))? {
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
            Err(TaskError::Rejected(Rejection::TooComplex, reason))
        }
        Ended::Failed(detail) => {
            tracing::error!(detail, "a child process crashed on a file");
            let reason = format!("a child process crashed on it: {detail}");
            Err(TaskError::Rejected(Rejection::Malformed, reason))
        }
        Ended::Interrupted(detail) => {
            let detail = format!("a child process was interrupted, perhaps for want of memory: {detail}");
            Err(ChildFailure::Again(detail).into())
        }
    }
}
