//! Bundles of source files: `SYSB`, a version of four bytes, and a zip archive with `manifest.json`.
//!
//! Sentry's clients write the same form. Nothing in an archive is ever written to a path. The number of entries, the size of
//! the manifest, and the sizes of files are checked before any of them is unpacked, and unpacking stops at the limit: a size
//! in the archive may be a lie. That is why the archive is read here, and not by `symbolic`, which reads a manifest of any size.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{Cursor, Read};
use symbolic_common::clean_path;
use unslide_model::DebugId;
use zip::ZipArchive;

/// The first bytes of a bundle.
pub const BUNDLE_MAGIC: &[u8] = b"SYSB";
/// The version in the four bytes after them, little-endian, of bundles that this program writes.
pub const BUNDLE_VERSION: u32 = 2;
/// The most bytes of a bundle.
pub const MAX_BUNDLE_BYTES: u64 = 32 << 20;
/// The most files of a bundle.
pub const MAX_FILES: usize = 20_000;
/// The most bytes of a source file.
pub const MAX_FILE_BYTES: u64 = 2 << 20;
/// The most bytes of all files of a bundle.
pub const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// The most bytes of a path.
pub const MAX_PATH_BYTES: usize = 1_024;
/// The most bytes of the manifest.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;
/// The most bytes that one reading of lines unpacks.
const MAX_READ_BYTES: u64 = 32 << 20;
/// The name of the manifest in the archive.
pub const MANIFEST: &str = "manifest.json";
/// The first bytes of an entry of a zip archive's directory (APPNOTE.TXT §4.3.12).
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";

/// The reason why bytes are no bundle that is kept.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("it does not begin like a bundle of source files")]
    NoBundle,
    #[error("its archive is damaged: {0}")]
    Damaged(#[from] zip::result::ZipError),
    #[error("its {MANIFEST} cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("its {MANIFEST} is wrong: {0}")]
    Manifest(#[from] serde_json::Error),
    #[error(
        "its {MANIFEST} names no debug id, such as \"debug_id\": \"4c4c442c-5555-3144-a13c-cb08e4ddcb6b\""
    )]
    NoDebugId,
    #[error("{what}: the limit is {limit}")]
    TooLarge { what: String, limit: u64 },
}

impl BundleError {
    fn too_large(what: impl Into<String>, limit: u64) -> BundleError {
        BundleError::TooLarge { what: what.into(), limit }
    }
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    files: ManifestFiles,
    debug_id: Option<String>,
}

/// The members of the manifest, in its order.
#[derive(Default)]
struct ManifestFiles(Vec<(String, ManifestEntry)>);

impl<'de> Deserialize<'de> for ManifestFiles {
    /// Stops behind the most files of a bundle: a member takes more memory than its bytes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ManifestFiles, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ManifestFiles;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ManifestFiles, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.len() == MAX_FILES {
                        return Err(A::Error::custom(format_args!("more than {MAX_FILES} files")));
                    }
                    members.push(member);
                }
                Ok(ManifestFiles(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
struct ManifestEntry {
    #[serde(default)]
    path: String,
}

/// A bundle over its bytes.
pub struct SourceBundle<'b> {
    archive: ZipArchive<Cursor<&'b [u8]>>,
    /// The debug id of the symbols that name the files.
    pub debug_id: DebugId,
    /// The name in the archive of each file by its path.
    names: HashMap<String, String>,
}

impl<'b> SourceBundle<'b> {
    /// Reads the directory and the manifest, and checks the sizes in them.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn parse(bytes: &'b [u8]) -> Result<SourceBundle<'b>, BundleError> {
        let mut bundle = SourceBundle::read_directory(bytes, |_| true)?;
        check_sizes(&mut bundle.archive)?;
        Ok(bundle)
    }

    /// Reads the directory, and the manifest as far as it concerns these paths. Does not check the sizes again of a bundle
    /// that [`SourceBundle::parse`] has read before: reading stops at its own limits.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn open<'p>(
        bytes: &'b [u8],
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<SourceBundle<'b>, BundleError> {
        let paths: HashSet<String> = paths.into_iter().map(|path| clean_path(path).into_owned()).collect();
        SourceBundle::read_directory(bytes, |path| paths.contains(path))
    }

    fn read_directory(
        bytes: &'b [u8],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<SourceBundle<'b>, BundleError> {
        if !bytes.starts_with(BUNDLE_MAGIC) {
            return Err(BundleError::NoBundle);
        }
        if bytes.len() as u64 > MAX_BUNDLE_BYTES {
            return Err(BundleError::too_large("the bytes of a bundle", MAX_BUNDLE_BYTES));
        }
        // Counted before the directory is read, which takes memory for each entry.
        let entries = memchr::memmem::find_iter(bytes, DIRECTORY_ENTRY).take(MAX_FILES + 2).count();
        if entries > MAX_FILES + 1 {
            return Err(BundleError::too_large("the files of a bundle", MAX_FILES as u64));
        }
        let mut archive = ZipArchive::new(Cursor::new(bytes))?;
        let manifest = read_manifest(&mut archive)?;
        let debug_id = manifest.debug_id.and_then(|id| id.parse().ok()).ok_or(BundleError::NoDebugId)?;
        let mut names = HashMap::new();
        for (name, entry) in manifest.files.0 {
            if entry.path.len() > MAX_PATH_BYTES {
                return Err(BundleError::too_large("the bytes of a path", MAX_PATH_BYTES as u64));
            }
            let path = clean_path(&entry.path);
            if !path.is_empty() && is_wanted(&path) {
                names.insert(path.into_owned(), name);
            }
        }
        Ok(SourceBundle { archive, debug_id, names })
    }

    /// Returns the number of files with a path.
    pub fn count_files(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// Starts to read files.
    pub fn into_reader(self) -> BundleReader<'b> {
        BundleReader { bundle: self, left: MAX_READ_BYTES }
    }
}

