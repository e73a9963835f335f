//! Why a job did not come to its end.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::ErrorKind;
use unslide_artifacts::archive::ArchiveError;

/// A failure, by what is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// A server is away or refuses us: the job is not to blame, and waits.
    Server(String),
    /// Objects could not be deleted, and all others were: the job waits, and none waits for it meanwhile.
    Object(String),
    /// It did not work this time, and nothing says that it was not for the job: it is tried so many times.
    Again(String),
    /// The job can't succeed: a stable word for the upload's record, and a sentence.
    Job { reason: Cow<'static, str>, detail: String },
    /// Somebody else has the job.
    LeaseLost,
    /// The job's tenant was deleted: nothing is to be done for it any more.
    TenantDeleted,
}

impl Failure {
    pub(crate) fn job(reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Failure {
        Failure::Job { reason: reason.into(), detail: detail.into() }
    }
}

/// The error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<unslide_store::StoreError> for Failure {
    fn from(error: unslide_store::StoreError) -> Failure {
        match error {
            unslide_store::StoreError::LeaseLost(_) => Failure::LeaseLost,
            unslide_store::StoreError::TenantDeleted => Failure::TenantDeleted,
            error if error.is_data() => Failure::job("internal", chain(&error)),
            error @ unslide_store::StoreError::Corrupt { .. } => Failure::Again(chain(&error)),
            error => Failure::Server(chain(&error)),
        }
    }
}

impl From<unslide_artifacts::StoreError> for Failure {
    fn from(error: unslide_artifacts::StoreError) -> Failure {
        use unslide_artifacts::StoreError::{File, Refused, Source, Transient, Unfinished};
        match error {
            File(error) | Source(error) => error.into(),
            error @ (Refused { .. } | Transient { .. } | Unfinished { .. }) => Failure::Server(chain(&error)),
            error => Failure::Again(chain(&error)),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        let detail = format!("the builder's disk: {error}");
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => {
                Failure::Server(detail)
            }
            _ => Failure::Again(detail),
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Failure {
        match error {
            ArchiveError::Disk(error) => error.into(),
            error => Failure::job(error.reason(), chain(&error)),
        }
    }
}

impl From<unslide_runtime::CpuError> for Failure {
    fn from(error: unslide_runtime::CpuError) -> Failure {
        match error {
            unslide_runtime::CpuError::Panicked(text) => Failure::job("builder_panicked", text),
            unslide_runtime::CpuError::Closed => Failure::Server("the CPU pool is closed".into()),
        }
    }
}
