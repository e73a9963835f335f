//! The child process that reads what tenants upload: one unpacks an upload, one builds each symcache, and one
//! runs each task of a feature. Its limits bound what a hostile file can cost.

use crate::build::resources::BuildResources;
use crate::build::work_folder::Room;
use crate::failure::JobFailure;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use unslide_sandbox::child::ChildLimits;
use unslide_sandbox::{Rejection, Request, Task, TaskError, run_request};
use unslide_store::jobs::JobLease;
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::object;

/// Answer of a child process.
pub(crate) type ChildAnswer<T> = Result<T, ChildError>;

/// Error of a child process, or of a step around it.
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
    fn from_task(error: TaskError) -> ChildError {
        match error {
            TaskError::Rejected(rejection, reason) => ChildError::Rejected(to_status(rejection), reason),
            TaskError::Failed(failure) => ChildError::Failed(failure.into()),
        }
    }

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
    resources: &BuildResources,
    job: &JobLease,
    room: &Arc<Room>,
    task: Task,
) -> ChildAnswer<T> {
    let settings = &resources.settings;
    let memory = resources.memory.acquire(task.object_bytes(), resources.places.is_extra(job.id)).await;
    let limits = ChildLimits {
        memory_bytes: memory.bytes,
        cpu_seconds: Some(settings.build_seconds),
        file_bytes: match &task {
            Task::Named { file_bytes, .. } => *file_bytes,
            _ => room.limits().member_bytes.max(object::MAX_SYMCACHE_BYTES as u64),
        },
    };
    let held = (Arc::clone(room), memory);
    let memory_setting = "builder.build_memory".to_owned();
    let (request, stop) = (Request { limits, memory_setting, task }, resources.places.subscribe_stop(job.id));
    let program = resources.child.clone().for_tenant(job.owner.tenant().cloned());
    let child = run_request(&program, room.path(), &request, stop, held);
    resources.places.run_child(job.id, child).await.map_err(ChildError::from_task)
}

/// Returns the status of an object that a child refuses.
pub(crate) fn to_status(rejection: Rejection) -> ObjectStatus {
    match rejection {
        Rejection::Malformed => ObjectStatus::Malformed,
        Rejection::Unsupported => ObjectStatus::Unsupported,
        Rejection::TooComplex => ObjectStatus::TooComplex,
    }
}
