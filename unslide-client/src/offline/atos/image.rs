//! The file of `-o`: the slice of one architecture, with its symbols.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unslide_cli::symbols::BuildArguments;
use unslide_cli::{map_path, note};
use unslide_model::DebugId;
use unslide_report::text::escape_for_terminal;
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::object::list_objects;
use unslide_symbolicate::symcache::SymCache;

/// The DWARF files of a dSYM.
const DWARF_FOLDER: &str = "Contents/Resources/DWARF";

/// A file that gives no symbols, in the words of Apple's tool.
#[derive(Debug, thiserror::Error)]
#[error("atos cannot load symbols for the file {path} for architecture {architecture}.")]
pub struct CannotLoad {
    path: PathBuf,
    architecture: String,
    source: io::Error,
}

/// The symbols of one image.
pub struct AtosImage {
    /// The name of the file, as a terminal may show it.
    pub name: String,
    pub symcache: Arc<SymCache>,
}

/// A slice of a file.
struct FoundSlice {
    file: PathBuf,
    range: Range<usize>,
    debug_id: Option<DebugId>,
}

impl AtosImage {
    /// Opens a file, or the bundle that has it, and builds the symbols of one architecture. A dSYM beside a program gives the
    /// symbols if it has the same UUID.
    ///
    /// # Errors
    /// The file cannot be read, or has no such architecture or no symbols.
    pub fn open(
        path: &Path,
        architecture: Option<&str>,
        build: BuildArguments,
    ) -> Result<AtosImage, CannotLoad> {
        let failed = |source: io::Error| CannotLoad {
            path: path.to_owned(),
            architecture: architecture.unwrap_or(host_architecture()).to_owned(),
            source,
        };
        let file = find_file(path).map_err(failed)?;
        let slice = find_slice(&file, architecture).map_err(failed)?;
        let dsym = find_dsym_beside(&file, &slice, architecture);
        let used = dsym.as_ref().unwrap_or(&slice);
        let built = build.build_symbols(&used.file, used.range.clone(), None);
        let built = built.map_err(|error| failed(io::Error::other(error)))?;
        built.warnings.iter().for_each(|warning| note!("{}: {warning}", used.file.display()));
        let ImageSymbols::Found { symcache, .. } = built.symbols else {
            return Err(failed(io::Error::other("it has no symbols")));
        };
        Ok(AtosImage { name: escape_for_terminal(&file_name(&file)).into_owned(), symcache })
    }
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The architecture that Apple's tool takes without `-arch`.
fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the Mach-O file of a path: the file itself, the DWARF file of a dSYM, or the program of a bundle.
fn find_file(path: &Path) -> io::Result<PathBuf> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(path.to_owned());
    }
    let dwarf = path.join(DWARF_FOLDER);
    if dwarf.is_dir() {
        return only_file(&dwarf, path.file_stem().map(Path::new));
    }
    let name = path.file_stem().unwrap_or_default();
    let programs = [path.join(name), path.join("Contents/MacOS").join(name)];
    let missing =
        || io::Error::new(io::ErrorKind::NotFound, "it is a folder without a DWARF file or a program");
    programs.into_iter().find(|program| program.is_file()).ok_or_else(missing)
}

