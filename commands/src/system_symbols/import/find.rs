//! Finds the main files of dyld shared caches, and libraries, in files and folders.

use super::archive::{self, UnpackedFolder};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use unslide_cli::{is_archive, map_unpacked, starts_as_mach_o};
use unslide_system_symbols_formats::Release;
use unslide_system_symbols_formats::dyld_cache::{CacheHeader, is_dyld_cache, main_file_name};

/// Folders deeper than this are no build's.
const MAX_DEPTH: usize = 64;
/// Bytes by which a cache is recognised.
const MAGIC_BYTES: u64 = 16;
/// The most files of one import.
const MAX_FILES: usize = 200_000;

/// A file that was found, and what its path tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    pub path: PathBuf,
    pub release: Release,
}

/// A file or folder that gives no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableFile {
    pub path: PathBuf,
    pub reason: String,
}

/// The files to import, and those that cannot be.
#[derive(Default)]
pub struct ImportSources {
    /// Main files of dyld shared caches.
    pub caches: BTreeSet<SourceFile>,
    /// Mach-O files outside of caches, by release.
    pub libraries: BTreeMap<Release, BTreeSet<PathBuf>>,
    pub unusable: Vec<UnusableFile>,
    /// Folders with unpacked archives, which are deleted at the end.
    unpacked: Vec<UnpackedFolder>,
    files: usize,
}

/// Searches files and folders for caches and libraries.
pub fn find_sources(paths: &[PathBuf]) -> ImportSources {
    let mut sources = ImportSources::default();
    for path in paths {
        if path.is_dir() {
            sources.search_folder(path, 0);
        } else if let Err(error) = sources.add_named(path) {
            sources.add_unusable(path, error.to_string());
        }
    }
    if sources.files > MAX_FILES {
        sources.add_unusable(
            Path::new("."),
            format!("more than {MAX_FILES} files; import fewer folders at a time"),
        );
    }
    sources
}

impl ImportSources {
    /// Returns true if nothing was found, usable or not.
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty() && self.libraries.is_empty() && self.unusable.is_empty()
    }

    fn add_unusable(&mut self, path: &Path, reason: impl Into<String>) {
        self.unusable.push(UnusableFile { path: path.to_path_buf(), reason: reason.into() });
    }

    fn add_library(&mut self, path: &Path) {
        self.libraries.entry(Release::from_path(path)).or_default().insert(path.to_path_buf());
    }

    /// Adds a file that the command line names.
    fn add_named(&mut self, path: &Path) -> io::Result<()> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if let Some(reason) = archive::describe_image(path, name) {
            self.add_unusable(path, reason);
        } else if is_dyld_cache(&read_magic(path)?) {
            match main_file_name(name) {
                Some(main) if main != *name => {
                    self.add_unusable(path, format!("it is a part; import {main}"));
                }
                _ => self.add_cache(path),
            }
        } else if is_archive(path)? {
            match archive::unpack_archive(path) {
                Ok(folder) => {
                    self.search_folder(folder.path(), 0);
                    self.unpacked.push(folder);
                }
                Err(reason) => self.add_unusable(path, reason),
            }
        } else if starts_as_mach_o(path)? {
            self.add_library(path);
        } else {
            self.add_unusable(path, "it is neither a dyld shared cache, an archive nor a Mach-O file");
        }
        Ok(())
    }

    fn add_cache(&mut self, path: &Path) {
        self.caches.insert(SourceFile { path: path.to_path_buf(), release: Release::from_path(path) });
    }

    fn search_folder(&mut self, folder: &Path, depth: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.add_unusable(folder, error.to_string()),
        };
        let mut caches = BTreeMap::new();
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            self.files += 1;
            if name.starts_with("._") || self.files > MAX_FILES {
                continue;
            }
            // Links are skipped: they lead in circles, and to files that are found anyway.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => self.search_folder(&path, depth + 1),
                Ok(kind) if kind.is_file() => match read_magic(&path) {
                    Ok(head) if is_dyld_cache(&head) => drop(caches.insert(name.into_owned(), path)),
                    Ok(_) => match starts_as_mach_o(&path) {
                        Ok(true) => self.add_library(&path),
                        Ok(false) => {}
                        Err(error) => self.add_unusable(&path, error.to_string()),
                    },
                    Err(error) => self.add_unusable(&path, error.to_string()),
                },
                _ => {}
            }
        }
        self.add_main_files(&caches);
    }

    /// Adds the caches of one folder that no other one names as its part.
    fn add_main_files(&mut self, caches: &BTreeMap<String, PathBuf>) {
        let mut parts = BTreeSet::new();
        for (name, path) in caches {
            let Ok(bytes) = map_unpacked(path) else { continue };
            let Ok(header) = CacheHeader::read_main(&bytes, name) else { continue };
            let base = header.base_name(name);
            parts.extend(header.subcaches.iter().map(|part| format!("{base}{}", part.suffix)));
            parts.insert(format!("{base}.symbols"));
        }
        for (name, path) in caches.iter().filter(|(name, _)| !parts.contains(*name)) {
            match main_file_name(name) {
                Some(main) if main != *name => {
                    self.add_unusable(path, format!("it is a part, and {main} is not beside it"));
                }
                _ => self.add_cache(path),
            }
        }
    }
}

fn read_magic(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(MAGIC_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_testkit::fixtures;

    fn paths(sources: &ImportSources) -> Vec<String> {
        let caches = fixtures::dyld_caches();
        let shown = sources.caches.iter().map(|cache| cache.path.strip_prefix(caches).unwrap());
        shown.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_folder_gives_the_main_file_of_each_cache() {
        let sources = find_sources(&[fixtures::dyld_caches().to_path_buf()]);
        let folders = ["ios14-single", "ios15-large", "ios16-split", "ios26-split"];
        assert_eq!(paths(&sources), folders.map(|folder| format!("{folder}/dyld_shared_cache_arm64e")));
        assert_eq!((sources.unusable, sources.libraries.len()), (Vec::new(), 0));
    }

    #[test]
    fn a_part_names_its_main_file_and_other_files_are_refused() {
        let part = fixtures::dyld_caches().join("ios26-split/dyld_shared_cache_arm64e.02");
        let text = fixtures::dyld_caches().join("ios26-split/expected.json");
        let sources = find_sources(&[part, text]);
        assert!(sources.caches.is_empty());
        let reasons: Vec<&str> = sources.unusable.iter().map(|file| file.reason.as_str()).collect();
        assert_eq!(reasons[0], "it is a part; import dyld_shared_cache_arm64e");
        assert!(reasons[1].starts_with("it is neither a dyld shared cache"), "{reasons:?}");
    }

    #[test]
    fn libraries_have_the_release_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("iPhone17,1 26.2 (23B87)/Symbols/usr/lib/libkit.dylib");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::copy(fixtures::binary("kit-arm64"), &library).unwrap();
        fs::write(library.with_file_name("._libkit.dylib"), [0, 5, 0x16, 7]).unwrap();
        let sources = find_sources(&[folder.path().to_path_buf()]);
        let (release, paths) = sources.libraries.first_key_value().unwrap();
        assert_eq!((release.to_string().as_str(), paths.len()), ("26.2 (23B87)", 1));
        assert_eq!(sources.unusable, Vec::new());
    }
}
