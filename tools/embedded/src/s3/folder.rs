//! The folder with the objects of all buckets.
//!
//! The file of an object has its bytes and nothing else ([names](super::names)). Everything else that is known of the object
//! is in the folder `.facts`, in a file named after the modification time of the object's file in nanoseconds, which no other
//! file has. So one rename replaces bytes and facts at once. A file without facts, which a person or a test placed there, is
//! an object all the same.

use super::error::S3Error;
use super::names::{self, OWN_FILE};
use super::request::Conditions;
use crate::place::private_folder;
use crate::random::random_text;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use parking_lot::{Mutex, MutexGuard};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};
use unslide_model::{Clock, SystemClock};

/// The first line of a file of facts.
const FACTS_VERSION: &str = "unslide-s3 1";
/// The most bytes of a bucket's name, as of S3.
const BUCKET_BYTES_LIMIT: usize = 63;

/// The folder, and the lock of all changes to it.
pub(super) struct Folder {
    root: PathBuf,
    /// Held while a file takes or leaves its place, which is short.
    changes: Mutex<()>,
    /// The latest modification time, in nanoseconds since the Unix epoch.
    latest: AtomicI64,
}

/// Everything that is known of an object but its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// Without quotes.
    pub(super) etag: String,
    /// The headers that a client stored with the object.
    pub(super) headers: Vec<(String, String)>,
}

/// An object that can be read, whatever happens to its key.
pub(super) struct Object {
    pub(super) file: File,
    pub(super) size: u64,
    /// In nanoseconds since the Unix epoch.
    pub(super) modified: i64,
    pub(super) facts: Facts,
}

