//! Reads the names of images from caches and libraries, on all processors.

use bytes::Bytes;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use unslide_cli::map_unpacked;
use unslide_model::{DebugId, Quality};
use unslide_symbolicate::object::{ImageNames, StartName, list_objects, read_library_names};
use unslide_system_symbols_formats::dyld_cache::{CacheImage, DyldCache, DyldCacheError};

/// The names of one image, as they are sent.
pub struct ImageFile {
    pub debug_id: DebugId,
    /// Architecture of the image, such as `arm64e`.
    pub arch: &'static str,
    /// Path at which programs load it.
    pub path: String,
    /// Quality that the server will record.
    pub quality: Quality,
    /// Number of functions with a name.
    pub named: u64,
    /// Functions of which only the start is known.
    pub unnamed: u64,
    pub bytes: Vec<u8>,
}

/// An image that gives no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WithoutNames {
    /// It is damaged or cannot be read.
    LeftOut(LeftOut),
    /// It names no function, as a few libraries of every release.
    Nameless {
        /// Path at which programs load it.
        path: String,
    },
}

/// An image that is damaged or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
}

impl ImageFile {
    fn new(path: &str, names: &ImageNames<'_>) -> Result<ImageFile, WithoutNames> {
        let mut offsets = HashSet::new();
        let mut has_locals = false;
        for start in names.starts.iter().filter(|start| start.name.as_bytes().is_some()) {
            offsets.insert(start.offset);
            has_locals |= matches!(start.name, StartName::Local(_));
        }
        if offsets.is_empty() {
            return Err(WithoutNames::Nameless { path: path.to_owned() });
        }
        let lists_functions = names.starts.iter().any(|start| start.is_function_start);
        let unnamed = names.starts.iter().filter(|start| !offsets.contains(&start.offset)).count();
        Ok(ImageFile {
            debug_id: names.debug_id,
            arch: names.cpu.name(),
            path: path.to_owned(),
            quality: if has_locals || (lists_functions && unnamed == 0) {
                Quality::Symtab
            } else {
                Quality::Exports
            },
            named: offsets.len() as u64,
            unnamed: unnamed as u64,
            bytes: names.to_file().map_err(|error| leave_out(path, &error))?,
        })
    }
}

fn leave_out(path: &str, reason: &dyn Display) -> WithoutNames {
    WithoutNames::LeftOut(LeftOut { path: path.to_owned(), reason: reason.to_string() })
}

/// Maps a file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn map_bytes(path: &Path) -> io::Result<Bytes> {
    map_unpacked(path).map(Bytes::from_owner)
}

/// Opens a cache with the files beside its main file.
///
/// # Errors
/// Returns an error if a file is missing, damaged or foreign.
pub fn open_cache(path: &Path) -> Result<DyldCache, DyldCacheError> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let unreadable =
        |error: io::Error| DyldCacheError::Unreadable { file: name.clone(), reason: error.to_string() };
    let main = map_bytes(path).map_err(unreadable)?;
    DyldCache::open(main, &name, |part| {
        let path = path.with_file_name(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => map_bytes(&path).map(Some),
            // A link may lead out of the folder.
            Ok(_) => Err(io::Error::other("it is no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// Reads images of a cache, in their order.
pub fn read_cache_images(cache: &DyldCache, images: &[&CacheImage]) -> Vec<Result<ImageFile, WithoutNames>> {
    on_all_processors(images, |image| match cache.read_names(image) {
        Ok(names) => ImageFile::new(&image.path, &names),
        Err(error) => Err(leave_out(&image.path, &error)),
    })
}

/// Reads libraries that are files of their own, in their order: each architecture of each.
pub fn read_libraries(paths: &[PathBuf]) -> Vec<Result<ImageFile, WithoutNames>> {
    on_all_processors(paths, |path| read_library(path)).into_iter().flatten().collect()
}

fn read_library(file: &Path) -> Vec<Result<ImageFile, WithoutNames>> {
    let path = image_path(file);
    let left_out = |reason: &dyn Display| Err(leave_out(&file.display().to_string(), reason));
    let bytes = match map_bytes(file) {
        Ok(bytes) => bytes,
        Err(error) => return vec![left_out(&error)],
    };
    match list_objects(&bytes) {
        Err(error) => vec![left_out(&error)],
        Ok(entries) => entries
            .into_iter()
            .map(|entry| match read_library_names(bytes.get(entry.range).unwrap_or_default()) {
                Ok(names) => ImageFile::new(&path, &names),
                Err(error) => left_out(&error),
            })
            .collect(),
    }
}

/// Returns the path at which programs load a library: the one below the folder `Symbols`, if it lies in one.
fn image_path(file: &Path) -> String {
    let text = file.to_string_lossy();
    match text.rsplit_once("/Symbols/") {
        Some((_, inside)) => format!("/{inside}"),
        None => file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
    }
}

/// Applies a function to each item on as many threads as there are processors. The results have the order of the
/// items.
fn on_all_processors<T: Sync, R: Send>(items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let apply = &apply;
        let running: Vec<_> = (0..threads)
            .map(|first| {
                let own = items.iter().enumerate().skip(first).step_by(threads);
                scope.spawn(move || own.map(|(index, item)| (index, apply(item))).collect::<Vec<_>>())
            })
            .collect();
        let joined =
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect()
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
