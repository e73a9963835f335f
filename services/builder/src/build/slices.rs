//! Splits an upload's files into slices and identifies each by its load commands alone.

use crate::build::bundles::BundleIds;
use crate::build::child::{self, ChildError, to_status};
use crate::build::resources::BuildResources;
use crate::build::work_folder::Room;
use crate::failure::JobFailure;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unslide_archive::{
    ArchiveError, Binary, SkipReason, SkippedEntry, ToFolder, UnpackLimits, unpack_upload,
};
use unslide_model::{ContentHash, CpuType, DebugId};
use unslide_sandbox::{ChildTask, ChildTaskError, Rejection, Task, serve_request};
use unslide_store::jobs::JobLease;
use unslide_store::objects::{NewObject, ObjectStatus};
use unslide_store::uploads;
use unslide_symbolicate::object::{MAX_SYMCACHE_BYTES, ObjectError, ObjectFacts, ObjectKind, list_objects};
use unslide_symbolicate::{DerivedObject, with_debug_id};

/// One architecture of a Mach-O file of the upload, or a source map.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UploadedSlice {
    /// Path of the file in the upload.
    pub(crate) path: String,
    /// Path of the file now.
    pub(crate) file: PathBuf,
    pub(crate) range: Range<u64>,
    pub(crate) new: NewObject,
    /// Reason why no symcache can be built from it, if that is already known.
    pub(crate) rejected: Option<(ObjectStatus, String)>,
    is_encrypted: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Unpacked {
    pub(crate) slices: Vec<UploadedSlice>,
    pub(crate) skipped: Vec<uploads::SkippedMember>,
    bytes: u64,
}

impl Unpacked {
    /// Adds a copy of a source map with the debug id of its bundle, unless a slice of the same path has it.
    fn add_named_map(&mut self, path: &str, copy: &Path, map: &[u8], id: DebugId) -> Result<(), JobFailure> {
        let has_id = |slice: &UploadedSlice| slice.path == path && slice.new.debug_id == Some(id);
        if self.slices.iter().rev().take_while(|slice| slice.path == path).any(has_id) {
            return Ok(());
        }
        let Some(named) = with_debug_id(map, id) else { return Ok(()) };
        std::fs::write(copy, &named)?;
        self.bytes += named.len() as u64;
        self.slices.extend(slices_of(path, copy, &named));
        Ok(())
    }
}

/// Unpacks a file of a job's folder in a child process.
pub(crate) async fn unpack_file(
    resources: &BuildResources,
    job: &JobLease,
    room: &Arc<Room>,
    file: &str,
    name: &str,
) -> Result<Unpacked, JobFailure> {
    let input = UnpackInput { file: file.to_owned(), name: name.to_owned(), limits: room.limits().clone() };
    let file_bytes = input.limits.member_bytes.max(MAX_SYMCACHE_BYTES as u64);
    let input = serde_json::to_value(input).map_err(io::Error::from)?;
    let task = Task::Named { name: UNPACK_TASK.name.to_owned(), input, file_bytes };
    let answer: Result<Unpacked, JobFailure> =
        child::run_task(resources, job, room, task).await.map_err(ChildError::into_failure)?;
    let unpacked = answer?;
    room.shrink_to(unpacked.bytes);
    Ok(unpacked)
}

/// The unpacking of an upload, in the folder of its job.
const UNPACK_TASK: ChildTask = ChildTask { name: "unpack", run: run_unpack };

/// The input of [`UNPACK_TASK`].
#[derive(Serialize, Deserialize)]
struct UnpackInput {
    file: String,
    name: String,
    limits: UnpackLimits,
}

/// Performs the request in the current folder, as a child of a builder. `tasks` are the tasks of features, and
/// `derived` the derived objects of their analyses.
///
/// # Errors
/// Returns an error if the request or the answer cannot be read or written, or if the operating system
/// refuses a limit.
pub fn serve_child(tasks: &[ChildTask], derived: &[DerivedObject]) -> io::Result<()> {
    serve_request(&[&[UNPACK_TASK], tasks].concat(), derived)
}

fn run_unpack(input: Value) -> Result<Box<RawValue>, ChildTaskError> {
    let UnpackInput { file, name, limits } = serde_json::from_value(input)?;
    Ok(to_raw_value(&unpack_here(&file, &name, &limits))?)
}