fn read_manifest(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Manifest, BundleError> {
    let mut text = Vec::new();
    archive.by_name(MANIFEST)?.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(BundleError::too_large(format!("the bytes of {MANIFEST}"), MAX_MANIFEST_BYTES));
    }
    Ok(serde_json::from_slice(&text)?)
}

fn check_sizes(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<(), BundleError> {
    let mut total: u64 = 0;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        if entry.name_raw() == MANIFEST.as_bytes() {
            continue;
        }
        if entry.size() > MAX_FILE_BYTES {
            return Err(BundleError::too_large("the bytes of a source file", MAX_FILE_BYTES));
        }
        total = total.saturating_add(entry.size());
    }
    if total > MAX_TOTAL_BYTES {
        return Err(BundleError::too_large("the bytes of all source files of a bundle", MAX_TOTAL_BYTES));
    }
    Ok(())
}

/// Reads files of a bundle, up to a limit for all of them.
pub struct BundleReader<'b> {
    bundle: SourceBundle<'b>,
    left: u64,
}

impl BundleReader<'_> {
    /// Returns the text of the file with exactly this path, apart from `.` and `..` in both. Returns None if there is no
    /// such file, and if it is damaged, too large or not in UTF-8.
    pub fn read_text(&mut self, path: &str) -> Option<String> {
        let name = self.bundle.names.get(clean_path(path).as_ref())?;
        let limit = MAX_FILE_BYTES.min(self.left);
        let entry = self.bundle.archive.by_name(name).ok()?;
        let mut bytes = Vec::new();
        let read = entry.take(limit + 1).read_to_end(&mut bytes);
        self.left = self.left.saturating_sub(bytes.len() as u64);
        let whole = read.is_ok() && bytes.len() as u64 <= limit;
        String::from_utf8(bytes).ok().filter(|_| whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    const ID: &str = "4c4c442c-5555-3144-a13c-cb08e4ddcb6b";

    /// A bundle with these members, and a manifest.
    fn bundle(members: &[(&str, &[u8])], manifest: &str) -> Vec<u8> {
        let mut bytes = Cursor::new([BUNDLE_MAGIC, &2_u32.to_le_bytes()].concat());
        bytes.set_position(8);
        let mut writer = ZipWriter::new(bytes);
        for (name, content) in members.iter().chain([&(MANIFEST, manifest.as_bytes())]) {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn manifest(name: &str, path: &str) -> String {
        serde_json::json!({"debug_id": ID, "files": {name: {"type": "source", "path": path}}}).to_string()
    }

    fn refusal(bytes: &[u8]) -> String {
        SourceBundle::parse(bytes).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_file_is_read_by_its_exact_path() {
        let (name, path) = ("files/ci/shop/Sources/Cart.swift", "/ci/shop/Sources/Cart.swift");
        let bytes = bundle(&[(name, b"let a = 1\n")], &manifest(name, path));
        let parsed = SourceBundle::parse(&bytes).unwrap();
        assert_eq!((parsed.debug_id.to_string().to_lowercase(), parsed.count_files()), (ID.to_owned(), 1));
        let mut reader = parsed.into_reader();
        for same in ["/ci/shop/Sources/Cart.swift", "/ci/shop/./App/../Sources/Cart.swift"] {
            assert_eq!(reader.read_text(same).as_deref(), Some("let a = 1\n"), "{same}");
        }
        for other in [
            "Cart.swift",
            "/Sources/Cart.swift",
            "/other/ci/shop/Sources/Cart.swift",
            "/ci/shop/sources/cart.swift",
        ] {
            assert_eq!(reader.read_text(other), None, "{other}");
        }
    }

    /// `sentry-cli 3.8.2 debug-files bundle-sources` wrote it, from a dSYM that names `/tmp/uplsrc/shop/Sources/cart.c`.
    #[test]
    fn a_bundle_of_sentry_cli_is_read() {
        let parsed = SourceBundle::parse(include_bytes!("../tests/sentry-cli.src.zip")).unwrap();
        assert_eq!(parsed.count_files(), 1);
        let text = parsed.into_reader().read_text("/tmp/uplsrc/shop/Sources/cart.c").unwrap();
        assert!(text.starts_with("int price(int count) {"), "{text}");
    }

    #[test]
    fn names_that_lead_out_are_only_names() {
        let name = "files/../../../etc/passwd";
        let bytes = bundle(&[(name, b"root")], &manifest(name, "../../etc/passwd"));
        let mut reader = SourceBundle::parse(&bytes).unwrap().into_reader();
        assert_eq!(reader.read_text("../../etc/passwd").as_deref(), Some("root"));
        assert_eq!(reader.read_text("/etc/passwd"), None);
    }

    /// Proves: bounded-input
    #[test]
    fn bombs_are_refused_before_they_are_unpacked() {
        let zeros = vec![b' '; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
        assert!(
            refusal(&bundle(&[("files/a", &zeros)], &manifest("files/a", "/a")))
                .contains("the limit is 2097152")
        );
        let mebibyte = vec![b' '; 2 << 20];
        let names: Vec<String> = (0..129).map(|n| format!("files/{n}")).collect();
        let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &mebibyte[..])).collect();
        assert!(refusal(&bundle(&members, &manifest("files/1", "/a"))).contains("all source files"));
        let long = format!("{}{}", manifest("files/a", "/a"), " ".repeat(16 << 20));
        assert!(refusal(&bundle(&[], &long)).contains("the bytes of manifest.json"));
        let path = "x".repeat(MAX_PATH_BYTES + 1);
        assert!(refusal(&bundle(&[], &manifest("files/a", &path))).contains("the bytes of a path"));
    }

    /// Proves: bounded-input
    #[test]
    fn a_hundred_thousand_entries_are_refused() {
        let names: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert!(refusal(&bundle(&members, &manifest("1", "/a"))).contains("the files of a bundle"));
    }

    /// Proves: bounded-input
    #[test]
    fn a_manifest_of_a_hundred_thousand_files_is_refused() {
        let manifest = |files: usize| {
            let files: Vec<String> = (0..files).map(|n| format!("\"{n}\":{{\"path\":\"/{n}\"}}")).collect();
            format!("{{\"debug_id\": \"{ID}\", \"files\": {{{}}}}}", files.join(","))
        };
        assert!(refusal(&bundle(&[], &manifest(100_000))).contains("more than 20000 files"));
        assert_eq!(refusal(&bundle(&[], &manifest(MAX_FILES))), "");
    }

    #[test]
    fn a_bundle_is_opened_for_the_wanted_paths() {
        let bytes = bundle(&[("files/a", b"let a = 1\n")], &manifest("files/a", "/ci/./a"));
        let read = |wanted: &'static str| {
            SourceBundle::open(&bytes, [wanted]).unwrap().into_reader().read_text("/ci/a")
        };
        assert_eq!(read("/ci/b/../a").as_deref(), Some("let a = 1\n"));
        assert_eq!(read("/ci/b"), None);
    }

    #[test]
    fn a_size_that_lies_gives_no_text() {
        let text = b"let a = 1\n".repeat(100_000);
        let mut bytes = bundle(&[("files/a", &text)], &manifest("files/a", "/a"));
        let entry = bytes.windows(4).position(|bytes| bytes == DIRECTORY_ENTRY).unwrap();
        bytes[entry + 24..entry + 28].copy_from_slice(&10_u32.to_le_bytes());
        let parsed = SourceBundle::parse(&bytes);
        assert_eq!(
            parsed
                .ok()
                .and_then(|parsed| parsed.into_reader().read_text("/a"))
                .filter(|read| read.len() > 10),
            None
        );
    }

    #[test]
    fn texts_that_are_not_utf_8_are_left_out_and_damage_is_refused() {
        let bytes = bundle(&[("files/a", b"\xff")], &manifest("files/a", "/a"));
        assert_eq!(SourceBundle::parse(&bytes).unwrap().into_reader().read_text("/a"), None);
        assert!(refusal(&bundle(&[], "{\"files\": {}}")).contains("debug id"));
        assert!(refusal(&bundle(&[], "\u{0}")).contains("is wrong"));
        assert!(refusal(&bytes[..bytes.len() / 2]).contains("damaged"));
        assert!(refusal(b"PK\x03\x04").contains("does not begin"));
    }
}
