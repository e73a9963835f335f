//! One symcache without a builder: a command on someone's machine has it built in the same child process.

use crate::build::child::{self, BuiltSlice, ChildAnswer, Request, SYMCACHE, Task};
use crate::failure::JobFailure;
use bytes::Bytes;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use unslide_artifacts::map_file;
use unslide_model::DebugId;
use unslide_runtime::child::{ChildLimits, ChildProgram};
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::object::MAX_SYMCACHE_BYTES;

/// The file in the child's folder.
const OBJECT: &str = "object";

/// What a symcache is built from.
pub struct SymcacheSource<'f> {
    /// A Mach-O file or a source map.
    pub file: &'f Path,
    /// The slice in it.
    pub range: Range<u64>,
    /// The debug id of its bundle, for a source map that has none.
    pub bundle: Option<DebugId>,
}

/// A symcache that was built.
pub struct LocalSymcache {
    /// Its bytes.
    pub bytes: Bytes,
    /// What of the object is not in it, and why.
    pub warnings: Vec<String>,
}

/// Why a symcache was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The file gives none within the limits.
    #[error("{1}")]
    Rejected(ObjectStatus, String),
    /// The file is not to blame.
    #[error("{0}")]
    Failed(String),
}

impl From<JobFailure> for BuildError {
    fn from(failure: JobFailure) -> BuildError {
        match failure {
            JobFailure::Server(detail)
            | JobFailure::Object(detail)
            | JobFailure::Again(detail)
            | JobFailure::Job { detail, .. } => {
                let folder = std::env::temp_dir();
                BuildError::Failed(format!("{detail} (temporary files are in {})", folder.display()))
            }
            // Without a database there are neither.
            JobFailure::LeaseLost | JobFailure::TenantDeleted => BuildError::Failed(format!("{failure:?}")),
        }
    }
}

impl From<std::io::Error> for BuildError {
    fn from(error: std::io::Error) -> BuildError {
        BuildError::Failed(error.to_string())
    }
}

/// Has a child of `program` build a symcache with at most `memory_bytes`, which `memory_setting` raises.
///
/// # Errors
/// Where the file gives no symcache within the limits, or the child cannot work.
pub async fn build_symcache(
    program: &ChildProgram,
    source: &SymcacheSource<'_>,
    memory_bytes: u64,
    memory_setting: &str,
) -> Result<LocalSymcache, BuildError> {
    let file = source.file.canonicalize()?;
    // Who started the command ends it when it takes too long.
    let limits = ChildLimits { memory_bytes, cpu_seconds: None, file_bytes: MAX_SYMCACHE_BYTES as u64 };
    let task = Task::Build { file: OBJECT.into(), range: source.range.clone(), bundle: source.bundle };
    let request = Request { limits, memory_setting: memory_setting.to_owned(), task };
    match build_in_folder(program, &file, &request).await {
        Ok(built) => built.map_err(|(status, reason)| BuildError::Rejected(status, reason)),
        Err(failure) => Err(failure.into()),
    }
}

/// The child works in a folder of its own. A path need not be UTF-8, and a request is: the child goes by a link.
async fn build_in_folder(
    program: &ChildProgram,
    file: &Path,
    request: &Request,
) -> ChildAnswer<LocalSymcache> {
    let folder = Arc::new(tempfile::tempdir()?);
    symlink(file, folder.path().join(OBJECT))?;
    let (held, (_run, stop)) = (Arc::clone(&folder), watch::channel(false));
    match child::ask::<BuiltSlice>(program, folder.path(), request, stop, held).await? {
        Ok(built) => {
            let bytes = map_file(&folder.path().join(SYMCACHE))?;
            Ok(Ok(LocalSymcache { bytes, warnings: built.warnings }))
        }
        Err(refused) => Ok(Err(refused)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_full_disk_is_said_of_temporary_files_and_names_their_folder() {
        let full = || Error::from(ErrorKind::StorageFull);
        let folder = std::env::temp_dir();
        let expected =
            format!("cannot use temporary files: {} (temporary files are in {})", full(), folder.display());
        assert_eq!(BuildError::from(JobFailure::from(full())).to_string(), expected);
    }
}
