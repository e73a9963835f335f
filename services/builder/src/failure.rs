//! Reasons why a job did not complete.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use unslide_archive::ArchiveError;
use unslide_model::format_causes;
use unslide_sandbox::ChildFailure;

/// A failure, by the action that it needs.
#[derive(Debug, Serialize, Deserialize)]
pub enum JobFailure {
    /// A server is unavailable or refuses us: the job is not the cause, and waits.
    Server(String),
    /// Objects could not be deleted, and all others were: the job waits, but no other job waits for it.
    Object(String),
    /// The attempt failed, and the job may be the cause: it is tried up to `MAX_ATTEMPTS` times.
    Again(String),
    /// The job cannot succeed: a stable reason for the upload's record, and a description.
    Job { reason: Cow<'static, str>, detail: String },
    /// Another builder has the job.
    LeaseLost,
    /// The job's tenant was deleted: the job has no work left.
    TenantDeleted,
    /// The job's tenant is moving to another cell: the job waits, or goes on there.
    TenantMoving,
}

impl JobFailure {
    /// Creates a failure of the job itself.
    pub fn job(reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> JobFailure {
        JobFailure::Job { reason: reason.into(), detail: detail.into() }
    }
}

impl From<unslide_store::StoreError> for JobFailure {
    fn from(error: unslide_store::StoreError) -> JobFailure {
        match error {
            unslide_store::StoreError::LeaseLost(_) => JobFailure::LeaseLost,
            unslide_store::StoreError::TenantDeleted => JobFailure::TenantDeleted,
            unslide_store::StoreError::TenantMoving => JobFailure::TenantMoving,
            error if error.is_data() => JobFailure::job("internal", format_causes(&error)),
            error @ unslide_store::StoreError::Corrupt { .. } => JobFailure::Again(format_causes(&error)),
            error => JobFailure::Server(format_causes(&error)),
        }
    }
}

impl From<unslide_artifacts::StorageError> for JobFailure {
    fn from(error: unslide_artifacts::StorageError) -> JobFailure {
        use unslide_artifacts::StorageError::{File, Refused, Source, Transient, Unfinished};
        match error {
            File(error) | Source(error) => error.into(),
            error @ (Refused { .. } | Transient { .. } | Unfinished { .. }) => {
                JobFailure::Server(format_causes(&error))
            }
            error => JobFailure::Again(format_causes(&error)),
        }
    }
}

impl From<ChildFailure> for JobFailure {
    fn from(failure: ChildFailure) -> JobFailure {
        match failure {
            ChildFailure::Server(detail) => JobFailure::Server(detail),
            ChildFailure::Again(detail) => JobFailure::Again(detail),
        }
    }
}

impl From<std::io::Error> for JobFailure {
    fn from(error: std::io::Error) -> JobFailure {
        ChildFailure::from(error).into()
    }
}

impl From<ArchiveError> for JobFailure {
    fn from(error: ArchiveError) -> JobFailure {
        match error {
            ArchiveError::Disk(error) => error.into(),
            error => JobFailure::job(error.reason(), format_causes(&error)),
        }
    }
}
