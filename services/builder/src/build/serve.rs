//! The work of a child process of the builder: it unpacks an upload, builds a symcache, or runs a task of a feature.

use crate::build::child::{ANSWER, BuiltSlice, ChildAnswer, ChildError, REQUEST, Request, SYMCACHE, Task};
use crate::build::derive::derive_here;
use crate::build::slices::{Unpacked, to_rejection, unpack_here};
use crate::failure::JobFailure;
use crate::feature::{ChildTask, ChildTaskError};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use unslide_artifacts::map_file;
use unslide_model::{ContentHash, DebugId};
use unslide_runtime::child::end_with_parent;
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::DerivedObject;
use unslide_symbolicate::build_source_map;
use unslide_symbolicate::object::{self, ObjectError};

/// Performs the request in the current folder, as a child of a builder. `tasks` are the tasks of features, and
/// `derived` the derived objects of their analyses.
///
/// # Errors
/// Returns an error if the request or the answer cannot be read or written, or if the operating system
/// refuses a limit.
pub fn serve_request(tasks: &[ChildTask], derived: &[DerivedObject]) -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(REQUEST)?)?;
    request.limits.apply()?;
    end_with_parent()?;
    let answer = match &request.task {
        Task::Unpack { file, name, limits } => {
            let answer: ChildAnswer<Unpacked> = unpack_here(file, name, limits).map_err(ChildError::from);
            serde_json::to_vec(&answer)
        }
        Task::Build { file, range, bundle } => {
            serde_json::to_vec(&build_here(&request, file, range, *bundle))
        }
        Task::Derive { file, range, name } => serde_json::to_vec(&derive_here(derived, file, range, name)),
        Task::Feature { name, input, .. } => serde_json::to_vec(&run_here(tasks, name, input)),
    };
    fs::write(ANSWER, answer?)
}

fn build_here(
    request: &Request,
    file: &Path,
    range: &Range<u64>,
    bundle: Option<DebugId>,
) -> ChildAnswer<BuiltSlice> {
    let bytes = map_file(file)?;
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let slice = bytes.get(index(range.start)..index(range.end)).unwrap_or_default();
    let built = match bundle {
        Some(bundle) => build_source_map(slice, bundle),
        None => object::build_within(slice, request.limits.memory_bytes),
    };
    match built {
        Ok(built) => {
            fs::write(SYMCACHE, &built.symcache)?;
            let sha256 = ContentHash(Sha256::digest(&built.symcache).into());
            Ok(BuiltSlice { quality: built.quality, warnings: built.warnings, sha256 })
        }
        Err(ObjectError::Unavailable(error)) => Err(JobFailure::Again(error.to_string()).into()),
        Err(error @ ObjectError::NeedsMemory(_)) => {
            let reason = format!("{error}; {}", request.exceeded_memory());
            Err(ChildError::Rejected(ObjectStatus::TooComplex, reason))
        }
        Err(error) => {
            let (status, reason) = to_rejection(&error);
            Err(ChildError::Rejected(status, reason))
        }
    }
}

fn run_here(tasks: &[ChildTask], name: &str, input: &Value) -> ChildAnswer<Box<RawValue>> {
    let Some(task) = tasks.iter().find(|task| task.name == name) else {
        return Err(JobFailure::Again(format!("this program has no task {name}")).into());
    };
    match (task.run)(input.clone()) {
        Ok(answer) => Ok(answer),
        Err(ChildTaskError::Malformed(reason)) => Err(ChildError::Rejected(ObjectStatus::Malformed, reason)),
        Err(ChildTaskError::Io(error)) => Err(error.into()),
    }
}
