//! The work of a child process: it builds a symcache or a derived object, or runs a task of its program.

use crate::child::end_with_parent;
use crate::request::{
    ANSWER, BuiltSlice, ChildFailure, ChildTask, ChildTaskError, DERIVED, REQUEST, Rejection, Request,
    SYMCACHE, Task, TaskAnswer, TaskError,
};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use unslide_archive::map_file;
use unslide_model::{ContentHash, DebugId};
use unslide_symbolicate::DerivedObject;
use unslide_symbolicate::build_source_map;
use unslide_symbolicate::object::{self, ObjectError};

/// Performs the request in the current folder, as a child. `tasks` are the tasks of the program, and `derived` the derived
/// objects of its analyses.
///
/// # Errors
/// Returns an error if the request or the answer cannot be read or written, or if the operating system
/// refuses a limit.
pub fn serve_request(tasks: &[ChildTask], derived: &[DerivedObject]) -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(REQUEST)?)?;
    request.limits.apply()?;
    end_with_parent()?;
    let answer = match &request.task {
        Task::Build { file, range, bundle } => {
            serde_json::to_vec(&build_here(&request, file, range, *bundle))
        }
        Task::Derive { file, range, name } => serde_json::to_vec(&derive_here(derived, file, range, name)),
        Task::Named { name, input, .. } => serde_json::to_vec(&run_here(tasks, name, input)),
    };
    fs::write(ANSWER, answer?)
}

fn build_here(
    request: &Request,
    file: &Path,
    range: &Range<u64>,
    bundle: Option<DebugId>,
) -> TaskAnswer<BuiltSlice> {
    let bytes = map_file(file)?;
    let slice = find_slice(&bytes, range);
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
        Err(ObjectError::Unavailable(error)) => Err(ChildFailure::Again(error.to_string()).into()),
        Err(error @ ObjectError::NeedsMemory(_)) => {
            let reason = format!("{error}; {}", request.exceeded_memory());
            Err(TaskError::Rejected(Rejection::TooComplex, reason))
        }
        Err(error) => Err(TaskError::Rejected(Rejection::from_object_error(&error), error.to_string())),
    }
}

/// Builds a derived object. Returns the hash of its bytes, or `None` if the slice has nothing for it.
fn derive_here(
    objects: &[DerivedObject],
    file: &Path,
    range: &Range<u64>,
    name: &str,
) -> TaskAnswer<Option<ContentHash>> {
    let Some(object) = objects.iter().find(|object| object.name == name) else {
        return Err(ChildFailure::Again(format!("this program derives no {name}")).into());
    };
    let bytes = map_file(file)?;
    let derived = (object.derive)(find_slice(&bytes, range));
    let derived = derived.map_err(|error| TaskError::Rejected(Rejection::TooComplex, error.to_string()))?;
    let Some(derived) = derived else { return Ok(None) };
    fs::write(DERIVED, &derived)?;
    Ok(Some(ContentHash(Sha256::digest(&derived).into())))
}

/// Returns the bytes of a slice, none if the file does not have them.
fn find_slice<'b>(bytes: &'b [u8], range: &Range<u64>) -> &'b [u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    bytes.get(index(range.start)..index(range.end)).unwrap_or_default()
}

fn run_here(tasks: &[ChildTask], name: &str, input: &Value) -> TaskAnswer<Box<RawValue>> {
    let Some(task) = tasks.iter().find(|task| task.name == name) else {
        return Err(ChildFailure::Again(format!("this program has no task {name}")).into());
    };
    match (task.run)(input.clone()) {
        Ok(answer) => Ok(answer),
        Err(ChildTaskError::Malformed(reason)) => Err(TaskError::Rejected(Rejection::Malformed, reason)),
        Err(ChildTaskError::Io(error)) => Err(error.into()),
    }
}
