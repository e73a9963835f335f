//! The cache's files. Each is written under a temporary name and renamed when it is complete. The
//! name contains all its metadata. A file is never changed or truncated, only unlinked.
//!
//! `v<format>/<tenant or _system>/<debug id>.<generation>.<sha256>.<object's sha256>`

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use unslide_model::{ContentHash, DebugId, Owned, Owner, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

/// Folder of the system's symcaches. No tenant's slug has an underscore.
const SYSTEM_FOLDER: &str = "_system";

/// The folder of incomplete downloads.
const TEMPORARY: &str = "tmp";

/// Creates the file of a download.
pub(super) type Create = Box<dyn Fn(&Path) -> io::Result<File> + Send + Sync>;

/// Creates a file, outside tests.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

pub(super) struct Disk {
    folder: PathBuf,
    numbers: AtomicU64,
    create: Create,
}

/// A complete file of the cache.
#[derive(Clone, Debug)]
pub(super) struct OnDisk {
    pub(super) path: PathBuf,
    /// The version of the symcache's format.
    pub(super) version: u32,
    pub(super) generation: u64,
    pub(super) sha256: ContentHash,
    pub(super) object: ContentHash,
    pub(super) size: u64,
}

/// A symcache file from the last run, with its owner and debug id.
type FoundFile = (Owned<DebugId>, OnDisk);

impl OnDisk {
    /// Returns the mapped file as symbols, with its generation and object.
    pub(super) fn to_image_symbols(&self, symcache: Arc<SymCache>) -> ImageSymbols {
        ImageSymbols::Found { symcache, generation: Some(self.generation), object: Some(self.object) }
    }
}

impl Disk {
    /// Creates the folders and lists the files, the least recently used first. Removes interrupted
    /// downloads and files of other formats.
    pub(super) fn open(root: &Path, versions: &[u32], create: Create) -> io::Result<(Disk, Vec<FoundFile>)> {
        fs::create_dir_all(root)?;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name();
            let outdated = name.to_str().is_some_and(|name| {
                let version = name.strip_prefix('v').and_then(|n| n.parse::<u32>().ok());
                name == TEMPORARY || version.is_some_and(|version| !versions.contains(&version))
            });
            if outdated {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let disk = Disk { folder: root.to_owned(), numbers: AtomicU64::new(0), create };
        fs::create_dir_all(disk.folder.join(TEMPORARY))?;
        let mut found = Vec::new();
        for version in versions {
            disk.list_files(*version, &mut found)?;
        }
        found.sort_by_key(|(used, _, _)| *used);
        Ok((disk, found.into_iter().map(|(_, id, file)| (id, file)).collect()))
    }

    fn list_files(
        &self,
        version: u32,
        found: &mut Vec<(SystemTime, Owned<DebugId>, OnDisk)>,
    ) -> io::Result<()> {
        fs::create_dir_all(self.version_folder(version))?;
        for owner in fs::read_dir(self.version_folder(version))? {
            let owner = owner?;
            let path = owner.path();
            let owner = match owner.file_name().to_str() {
                Some(SYSTEM_FOLDER) => Owner::System,
                Some(name) => match TenantId::new(name) {
                    Ok(tenant) => Owner::Tenant(tenant),
                    Err(_) => continue,
                },
                None => continue,
            };
            for file in fs::read_dir(path)? {
                let file = file?;
                let meta = file.metadata()?;
                match read_name(&file.path(), version, meta.len()) {
                    Some((id, on_disk)) => {
                        let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        found.push((used, owner.own(id), on_disk));
                    }
                    None => fs::remove_file(file.path())?,
                }
            }
        }
        Ok(())
    }

    fn version_folder(&self, version: u32) -> PathBuf {
        self.folder.join(format!("v{version}"))
    }

    /// Creates a file for a download. Creates the folder again if the cache was deleted.
    pub(super) fn create_temporary(&self) -> io::Result<(PathBuf, File)> {
        let folder = self.folder.join(TEMPORARY);
        fs::create_dir_all(&folder)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        let file = (self.create)(&path)?;
        Ok((path, file))
    }

    /// Moves a complete download to its final name.
    pub(super) fn store_download(
        &self,
        temporary: &Path,
        id: &Owned<DebugId>,
        version: u32,
        meta: &crate::AliasMeta,
        size: u64,
    ) -> io::Result<OnDisk> {
        let owner =
            self.version_folder(version).join(id.owner.tenant().map_or(SYSTEM_FOLDER, TenantId::as_str));
        fs::create_dir_all(&owner)?;
        let (generation, sha256, object) = (meta.generation, meta.sha256, meta.object);
        let path = owner.join(format!("{}.{generation}.{sha256}.{object}", id.id.to_compact()));
        fs::rename(temporary, &path)?;
        Ok(OnDisk { path, version, generation, sha256, object, size })
    }

    /// Unlinks a file. Maps of it stay readable.
    pub(super) fn remove_file(&self, file: &OnDisk) {
        match fs::remove_file(&file.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %file.path.display(), error = %error, "a cached symcache could not be removed");
            }
            _ => {}
        }
    }
}

fn read_name(path: &Path, version: u32, size: u64) -> Option<(DebugId, OnDisk)> {
    let mut parts = path.file_name()?.to_str()?.split('.');
    let id = parts.next()?.parse().ok()?;
    let generation = parts.next()?.parse().ok()?;
    let sha256 = parts.next()?.parse().ok()?;
    let object = parts.next()?.parse().ok()?;
    let path = path.to_owned();
    parts.next().is_none().then_some((id, OnDisk { path, version, generation, sha256, object, size }))
}
