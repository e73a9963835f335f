//! Builds one symcache without a builder: a command on a developer's machine uses the same child process.

use crate::child::{ChildLimits, ChildProgram};
use crate::request::{
    BuiltSlice, ChildFailure, Rejection, Request, SYMCACHE, Task, TaskAnswer, TaskError, run_request,
};
use bytes::Bytes;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use unslide_archive::map_file;
use unslide_model::DebugId;
use unslide_symbolicate::object::MAX_SYMCACHE_BYTES;

/// Name of the file in the child's folder.
const OBJECT: &str = "object";

/// Source of a symcache: a slice of a file.
#[derive(Debug)]
pub struct SymcacheSource<'f> {
    /// A Mach-O file or a source map.
    pub file: &'f Path,
    /// Range of the slice in the file.
    pub range: Range<u64>,
    /// The debug id of the source map's bundle, if the map has none.
    pub bundle: Option<DebugId>,
}

/// A symcache that was built locally.
#[derive(Debug)]
pub struct LocalSymcache {
    /// The bytes of the symcache.
    pub bytes: Bytes,
    /// Parts of the object that are not in the symcache, with the reason.
    pub warnings: Vec<String>,
}

/// Reason why a symcache was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The file gives no symcache within the limits.
    #[error("{1}")]
    Rejected(Rejection, String),
    /// The build failed for a reason that is not in the file.
    #[error("{0}")]
    Failed(String),
}

impl From<ChildFailure> for BuildError {
    fn from(failure: ChildFailure) -> BuildError {
        let (ChildFailure::Server(detail) | ChildFailure::Again(detail)) = failure;
        let folder = std::env::temp_dir();
        BuildError::Failed(format!("{detail} (temporary files are in {})", folder.display()))
    }
}

impl From<std::io::Error> for BuildError {
    fn from(error: std::io::Error) -> BuildError {
        BuildError::Failed(error.to_string())
    }
}

/// Builds a symcache in a child process of `program` with at most `memory_bytes` of memory. `memory_setting`
/// names the setting that raises this limit.
///
/// # Errors
/// Returns an error if the file gives no symcache within the limits, or if the child cannot work.
pub async fn build_symcache(
    program: &ChildProgram,
    source: &SymcacheSource<'_>,
    memory_bytes: u64,
    memory_setting: &str,
) -> Result<LocalSymcache, BuildError> {
    let file = source.file.canonicalize()?;
    // The person who started the command can stop it if it takes too long.
    let limits = ChildLimits { memory_bytes, cpu_seconds: None, file_bytes: MAX_SYMCACHE_BYTES as u64 };
    let task = Task::Build { file: OBJECT.into(), range: source.range.clone(), bundle: source.bundle };
    let request = Request { limits, memory_setting: memory_setting.to_owned(), task };
    build_in_folder(program, &file, &request).await.map_err(|error| match error {
        TaskError::Rejected(status, reason) => BuildError::Rejected(status, reason),
        TaskError::Failed(failure) => failure.into(),
    })
}

/// Runs the child in a folder of its own. A path need not be UTF-8, but a request must be, so the child opens
/// a link.
async fn build_in_folder(
    program: &ChildProgram,
    file: &Path,
    request: &Request,
) -> TaskAnswer<LocalSymcache> {
    let folder = Arc::new(tempfile::tempdir()?);
    symlink(file, folder.path().join(OBJECT))?;
    let (held, (_run, stop)) = (Arc::clone(&folder), watch::channel(false));
    let built = run_request::<BuiltSlice>(program, folder.path(), request, stop, held).await?;
    let bytes = map_file(&folder.path().join(SYMCACHE))?;
    Ok(LocalSymcache { bytes, warnings: built.warnings })
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
        assert_eq!(BuildError::from(ChildFailure::from(full())).to_string(), expected);
    }
}
