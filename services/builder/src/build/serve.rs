//! What a child process of the builder does: it unpacks an upload, builds a symcache, or analyses a capture.

use crate::build::child::{ANSWER, BuiltSlice, ChildAnswer, REQUEST, Request, SYMCACHE, Task};
use crate::build::slices::{Unpacked, rejection, unpack_here};
use crate::captures::symbols;
use crate::failure::JobFailure;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use unslide_artifacts::map_file;
use unslide_model::{CaptureForm, ContentHash, DebugId};
use unslide_runtime::child::end_with_parent;
use unslide_signals::capture::{CaptureReading, analyse};
use unslide_store::objects::ObjectStatus;
use unslide_symbolicate::object::{self, ObjectError};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageSymbols, build_source_map};

/// Does, as a child of a builder, what the request in the current folder asks for.
///
/// # Errors
/// Where request or answer cannot be read or written, or the operating system refuses a limit.
pub fn serve() -> io::Result<()> {
    let request: Request = serde_json::from_slice(&fs::read(REQUEST)?)?;
    request.limits.apply()?;
    end_with_parent()?;
    let answer = match &request.task {
        Task::Unpack { file, name, limits } => {
            let answer: ChildAnswer<Unpacked> = unpack_here(file, name, limits).map(Ok);
            serde_json::to_vec(&answer)
        }
        Task::Build { file, range, bundle } => {
            serde_json::to_vec(&build_here(&request, file, range, *bundle))
        }
        Task::Analyse { form, symcaches } => serde_json::to_vec(&analyse_here(form, symcaches)),
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
            Ok(Ok(BuiltSlice { quality: built.quality, warnings: built.warnings, sha256 }))
        }
        Err(ObjectError::Unavailable(error)) => Err(JobFailure::Again(error.to_string())),
        Err(error @ ObjectError::NeedsMemory(_)) => {
            Ok(Err((ObjectStatus::TooComplex, format!("{error}; {}", request.exceeded_memory()))))
        }
        Err(error) => Ok(Err(rejection(&error))),
    }
}

fn analyse_here(form: &CaptureForm, symcaches: &[DebugId]) -> ChildAnswer<CaptureReading> {
    let mut files: HashMap<&str, Bytes> = HashMap::new();
    for part in form.parts() {
        let path = Path::new(part.name);
        if path.exists() {
            files.insert(part.name, map_file(path)?);
        }
    }
    let mut known: HashMap<DebugId, ImageSymbols> = HashMap::new();
    for debug_id in symcaches {
        let parsed = SymCache::parse(map_file(&symbols::file(debug_id))?);
        let found = parsed.map_or(ImageSymbols::Malformed, |symcache| ImageSymbols::found(symcache.into()));
        known.insert(*debug_id, found);
    }
    let file = |name: &str| files.get(name).map_or(&[][..], |bytes| bytes);
    let read = analyse(form, &file, &|id| known.get(id));
    Ok(read.map_err(|error| (ObjectStatus::Malformed, error.to_string())))
}
