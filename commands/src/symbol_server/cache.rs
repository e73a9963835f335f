//! dSYMs on this machine.
//!
//! `FOLDER/<UUID>/<name>.dSYM` is a bundle, and `FOLDER/uuids/XXXX/…/XXXXXXXXXXXX` a link to the DWARF file in it, so that the
//! folder `uuids` can be one of `DBGFileMappedPaths`. A bundle appears with one rename, whole. The time of its last use is
//! that of its folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::NamedTempFile;
use unslide_cli::{BoxError, map_path};
use unslide_model::{Clock, DebugId, SystemClock};
use unslide_symbolicate::object::list_objects;

/// The folder of links by UUID.
const LINKS: &str = "uuids";
/// The beginning of the names of unfinished downloads.
const TEMPORARY: &str = ".download-";
const INFO_PLIST: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\"><dict>\
    <key>CFBundlePackageType</key><string>dSYM</string></dict></plist>\n";
/// The longest name of a DWARF file, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// A dSYM of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedDsym {
    /// The DWARF file in the bundle.
    pub dwarf: PathBuf,
    pub architecture: &'static str,
}

/// The folder of dSYMs, with a limit for its size.
pub struct DsymCache {
    folder: PathBuf,
    size_limit: u64,
}

/// Returns the folder for caches of this user, or None if the environment names none.
pub fn default_folder() -> Option<PathBuf> {
    let absolute =
        |variable| Some(PathBuf::from(std::env::var_os(variable)?)).filter(|path| path.is_absolute());
    let caches = match cfg!(target_os = "macos") {
        true => absolute("HOME")?.join("Library/Caches"),
        false => absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?,
    };
    Some(caches.join("unslide").join("dsyms"))
}

/// An entry of the folder.
struct KeptBundle {
    path: PathBuf,
    used_at: SystemTime,
    size: u64,
}

impl DsymCache {
    /// Opens a folder, and creates it if there is none.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(folder: &Path, size_limit: u64) -> Result<DsymCache, BoxError> {
        fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(DsymCache { folder: folder.canonicalize()?, size_limit })
    }

    /// Returns the most bytes that the folder keeps.
    pub fn size_limit(&self) -> u64 {
        self.size_limit
    }

    fn bundle_folder(&self, id: DebugId) -> PathBuf {
        self.folder.join(id.to_string().to_uppercase())
    }

    fn link_path(&self, id: DebugId) -> PathBuf {
        let digits = id.to_compact().to_uppercase();
        let (folders, last) = digits.split_at_checked(20).unwrap_or((&digits, ""));
        let mut path = self.folder.join(LINKS);
        path.extend(folders.as_bytes().chunks(4).map(|part| String::from_utf8_lossy(part).into_owned()));
        path.join(last)
    }

    /// Returns the dSYM of a UUID if the folder has it, and notes its use.
    pub fn find_dsym(&self, id: DebugId) -> Option<CachedDsym> {
        let folder = self.bundle_folder(id);
        let bundle = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        let mut bundles = bundle.filter(|path| path.extension() == Some(OsStr::new("dSYM")));
        let dwarf = bundles.next()?.join("Contents/Resources/DWARF");
        let dwarf = fs::read_dir(dwarf).ok()?.flatten().next()?.path();
        let architecture = read_architecture(&dwarf, id).ok()?;
        if let Ok(opened) = fs::File::open(&folder) {
            // A cache that cannot be written is used all the same.
            let _ = opened.set_modified(SystemClock.now().into());
        }
        Some(CachedDsym { dwarf, architecture })
    }

    /// Begins a download into the folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn begin_download(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.folder)
    }

    /// Makes the bundle of a downloaded file, after a check that it has the UUID.
    ///
    /// # Errors
    /// The file has another UUID, or the folder cannot be written.
    pub fn keep_download(
        &self,
        download: NamedTempFile,
        id: DebugId,
        name: Option<&str>,
    ) -> Result<CachedDsym, BoxError> {
        read_architecture(download.path(), id)?;
        let name = name.filter(|name| is_file_name(name)).unwrap_or("dsym");
        let made = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&self.folder)?;
        let inside = Path::new(&format!("{name}.dSYM")).join("Contents");
        let resources = made.path().join(&inside).join("Resources/DWARF");
        fs::create_dir_all(&resources)?;
        fs::write(made.path().join(&inside).join("Info.plist"), INFO_PLIST)?;
        download.persist(resources.join(name))?;
        let folder = self.bundle_folder(id);
        if let Err(error) = fs::rename(made.path(), &folder)
            && self.find_dsym(id).is_none()
        {
            return Err(format!("cannot write {}: {error}", folder.display()).into());
        }
        // Another process may have been first, with another name.
        let kept = self.find_dsym(id).ok_or("the folder of dSYMs was emptied at the same time")?;
        self.link_dwarf(id, &kept.dwarf)?;
        self.delete_oldest(&folder)?;
        Ok(kept)
    }

    fn link_dwarf(&self, id: DebugId, dwarf: &Path) -> io::Result<()> {
        let link = self.link_path(id);
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent)?;
        }
        match std::os::unix::fs::symlink(dwarf, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes the bundles that were used least recently, until the rest fits. `newest` stays.
    fn delete_oldest(&self, newest: &Path) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let is_bundle = entry.file_name().to_string_lossy().parse::<DebugId>().is_ok();
            if is_bundle && let Ok(facts) = entry.metadata() {
                let used_at = facts.modified()?;
                kept.push(KeptBundle { size: folder_size(&path), path, used_at });
            }
        }
        kept.sort_by_key(|bundle| bundle.used_at);
        let mut size: u64 = kept.iter().map(|bundle| bundle.size).sum();
        for bundle in kept.iter().filter(|bundle| bundle.path != newest) {
            if size <= self.size_limit {
                break;
            }
            if let Some(id) = bundle.path.file_name().and_then(|name| name.to_str()?.parse().ok()) {
                // A link that is gone already is as good.
                let _ = fs::remove_file(self.link_path(id));
            }
            fs::remove_dir_all(&bundle.path)?;
            size -= bundle.size;
        }
        Ok(())
    }
}

