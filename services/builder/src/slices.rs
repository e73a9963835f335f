//! From an upload's files to its slices: what each one is, by its load commands alone.

use crate::failure::Failure;
use crate::work_folder::Room;
use crate::worker::Builder;
use memmap2::Mmap;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use unslide_artifacts::archive::{self, ArchiveError, Member, Skipped, ToFolder};
use unslide_model::{ContentHash, CpuType, DebugId};
use unslide_store::objects::{NewObject, Status};
use unslide_symbolicate::object::{Limits, ObjectError, ObjectFacts, objects};

/// A Mach-O file of the upload, mapped.
pub(crate) struct MappedFile {
    pub(crate) member: Member,
    pub(crate) bytes: Mmap,
    /// Where it lies.
    _room: Arc<Room>,
}

/// One architecture of a file.
#[derive(Clone)]
pub(crate) struct Slice {
    pub(crate) file: Arc<MappedFile>,
    pub(crate) range: Range<usize>,
    pub(crate) new: NewObject,
    /// Why no symcache can be built from it, where that is clear already.
    pub(crate) rejected: Option<(Status, String)>,
}

impl Slice {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.file.bytes.get(self.range.clone()).unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        &self.file.member.path
    }
}

/// What an upload holds.
pub(crate) struct Unpacked {
    pub(crate) slices: Vec<Slice>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) skipped_count: u64,
}

/// Takes an upload apart. The work is done on the CPU pool.
pub(crate) async fn unpack(
    builder: &Builder,
    upload: &Path,
    room: &Arc<Room>,
    name: &str,
) -> Result<Unpacked, Failure> {
    // The work goes on where the job is given up, and has its room till then.
    let (room, name) = (Arc::clone(room), name.to_owned());
    let upload = upload.to_owned();
    let unpack = move || {
        let mut sink = ToFolder::new(room.path());
        let contents = archive::unpack(File::open(&upload)?, &name, room.limits(), &mut sink)?;
        // What was unpacked is all that is needed from here on.
        std::fs::remove_file(&upload)?;
        let members = sink.into_members();
        room.keep(members.iter().map(|member| member.size).sum());
        let (mut slices, most) = (Vec::new(), room.limits().members);
        for member in members {
            let bytes = member.map()?;
            slices.extend(slices_of(Arc::new(MappedFile { member, bytes, _room: Arc::clone(&room) })));
            if slices.len() > most {
                return Err(ArchiveError::TooManyMembers(most).into());
            }
        }
        let contents = Unpacked { slices, skipped: contents.skipped, skipped_count: contents.skipped_count };
        Ok::<_, Failure>(contents)
    };
    builder.host.cpu.run(unpack).await?
}

fn slices_of(file: Arc<MappedFile>) -> Vec<Slice> {
    let whole = 0..file.bytes.len();
    match objects(&file.bytes, &Limits::default()) {
        Ok(entries) if !entries.is_empty() => {
            let of_entry = |(range, object)| slice(file.clone(), range, object);
            entries.into_iter().map(|entry| (entry.range, entry.object)).map(of_entry).collect()
        }
        Ok(_) => vec![slice(file, whole, Err(ObjectError::Malformed("a fat file without a slice".into())))],
        Err(error) => vec![slice(file, whole, Err(error))],
    }
}

fn slice(file: Arc<MappedFile>, range: Range<usize>, object: Result<ObjectFacts, ObjectError>) -> Slice {
    let bytes = file.bytes.get(range.clone()).unwrap_or_default();
    let content_hash = ContentHash(Sha256::digest(bytes).into());
    let name = file.member.path.rsplit('/').next().unwrap_or_default().to_owned();
    let size = bytes.len() as u64;
    let rejected = match &object {
        Ok(facts) if facts.debug_id.is_none() => {
            Some((Status::Unsupported, "it has no debug id (LC_UUID)".to_owned()))
        }
        Ok(_) => None,
        Err(error) => Some(rejection(error)),
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
    Slice { file, range, new, rejected }
}

/// How an object's error is recorded.
pub(crate) fn rejection(error: &ObjectError) -> (Status, String) {
    let status = match error {
        ObjectError::Unsupported(_) | ObjectError::TooLarge(_) => Status::Unsupported,
        _ => Status::Malformed,
    };
    (status, error.to_string())
}

/// The debug id of a slice that a symcache is built from.
pub(crate) fn debug_id(slice: &Slice) -> Result<DebugId, Failure> {
    slice.new.debug_id.ok_or_else(|| Failure::job("internal", "an object without a debug id was to be built"))
}