/// Returns the only file of a folder, or the one with the name of its bundle if there are several.
fn only_file(folder: &Path, bundle: Option<&Path>) -> io::Result<PathBuf> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.is_file() && !file_name(file).starts_with('.'));
    files.sort();
    if files.len() > 1 {
        // `Shop.app.dSYM` has the bundle `Shop.app`, and the file `Shop`.
        let names = [bundle.and_then(Path::file_name), bundle.and_then(Path::file_stem)];
        if let Some(at) = files.iter().position(|file| names.contains(&file.file_name())) {
            return Ok(files.swap_remove(at));
        }
        let names: Vec<String> = files.iter().map(|file| file_name(file)).collect();
        let problem = format!("it has several DWARF files, {}; give one of them", names.join(", "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let missing = || io::Error::new(io::ErrorKind::NotFound, "it has no DWARF file");
    files.pop().ok_or_else(missing)
}

/// Finds the slice of an architecture. Without one it is that of this machine, else the only one.
fn find_slice(file: &Path, architecture: Option<&str>) -> io::Result<FoundSlice> {
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let bytes = map_path(file)?;
    let objects = list_objects(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut slices = Vec::new();
    let mut broken = None;
    for object in objects {
        match object.object {
            Ok(facts) => {
                let slice =
                    FoundSlice { file: file.to_owned(), range: object.range, debug_id: facts.debug_id };
                slices.push((facts.cpu.name(), slice));
            }
            Err(error) => broken = Some(error),
        }
    }
    let wanted: &[&str] = match architecture {
        // Code for arm64 runs in a process of arm64e, and not the other way around.
        Some("arm64e") => &["arm64e", "arm64"],
        Some(name) => &[name],
        None => &[host_architecture()],
    };
    let found = wanted.iter().find_map(|name| slices.iter().position(|(cpu, _)| cpu == name));
    let only = (architecture.is_none() && slices.len() == 1).then_some(0);
    match found.or(only) {
        Some(at) => Ok(slices.swap_remove(at).1),
        None => {
            let names: Vec<&str> = slices.iter().map(|(cpu, _)| *cpu).collect();
            let broken = broken.map(|error| error.to_string());
            Err(invalid(
                broken.unwrap_or_else(|| format!("it is for {}; choose with -arch", names.join(", "))),
            ))
        }
    }
}

/// Finds the slice with the same UUID in the dSYM beside a program, or beside the bundle that has the program.
fn find_dsym_beside(file: &Path, slice: &FoundSlice, architecture: Option<&str>) -> Option<FoundSlice> {
    let bundle = file.parent().filter(|parent| parent.extension().is_some());
    let mut beside = [Some(file), bundle].into_iter().flatten();
    beside.find_map(|path| {
        let mut dsym = path.as_os_str().to_owned();
        dsym.push(".dSYM");
        let dwarf = Path::new(&dsym).join(DWARF_FOLDER).join(file.file_name()?);
        let found = find_slice(&dwarf, architecture).ok()?;
        (found.debug_id.is_some() && found.debug_id == slice.debug_id).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_testkit::fixtures;

    #[test]
    fn a_slice_is_found_by_its_architecture() {
        let kit = fixtures::dsym("kit");
        let range = |architecture| find_slice(&kit, Some(architecture)).map(|slice| slice.range);
        assert_ne!(range("arm64").unwrap(), range("x86_64").unwrap());
        assert_eq!(range("arm64e").unwrap(), range("arm64").unwrap());
        let error = range("i386").unwrap_err().to_string();
        assert!(error.starts_with("it is for ") && error.contains("arm64"), "{error}");
        let arm64e = fixtures::dsym("app-arm64e");
        assert!(find_slice(&arm64e, Some("arm64")).is_err());
        assert!(find_slice(&arm64e, None).is_ok());
    }

    #[test]
    fn a_bundle_gives_its_dwarf_file_and_a_program_its_dsym() {
        let folder = fixtures::folder();
        assert_eq!(find_file(&folder.join("app.dSYM")).unwrap(), fixtures::dsym("app"));
        let dsym_of = |name: &str| {
            let file = fixtures::binary(name);
            let slice = find_slice(&file, None).unwrap();
            find_dsym_beside(&file, &slice, None).map(|dsym| dsym.file)
        };
        assert_eq!(dsym_of("app"), Some(fixtures::dsym("app")));
        assert_eq!(dsym_of("app-symtab"), None);
        let empty = tempfile::tempdir().unwrap();
        assert!(find_file(empty.path()).unwrap_err().to_string().contains("without a DWARF file"));
    }
}
