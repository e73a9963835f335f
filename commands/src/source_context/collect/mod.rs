//! Bundles of source files: the source files that the DWARF of a dSYM names.
//!
//! A dSYM may be of another party and name any file of this machine. So only regular text files in the source root are taken:
//! the place of a file after all symbolic links counts. Files that usually hold secrets are left out.

mod exclude;
mod left_out;
mod writer;

pub use writer::BundleWriter;

use exclude::ExcludeList;
use left_out::{LeftOutReason, LeftOutSources};
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use symbolic_common::clean_path;
use unslide_cli::BoxError;
use unslide_model::DebugId;
use unslide_source_context_formats::{
    MAX_BUNDLE_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_PATH_BYTES, MAX_TOTAL_BYTES,
};
use unslide_symbolicate::object::{list_objects, list_source_paths};

/// Source files that may be sent.
#[derive(Clone, Debug)]
pub struct SourceSelection {
    /// Files outside of this folder are never sent.
    pub root: PathBuf,
    /// Patterns of further files that are not sent.
    pub exclude: Vec<String>,
}

/// A bundle in a file.
#[derive(Clone, Debug)]
pub struct SourceBundleFile {
    /// The debug id of the symbols.
    pub debug_id: DebugId,
    /// The file with the bundle.
    pub path: PathBuf,
    /// The source files in it.
    pub sources: Vec<PathBuf>,
}

/// The bundles of a Mach-O file.
#[derive(Clone, Debug, Default)]
pub struct SourceBundles {
    /// The bundles that have files.
    pub files: Vec<SourceBundleFile>,
    /// The reason why there is no bundle; `None` if there is one.
    pub absent: Option<String>,
}

/// A source file that may be sent.
struct FoundSource {
    /// The path in the symbols.
    named: String,
    /// Its place, after all symbolic links.
    place: PathBuf,
    text: Vec<u8>,
}

/// Writes a bundle into `folder` for each architecture of a Mach-O file that names source files. Blocks.
pub fn write_bundles(
    file: &Path,
    selection: &SourceSelection,
    folder: &Path,
) -> Result<SourceBundles, BoxError> {
    let opened = File::open(file)?;
    #[expect(
        unsafe_code,
        reason = "dSYMs have gigabytes; a file that shrinks while it is read ends this command only"
    )]
    // SAFETY: the map is read only and lives as long as this call.
    let bytes = unsafe { Mmap::map(&opened)? };
    let sources = SourceFolder::new(selection)?;
    let (mut bundles, mut left_out) = (Vec::new(), LeftOutSources::default());
    for entry in list_objects(&bytes)? {
        let facts = entry.object?;
        let Some(debug_id) = facts.debug_id else { continue };
        let path = folder.join(format!("{debug_id}.src.zip"));
        let mut writer = BundleWriter::start(BufWriter::new(File::create(&path)?))?;
        let slice = bytes.get(entry.range).unwrap_or_default();
        let written = write_sources(&mut writer, slice, &sources, &mut left_out)?;
        writer.finish(&debug_id.to_string().to_lowercase(), facts.cpu.name())?;
        check_size(&path)?;
        if !written.is_empty() {
            bundles.push(SourceBundleFile { debug_id, path, sources: written });
        }
    }
    let absent = bundles.is_empty().then(|| left_out.describe_absence(&sources.root));
    Ok(SourceBundles { files: bundles, absent })
}

/// Adds the source files of one architecture to its bundle. Returns them.
fn write_sources<W: Write + Seek>(
    writer: &mut BundleWriter<W>,
    slice: &[u8],
    sources: &SourceFolder,
    left_out: &mut LeftOutSources,
) -> Result<Vec<PathBuf>, BoxError> {
    let (mut written, mut total) = (Vec::new(), 0_u64);
    for named in list_source_paths(slice)? {
        let found = match sources.find_source(&clean_path(&named)) {
            Ok(found) => found,
            Err(reason) => {
                left_out.add_path(&named, reason);
                continue;
            }
        };
        total = total.saturating_add(found.text.len() as u64);
        if written.len() == MAX_FILES || total > MAX_TOTAL_BYTES {
            let detail = format!(
                "the symbols name more than {MAX_FILES} source files or {MAX_TOTAL_BYTES} bytes of them: \
                 name a smaller --source-root, or leave files out with --exclude"
            );
            return Err(detail.into());
        }
        if writer.add_file(&found.named, &found.text)? {
            written.push(found.place);
        }
    }
    Ok(written)
}

fn check_size(path: &Path) -> Result<(), BoxError> {
    let size = fs::metadata(path)?.len();
    if size > MAX_BUNDLE_BYTES {
        let detail = format!(
            "the bundle of source files has {size} bytes, and the limit is {MAX_BUNDLE_BYTES}: leave files out with --exclude"
        );
        return Err(detail.into());
    }
    Ok(())
}

/// The folder that source files are taken from.
struct SourceFolder {
    /// Its place, after all symbolic links.
    root: PathBuf,
    exclude: ExcludeList,
}

impl SourceFolder {
    fn new(selection: &SourceSelection) -> Result<SourceFolder, BoxError> {
        let root = selection
            .root
            .canonicalize()
            .map_err(|error| format!("--source-root {}: {error}", selection.root.display()))?;
        Ok(SourceFolder { root, exclude: ExcludeList::new(&selection.exclude) })
    }

