//! Finds files that can be uploaded.

use crate::{describe_file, file_kind, starts_as_mach_o};
use memmap2::Mmap;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use unslide_archive::FileKind;
use unslide_model::{ContentHash, DebugId};
use unslide_symbolicate::object;

/// Folders deeper than this are no build's.
const FOLDER_DEPTH_LIMIT: usize = 64;
/// The levels of folders in a dSYM, with one to spare. Below a link no more are searched, as it may lead anywhere.
const DSYM_LEVELS: usize = 4;

/// A file that can be uploaded.
pub struct Found {
    pub path: PathBuf,
    /// The path for people, if it is another one.
    pub shown: PathBuf,
    /// The name that the server shows.
    pub name: String,
    pub size: u64,
}

/// A Mach-O file's architectures, or a source map as the only one.
pub struct MachOFile {
    /// Debug id and SHA-256 (hexadecimal) of each architecture; an unreadable one has no entry.
    pub slices: Vec<(DebugId, String)>,
    /// True if every architecture could be read.
    pub whole: bool,
}

/// Returns everything under the paths that can be uploaded, each file once, and the paths without such files,
/// with the reason.
pub fn find_files(paths: &[PathBuf], binaries: bool) -> (Vec<Found>, Vec<(PathBuf, String)>) {
    let mut search = Search { binaries, ..Search::default() };
    for path in paths {
        match fs::metadata(path) {
            Err(error) => search.failed.push((path.clone(), error.to_string())),
            Ok(data) if data.is_dir() => search.folder_or_bundle(path, in_bundle(path), 0),
            Ok(_) => search.named_file(path),
        }
    }
    search.follow_links();
    search.found.sort_by(|a, b| a.path.cmp(&b.path));
    search.found.dedup_by(|a, b| a.path == b.path);
    (search.found, search.failed)
}

#[derive(Default)]
struct Search {
    binaries: bool,
    found: Vec<Found>,
    failed: Vec<(PathBuf, String)>,
    /// Links to dSYMs and in dSYMs, which are followed last: they may lead to files that are found anyway.
    links: Vec<PathBuf>,
}

impl Search {
    /// Follows links that build systems make: to a dSYM, and to the DWARF in one. Each place is searched once, so links that
    /// lead in a circle end.
    fn follow_links(&mut self) {
        let mut followed = HashSet::new();
        let mut known: HashSet<PathBuf> = match self.links.is_empty() {
            true => HashSet::new(),
            false => self.found.iter().filter_map(|file| file.path.canonicalize().ok()).collect(),
        };
        while let Some(link) = self.links.pop() {
            let place = match link.canonicalize() {
                Ok(place) => place,
                Err(error) => {
                    self.failed.push((link, format!("the link leads to no file: {error}")));
                    continue;
                }
            };
            if !followed.insert(place.clone()) {
                continue;
            }
            let before = self.found.len();
            if place.is_dir() {
                self.folder_or_bundle(&link, true, FOLDER_DEPTH_LIMIT - DSYM_LEVELS);
            } else {
                self.search_file(&link, true);
            }
            let linked = self.found.split_off(before);
            let is_new = |file: &Found| file.path.canonicalize().is_ok_and(|place| known.insert(place));
            self.found.extend(linked.into_iter().filter(is_new));
        }
    }

    /// Searches a folder. A dSYM in which there is nothing is reported.
    fn folder_or_bundle(&mut self, folder: &Path, bundle: bool, depth: usize) {
        let before = self.found.len() + self.failed.len() + self.links.len();
        self.search_folder(folder, bundle, depth);
        if in_bundle(folder) && before == self.found.len() + self.failed.len() + self.links.len() {
            let reason = "it is a dSYM without DWARF: Contents/Resources/DWARF has no file".to_owned();
            self.failed.push((folder.to_path_buf(), reason));
        }
    }