/// Unpacks a file into the current folder.
fn unpack_here(file: &str, name: &str, limits: &UnpackLimits) -> Result<Unpacked, JobFailure> {
    let folder = std::env::current_dir()?;
    let mut sink = ToFolder::new(&folder);
    let mut contents = unpack_upload(File::open(file)?, name, limits, &mut sink)?;
    // Only the unpacked files are needed from here on.
    std::fs::remove_file(file)?;
    let bundles = BundleIds::from_manifests(&sink.take_manifests());
    let mut unpacked = Unpacked { slices: Vec::new(), skipped: Vec::new(), bytes: 0 };
    for member in sink.into_members() {
        let bytes = member.map_file()?;
        unpacked.bytes += member.size;
        let file = member.file.keep().map_err(|error| error.error)?;
        let (encrypted, slices): (Vec<_>, Vec<_>) =
            slices_of(&member.path, &file, &bytes).into_iter().partition(|slice| slice.is_encrypted);
        if !encrypted.is_empty() {
            contents.record_skipped(&member.path, SkipReason::EncryptedBinary);
        }
        // Apps ship source maps of their packages, which belong to no bundle.
        let is_alone = member.path == name;
        let keeps_all = is_alone || member.binary != Binary::SourceMap;
        unpacked.slices.extend(slices.into_iter().filter(|slice| keeps_all || slice.new.debug_id.is_some()));
        for id in bundles.find_ids(&member.path) {
            let copy = folder.join(format!("bundle-{}", unpacked.slices.len()));
            unpacked.add_named_map(&member.path, &copy, &bytes, *id)?;
        }
        if unpacked.slices.len() > limits.members {
            return Err(ArchiveError::TooManyMembers(limits.members).into());
        }
    }
    unpacked.skipped = list_skipped(&contents.skipped, contents.skipped_count);
    Ok(unpacked)
}

fn list_skipped(skipped: &[SkippedEntry], count: u64) -> Vec<uploads::SkippedMember> {
    let mut shown: Vec<_> = skipped
        .iter()
        .map(|s| uploads::SkippedMember {
            path: s.path.clone(),
            reason: s.reason.as_str().to_owned(),
            detail: Some(s.reason.to_string()),
        })
        .collect();
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        let detail = Some(format!("and {more} more"));
        shown.push(uploads::SkippedMember { path: String::new(), reason: "more".to_owned(), detail });
    }
    shown
}

fn slices_of(path: &str, file: &Path, bytes: &[u8]) -> Vec<UploadedSlice> {
    let slice = |range, object| describe_slice(path, file, bytes, range, object);
    match list_objects(bytes) {
        Ok(entries) if !entries.is_empty() => {
            entries.into_iter().map(|entry| slice(entry.range, entry.object)).collect()
        }
        Ok(_) => {
            vec![slice(0..bytes.len(), Err(ObjectError::Malformed("a fat file without a slice".into())))]
        }
        Err(error) => vec![slice(0..bytes.len(), Err(error))],
    }
}

fn describe_slice(
    path: &str,
    file: &Path,
    bytes: &[u8],
    range: Range<usize>,
    object: Result<ObjectFacts, ObjectError>,
) -> UploadedSlice {
    let bytes = bytes.get(range.clone()).unwrap_or_default();
    let content_hash = ContentHash(Sha256::digest(bytes).into());
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let size = bytes.len() as u64;
    let rejected = match &object {
        Ok(facts) if facts.debug_id.is_none() && facts.kind == ObjectKind::SourceMap => {
            let reason =
                "the source map has no debug id: send it with unslide upload --source-map".to_owned();
            Some((ObjectStatus::Unsupported, reason))
        }
        Ok(facts) if facts.debug_id.is_none() => {
            Some((ObjectStatus::Unsupported, "it has no debug id (LC_UUID)".to_owned()))
        }
        Ok(_) => None,
        Err(error) => Some(to_rejection(error)),
    };
    let facts = object.ok();
    let new = NewObject {
        content_hash,
        debug_id: facts.and_then(|facts| facts.debug_id),
        name,
        arch: facts.map_or("unknown", |facts| CpuType::name(facts.cpu)).to_owned(),
        kind: facts.map_or("unknown", |facts| facts.kind.as_str()).to_owned(),
        has_dwarf: facts.is_some_and(|facts| facts.has_dwarf),
        has_symtab: facts.is_some_and(|facts| facts.has_symtab),
        has_exports: facts.is_some_and(|facts| facts.has_exports),
        has_sources: facts.is_some_and(|facts| facts.has_sources),
        size,
    };
    let range = range.start as u64..range.end as u64;
    let is_encrypted = facts.is_some_and(|facts| facts.is_encrypted);
    UploadedSlice { path: path.to_owned(), file: file.to_owned(), range, new, rejected, is_encrypted }
}

/// Returns the status and the reason with which an object's error is recorded.
fn to_rejection(error: &ObjectError) -> (ObjectStatus, String) {
    (to_status(Rejection::from_object_error(error)), error.to_string())
}

/// Returns the debug id of a slice that a symcache is built from.
pub(crate) fn debug_id(slice: &UploadedSlice) -> Result<DebugId, JobFailure> {
    slice
        .new
        .debug_id
        .ok_or_else(|| JobFailure::job("internal", "an object without a debug id was to be built"))
}