    /// Returns a named file if it is a text that may be sent. A relative path, which builds write that do not depend on their
    /// folder, is one below the root.
    fn find_source(&self, named: &str) -> Result<FoundSource, LeftOutReason> {
        if named.len() > MAX_PATH_BYTES {
            return Err(LeftOutReason::NoText);
        }
        let place = self.root.join(named).canonicalize().map_err(|_| LeftOutReason::Missing)?;
        let inside = place.strip_prefix(&self.root).map_err(|_| LeftOutReason::Outside)?;
        // The name of a link may be excluded, and so may that of the file that it leads to.
        if self.exclude.matches_path(inside)
            || self.exclude.matches_path(Path::new(clean_path(named).as_ref()))
        {
            return Err(LeftOutReason::Excluded);
        }
        let text = read_text(&place).ok_or(LeftOutReason::NoText)?;
        Ok(FoundSource { named: named.to_owned(), place, text })
    }
}

/// Returns the bytes of a regular file that is a text and not too large.
fn read_text(place: &Path) -> Option<Vec<u8>> {
    let data = fs::symlink_metadata(place).ok()?;
    if !data.is_file() || data.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut text = Vec::new();
    File::open(place).ok()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).ok()?;
    let is_text = text.len() as u64 <= MAX_FILE_BYTES && !text.contains(&0) && str::from_utf8(&text).is_ok();
    is_text.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A repository with a file and a secret, and a file beside it.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("repo");
        for (path, text) in [
            ("repo/src/Cart.swift", &b"let a = 1\n"[..]),
            ("repo/.env", b"KEY=1"),
            ("repo/src/image.c", b"\0\xff"),
            ("repo/src/latin.c", b"\xe4"),
            ("outside.swift", b"secret"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, root)
    }

    fn folder_with(root: &Path, exclude: &[&str]) -> SourceFolder {
        let exclude = exclude.iter().map(|text| (*text).to_owned()).collect();
        SourceFolder::new(&SourceSelection { root: root.to_path_buf(), exclude }).unwrap()
    }

    fn is_sent(root: &Path, named: &str, exclude: &[&str]) -> bool {
        let folder = folder_with(root, exclude);
        // A relative path is the same file.
        let sent = folder.find_source(&root.join(named).to_string_lossy()).is_ok();
        assert_eq!(folder.find_source(named).is_ok(), sent, "{named}");
        sent
    }

    #[test]
    fn only_text_files_in_the_root_are_sent() {
        let (_folder, root) = repository();
        assert!(is_sent(&root, "src/Cart.swift", &[]));
        assert!(!is_sent(&root, "src/Cart.swift", &["src/*"]));
        for kept in
            ["src/image.c", "src/latin.c", "src", "../outside.swift", "src/missing.c", ".env", "/etc/passwd"]
        {
            assert!(!is_sent(&root, kept, &[]), "{kept}");
        }
    }

    #[test]
    fn links_that_lead_out_or_to_secrets_are_not_followed() {
        let (folder, root) = repository();
        symlink(folder.path().join("outside.swift"), root.join("src/out.swift")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        symlink(root.join(".env"), root.join("src/env.swift")).unwrap();
        symlink(root.join("src/Cart.swift"), root.join("src/again.swift")).unwrap();
        for kept in ["src/out.swift", "up/outside.swift", "src/env.swift"] {
            assert!(!is_sent(&root, kept, &[]), "{kept}");
        }
        assert!(is_sent(&root, "src/again.swift", &[]));
        assert!(!is_sent(&root.join("src"), "up/outside.swift", &[]));
    }

    #[test]
    fn a_path_that_is_not_sent_has_a_reason() {
        let (_folder, root) = repository();
        let folder = folder_with(&root, &["Generated"]);
        fs::create_dir_all(root.join("Generated")).unwrap();
        fs::write(root.join("Generated/a.c"), "int a;").unwrap();
        let mut left_out = LeftOutSources::default();
        for (named, reason) in [
            ("./src/Cart.swift", None),
            ("App/../src/Cart.swift", Some(LeftOutReason::Missing)),
            ("/ci/build/src/Cart.swift", Some(LeftOutReason::Missing)),
            ("../outside.swift", Some(LeftOutReason::Outside)),
            ("/etc/passwd", Some(LeftOutReason::Outside)),
            ("Generated/a.c", Some(LeftOutReason::Excluded)),
            ("src/.env", Some(LeftOutReason::Missing)),
            (".env", Some(LeftOutReason::Excluded)),
            ("src/latin.c", Some(LeftOutReason::NoText)),
            ("src", Some(LeftOutReason::NoText)),
        ] {
            let found = folder.find_source(named).err();
            assert_eq!(found, reason, "{named}");
            found.into_iter().for_each(|reason| left_out.add_path(named, reason));
        }
        let text = left_out.describe_absence(&root);
        let expected = "the symbols name 9 source files: 3 are not on this machine, such as App/../src/Cart.swift; 2 are outside";
        assert!(text.starts_with(expected) && text.contains(&root.display().to_string()), "{text}");
        let none = LeftOutSources::default().describe_absence(&root);
        assert_eq!(none, "the symbols name no source files");
    }
}