    fn search_folder(&mut self, folder: &Path, bundle: bool, depth: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.failed.push((folder.to_path_buf(), error.to_string())),
        };
        for entry in entries.flatten().filter(|entry| !is_left_by_macos(&entry.file_name())) {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < FOLDER_DEPTH_LIMIT => {
                    self.folder_or_bundle(&path, bundle || in_bundle(&path), depth + 1);
                }
                Ok(kind) if kind.is_file() && (bundle || self.binaries) => self.search_file(&path, bundle),
                // Other links lead to files that are found anyway.
                Ok(kind) if kind.is_symlink() && is_followed(&path, bundle) => self.links.push(path),
                _ => {}
            }
        }
    }

    /// Adds a file of a folder if it is a Mach-O file.
    fn search_file(&mut self, path: &Path, bundle: bool) {
        match starts_as_mach_o(path) {
            Ok(true) => self.add_file(path),
            // A bundle's DWARF folder holds nothing else: a file that is cut or broken is reported.
            Ok(false) if bundle && path.parent().is_some_and(|parent| parent.ends_with("DWARF")) => {
                let reason = describe_file(path).unwrap_or_else(|error| error.to_string());
                self.failed.push((path.to_path_buf(), reason));
            }
            Ok(false) => {}
            Err(error) => self.failed.push((path.to_path_buf(), error.to_string())),
        }
    }

    /// Adds a named file. It is sent even if only the server can recognise it.
    fn named_file(&mut self, path: &Path) {
        match file_kind(path) {
            Ok(FileKind::Binary(_) | FileKind::Zip | FileKind::Gzip | FileKind::Zstd | FileKind::Tar) => {
                self.add_file(path);
            }
            Ok(_) => {
                let reason = describe_file(path).unwrap_or_else(|error| error.to_string());
                self.failed.push((path.to_path_buf(), reason));
            }
            Err(error) => self.failed.push((path.to_path_buf(), error.to_string())),
        }
    }

    fn add_file(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(data) => {
                let name =
                    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                let path = path.to_path_buf();
                self.found.push(Found { shown: path.clone(), path, name, size: data.len() });
            }
            Err(error) => self.failed.push((path.to_path_buf(), error.to_string())),
        }
    }
}

/// Returns true for files that an archive made on macOS leaves beside the others when it is unpacked
/// elsewhere: their attributes, and the Finder's notes.
fn is_left_by_macos(name: &OsStr) -> bool {
    name == ".DS_Store" || name == "__MACOSX" || name.as_encoded_bytes().starts_with(b"._")
}

/// Returns true for a link to a dSYM, and for one in a dSYM to its DWARF or to a folder above it.
fn is_followed(link: &Path, bundle: bool) -> bool {
    let is_level = || ["Contents", "Resources", "DWARF"].iter().any(|level| link.ends_with(level));
    let is_dwarf = || link.parent().is_some_and(|parent| parent.ends_with("DWARF"));
    in_bundle(link) || bundle && (is_level() || is_dwarf())
}

fn in_bundle(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("dsym"))
}

/// Reads the debug ids and hashes of a Mach-O file or a source map. Returns `None` for another file. Blocks.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn mach_o(path: &Path) -> std::io::Result<Option<MachOFile>> {
    if !matches!(file_kind(path)?, FileKind::Binary(_)) {
        return Ok(None);
    }
    let file = File::open(path)?;
    #[expect(
        unsafe_code,
        reason = "dSYMs have gigabytes; a file that shrinks while it is read ends this command only"
    )]
    // SAFETY: the map is read only and lives as long as this call.
    let bytes = unsafe { Mmap::map(&file)? };
    let Ok(entries) = object::list_objects(&bytes) else {
        return Ok(Some(MachOFile { slices: Vec::new(), whole: false }));
    };
    let mut found = MachOFile { slices: Vec::new(), whole: true };
    for entry in entries {
        let id = entry.object.ok().and_then(|facts| facts.debug_id);
        match (id, bytes.get(entry.range)) {
            (Some(id), Some(slice)) => {
                found.slices.push((id, ContentHash(Sha256::digest(slice).into()).to_string()));
            }
            _ => found.whole = false,
        }
    }
    Ok(Some(found))
}