/// Returns the architecture of a file, if it is the object with this UUID.
fn read_architecture(file: &Path, id: DebugId) -> Result<&'static str, BoxError> {
    let bytes = map_path(file)?;
    let objects = list_objects(&bytes)?.into_iter().filter_map(|object| object.object.ok());
    let found = objects.into_iter().find(|facts| facts.debug_id == Some(id));
    Ok(found.ok_or("the file that the API sent has another UUID")?.cpu.name())
}

/// Returns true for a name that stays in its folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && !name.contains(['/', '\0'])
        && !name.chars().any(char::is_control)
}

/// Returns the bytes of the files in a bundle's folder.
fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_size(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |facts| facts.len()),
        _ => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use unslide_testkit::fixtures;

    /// Keeps the dSYM of a fixture as if it had been downloaded.
    fn keep(cache: &DsymCache, fixture: &str) -> (DebugId, CachedDsym) {
        let bytes = fs::read(fixtures::dsym(fixture)).unwrap();
        let id = list_objects(&bytes).unwrap().remove(0).object.unwrap().debug_id.unwrap();
        let mut download = cache.begin_download().unwrap();
        download.write_all(&bytes).unwrap();
        (id, cache.keep_download(download, id, Some(fixture)).unwrap())
    }

    #[test]
    fn a_download_becomes_a_bundle_with_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DsymCache::open(&folder.path().join("new"), u64::MAX).unwrap();
        let (id, dsym) = keep(&cache, "app");
        assert_eq!(cache.find_dsym(id), Some(dsym.clone()));
        assert!(dsym.dwarf.ends_with("app.dSYM/Contents/Resources/DWARF/app"), "{dsym:?}");
        assert_eq!(dsym.architecture, "arm64");
        assert_eq!(fs::read(cache.link_path(id)).unwrap(), fs::read(&dsym.dwarf).unwrap());
        assert_eq!(cache.link_path(id).strip_prefix(&cache.folder).unwrap().components().count(), 7);
        let left = fs::read_dir(&cache.folder).unwrap().flatten();
        assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(TEMPORARY)));
        // A second process may have been first.
        assert_eq!(keep(&cache, "app").1, dsym);
    }

    #[test]
    fn a_file_with_another_uuid_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DsymCache::open(folder.path(), u64::MAX).unwrap();
        let mut download = cache.begin_download().unwrap();
        download.write_all(&fs::read(fixtures::dsym("app")).unwrap()).unwrap();
        let error = cache.keep_download(download, DebugId([7; 16]), None).unwrap_err().to_string();
        assert!(error.contains("another UUID"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_dsym_that_was_used_least_recently_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DsymCache::open(folder.path(), u64::MAX).unwrap();
        let (app, _) = keep(&cache, "app");
        let (next, _) = keep(&cache, "app-next");
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::open(cache.bundle_folder(app)).unwrap().set_modified(long_ago).unwrap();
        let both = folder_size(&cache.bundle_folder(app)) + folder_size(&cache.bundle_folder(next));
        let small = DsymCache::open(folder.path(), both).unwrap();
        let (other, _) = keep(&small, "app-arm64e");
        assert!(small.find_dsym(app).is_none() && !small.link_path(app).exists());
        assert!(small.find_dsym(other).is_some());
    }

    #[test]
    fn a_name_from_outside_stays_in_its_folder() {
        for wrong in ["", ".", "..", "../x", "a/b", "a\nb", ".hidden", &"a".repeat(201)] {
            assert!(!is_file_name(wrong), "{wrong}");
        }
        assert!(is_file_name("Shop & Co"));
    }
}