/// A file that is deleted if it does not take the place of an object.
pub(super) struct TemporaryFile {
    pub(super) file: File,
    path: PathBuf,
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It is gone if it was renamed. One that is left is deleted at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns true if there is no file at a path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn modified_nanos(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

impl Facts {
    fn write(&self) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        format!("{FACTS_VERSION}\netag: {}\n{}", self.etag, headers.collect::<String>())
    }

    fn read(text: &str) -> Option<Facts> {
        let mut lines = text.lines();
        (lines.next()? == FACTS_VERSION).then_some(())?;
        let etag = lines.next()?.strip_prefix("etag: ")?.to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Facts {
            etag,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }
}

impl Folder {
    /// Opens the folder, and deletes what an earlier run began to write.
    pub(super) fn open(root: &Path) -> Result<Folder, crate::Error> {
        // It may be missing.
        let _ = fs::remove_dir_all(root.join(".writing"));
        for name in [".writing", ".facts", ".uploads"] {
            private_folder(&root.join(name))?;
        }
        Ok(Folder { root: root.to_path_buf(), changes: Mutex::new(()), latest: AtomicI64::new(0) })
    }

    /// Returns the folder of a bucket.
    pub(super) fn find_bucket(&self, name: &str) -> Result<PathBuf, S3Error> {
        let is_name = name.len() <= BUCKET_BYTES_LIMIT
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let path = self.root.join(name);
        if is_name && path.is_dir() { Ok(path) } else { Err(S3Error::NoSuchBucket) }
    }

    /// Returns the folder of a multipart upload.
    pub(super) fn upload_folder(&self, id: &str) -> PathBuf {
        self.root.join(".uploads").join(id)
    }

    /// Returns a new path for something that is not complete.
    pub(super) fn temporary_path(&self) -> io::Result<PathBuf> {
        Ok(self.root.join(".writing").join(random_text().map_err(io::Error::other)?))
    }

    pub(super) fn create_temporary(&self) -> io::Result<TemporaryFile> {
        let path = self.temporary_path()?;
        Ok(TemporaryFile { file: File::create_new(&path)?, path })
    }

    /// Waits until no other request changes the folder.
    pub(super) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    fn facts_path(&self, modified: i64) -> PathBuf {
        self.root.join(".facts").join(modified.to_string())
    }

    /// Returns the current time, but never the same twice. File systems keep microseconds.
    fn next_modified(&self) -> i64 {
        let now = SystemClock.now_micros().saturating_mul(1_000);
        let next = |latest: i64| now.max(latest + 1_000);
        self.latest
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)))
            .map_or(now, next)
    }

    /// Opens the object at a path.
    pub(super) fn open_object(&self, path: &Path) -> io::Result<Option<Object>> {
        let mut without_facts = None;
        loop {
            let mut file = match File::open(path) {
                Ok(file) => file,
                Err(error) if is_absent(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut metadata = file.metadata()?;
            if metadata.is_dir() {
                file = match File::open(path.join(OWN_FILE)) {
                    Ok(file) => file,
                    Err(error) if is_absent(&error) => return Ok(None),
                    Err(error) => return Err(error),
                };
                metadata = file.metadata()?;
            }
            let (size, modified) = (metadata.len(), modified_nanos(&metadata));
            let facts = match fs::read_to_string(self.facts_path(modified)) {
                Ok(text) => Facts::read(&text),
                Err(error) if is_absent(&error) => None,
                Err(error) => return Err(error),
            };
            // It was replaced just now, or nobody wrote facts of it.
            if facts.is_none() && without_facts.replace(modified) != Some(modified) {
                continue;
            }
            let etag = || format!("{size:x}-{modified:x}");
            let facts = facts.unwrap_or_else(|| Facts { etag: etag(), headers: Vec::new() });
            return Ok(Some(Object { file, size, modified, facts }));
        }
    }

    /// Makes a complete file the object of a key, if the conditions hold for the former object.
    pub(super) fn store_object(
        &self,
        file: &TemporaryFile,
        bucket: &Path,
        key: &str,
        facts: &Facts,
        conditions: &Conditions,
    ) -> Result<(), S3Error> {
        self.store(file, bucket, &names::object_path(bucket, key), facts, |path| {
            if conditions.is_empty() {
                return Ok(());
            }
            let former = self.open_object(path)?;
            conditions.check_write(former.as_ref().map(|object| object.facts.etag.as_str()))
        })
    }

    /// Moves a complete file to its path, if a check succeeds while nothing else changes.
    pub(super) fn store(
        &self,
        file: &TemporaryFile,
        base: &Path,
        path: &Path,
        facts: &Facts,
        check: impl FnOnce(&Path) -> Result<(), S3Error>,
    ) -> Result<(), S3Error> {
        let modified = self.next_modified();
        let since_epoch = Duration::from_nanos(modified.unsigned_abs());
        file.file.set_modified(SystemTime::UNIX_EPOCH + since_epoch)?;
        fs::write(self.facts_path(modified), facts.write())?;
        let guard = self.lock_changes();
        let moved = check(path).and_then(|()| {
            let own = path.join(OWN_FILE);
            let path = if path.is_dir() { &own } else { path };
            let former = fs::symlink_metadata(path).ok();
            match fs::rename(&file.path, path) {
                Err(error) if is_absent(&error) => {
                    self.make_folders(base, path)?;
                    fs::rename(&file.path, path)?;
                }
                renamed => renamed?,
            }
            Ok(former)
        });
        drop(guard);
        let unused = match &moved {
            Ok(former) => former.as_ref().map(modified_nanos),
            Err(_) => Some(modified),
        };
        if let Some(unused) = unused {
            // A file that was placed by hand has none.
            let _ = fs::remove_file(self.facts_path(unused));
        }
        moved.map(drop)
    }

    /// Makes the folders between `base` and a path. An object in their way moves into the folder that replaces it.
    fn make_folders(&self, base: &Path, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(base);
        let mut folder = base.to_path_buf();
        for name in parent.strip_prefix(base).unwrap_or(Path::new("")) {
            folder.push(name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if !folder.is_dir() {
                        self.make_folder_of_object(&folder)?;
                    }
                }
                made => made?,
            }
        }
        Ok(())
    }

    fn make_folder_of_object(&self, path: &Path) -> io::Result<()> {
        let folder = self.temporary_path()?;
        fs::create_dir(&folder)?;
        fs::hard_link(path, folder.join(OWN_FILE))?;
        // In one step, so that the object is never missing.
        renameat2(AT_FDCWD, &folder, AT_FDCWD, path, RenameFlags::RENAME_EXCHANGE)?;
        fs::remove_file(folder)
    }

    /// Deletes the object of a key, and folders that are empty then.
    pub(super) fn delete_object(&self, bucket: &Path, key: &str) -> io::Result<()> {
        let path = names::object_path(bucket, key);
        let _guard = self.lock_changes();
        let path = if path.is_dir() { path.join(OWN_FILE) } else { path };
        if !self.delete_file(&path)? {
            return Ok(());
        }
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != bucket) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Deletes a file with its facts. Returns false if there is no such file.
    pub(super) fn delete_file(&self, path: &Path) -> io::Result<bool> {
        let removed = fs::symlink_metadata(path).and_then(|metadata| {
            fs::remove_file(path)?;
            Ok(modified_nanos(&metadata))
        });
        match removed {
            Ok(modified) => {
                // A file that was placed by hand has none.
                let _ = fs::remove_file(self.facts_path(modified));
                Ok(true)
            }
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