/// Returns the SHA-256 of a file, in hexadecimal. Blocks.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn file_hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(ContentHash(hash.finalize().into()).to_string()),
            read => hash.update(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_gives_its_dsyms_and_a_named_file_itself() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            path
        };
        let thin = &[0xcf, 0xfa, 0xed, 0xfe, 1, 2, 3, 4];
        let dsym = write("Shop.xcarchive/dSYMs/Shop.app.dSYM/Contents/Resources/DWARF/Shop", thin);
        write("Shop.xcarchive/dSYMs/Shop.app.dSYM/Contents/Info.plist", b"<plist/>");
        let program = write("Shop.xcarchive/Products/Applications/Shop.app/Shop", thin);
        write("classes/A.class", &[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 52]);
        let empty = write("Cut.dSYM/Contents/Resources/DWARF/Cut", b"");
        let paths = |found: &[Found]| found.iter().map(|f| f.path.clone()).collect::<Vec<_>>();

        let (found, failed) = find_files(&[folder.path().to_path_buf()], false);
        assert_eq!(paths(&found), std::slice::from_ref(&dsym));
        assert_eq!(failed, [(empty, "the file is empty".to_owned())]);
        let (found, _) = find_files(&[folder.path().to_path_buf()], true);
        assert_eq!(paths(&found), [program.clone(), dsym]);
        let (found, failed) = find_files(&[program.clone(), folder.path().join("missing")], false);
        assert_eq!((paths(&found), failed.len()), (vec![program], 1));
    }

    #[test]
    fn links_to_dsyms_and_in_dsyms_are_followed_and_each_file_is_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let thin = &[0xcf, 0xfa, 0xed, 0xfe, 1, 2, 3, 4];
        let create = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let write = |path: &str| fs::write(create(path), thin).unwrap();
        let link = |path: &str, place: &str| symlink(place, create(path)).unwrap();
        let find = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| root.join(path)).collect();
            let (found, failed) = find_files(&paths, false);
            let shown = found.iter().map(|file| file.path.strip_prefix(&root).unwrap().display().to_string());
            (shown.collect::<Vec<_>>(), failed)
        };
        // Bazel links the file, Kotlin Multiplatform the bundle, others a folder in it.
        write("out/Shop_dwarf");
        link("bazel/Shop.dSYM/Contents/Resources/DWARF/Shop", "../../../../../out/Shop_dwarf");
        link("kmp/Shop.dSYM", "../bazel/Shop.dSYM");
        link("folders/Shop.dSYM/Contents/Resources/DWARF", "../../../../out");
        link("top/Shop.dSYM/Contents", "../../bazel/Shop.dSYM/Contents");
        let dwarf = "Shop.dSYM/Contents/Resources/DWARF";
        for (named, path) in [
            ("bazel", format!("bazel/{dwarf}/Shop")),
            ("kmp", format!("kmp/{dwarf}/Shop")),
            ("folders", format!("folders/{dwarf}/Shop_dwarf")),
            ("top", format!("top/{dwarf}/Shop")),
            ("kmp/Shop.dSYM", format!("kmp/{dwarf}/Shop")),
        ] {
            assert_eq!(find(&[named]), (vec![path], Vec::new()), "{named}");
        }
        let (all, failed) = find(&["bazel", "kmp", "folders", "top"]);
        assert_eq!((all.len(), failed), (1, Vec::new()), "{all:?}");
        // A file that is found without a link has its own path.
        write("real/Cart.dSYM/Contents/Resources/DWARF/Cart");
        link("real/A.dSYM", "Cart.dSYM");
        link("real/Cart.dSYM/Contents/Resources/DWARF/Again", "Cart");
        assert_eq!(
            find(&["real"]),
            (vec!["real/Cart.dSYM/Contents/Resources/DWARF/Cart".to_owned()], Vec::new())
        );
        // Circles end; links to other files, and out of the dSYM's form, are not followed.
        link("circle/Shop.dSYM", ".");
        link("circle/Loop.dSYM/Contents", "..");
        link("circle/Info.dSYM/Contents/Info.plist", "../../../out/Shop_dwarf");
        link("circle/plain", "../out");
        let (found, failed) = find(&["circle"]);
        assert_eq!(found, Vec::<String>::new());
        assert!(failed.iter().all(|(_, reason)| reason.contains("a dSYM without DWARF")), "{failed:?}");
        link("broken/Shop.dSYM/Contents/Resources/DWARF/Shop", "../../../../nowhere");
        let (found, failed) = find(&["broken"]);
        assert!(found.is_empty() && failed[0].1.contains("the link leads to no file"), "{failed:?}");
    }

    #[test]
    fn what_gives_no_symbols_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("build/E.dSYM");
        fs::create_dir_all(bundle.join("Contents/Resources/DWARF")).unwrap();
        fs::write(bundle.join("Contents/Info.plist"), "<plist/>").unwrap();
        for named in [bundle.clone(), folder.path().to_path_buf()] {
            let (found, failed) = find_files(&[named], false);
            let [(path, reason)] = &failed[..] else { panic!("{failed:?}") };
            assert!(
                found.is_empty() && *path == bundle && reason.contains("a dSYM without DWARF"),
                "{reason}"
            );
        }
        let file = folder.path().join("Shop.sym");
        fs::write(&file, "MODULE mac arm64 0F1E 0 Shop\n").unwrap();
        let (_, failed) = find_files(&[file], false);
        assert!(failed[0].1.contains("Breakpad") && failed[0].1.contains("dSYM"), "{failed:?}");
    }

    #[test]
    fn what_macos_leaves_in_archives_is_neither_sent_nor_missed() {
        let folder = tempfile::tempdir().unwrap();
        let dwarf = folder.path().join("App.dSYM/Contents/Resources/DWARF");
        fs::create_dir_all(dwarf.join("__MACOSX/DWARF")).unwrap();
        fs::write(dwarf.join("App"), [0xcf, 0xfa, 0xed, 0xfe, 1, 2, 3, 4]).unwrap();
        for left in ["._App", ".DS_Store", "__MACOSX/DWARF/App"] {
            fs::write(dwarf.join(left), [0, 5, 0x16, 7, 0, 2, 0, 0]).unwrap();
        }
        let (found, failed) = find_files(&[folder.path().to_path_buf()], false);
        assert_eq!(failed, []);
        assert_eq!(found.into_iter().map(|f| f.path).collect::<Vec<_>>(), [dwarf.join("App")]);
    }
}
