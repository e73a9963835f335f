//! Symbols from files: found by debug id when the command begins, built when a report first asks.

use crate::input::{UnpackedArchive, unpack_archive};
use crate::mapped::map_path;
use crate::symbols::build::{BuildArguments, LocalBuildError};
use crate::symbols::bundles::Bundles;
use crate::symbols::found_files::{FoundFiles, starts_as_object};
use crate::{BoxError, check_paths, describe_file, is_archive, note};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use unslide_archive::{ArchiveError, SkipReason};
use unslide_model::{DebugId, Quality};
use unslide_symbolicate::object::{self, ObjectError, ObjectKind};
use unslide_symbolicate::{Analysis, DerivedObject, ImageDerivative, ImageSymbols, Plan, SymbolNeed};

/// Files of a folder that are named if they cannot be read.
const MOST_UNREADABLE: usize = 20;
/// Files that are named because no report has used them.
const MOST_UNUSED: usize = 5;

/// A path of `--symbols` of which nothing can come.
#[derive(Debug, thiserror::Error)]
#[error("cannot read symbols from {path}")]
pub struct Unusable {
    path: PathBuf,
    #[source]
    cause: Cause,
}

/// Why a file gives no symbols.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It is of another kind. The text says of which, and which file to give instead.
    #[error("{0}")]
    WrongFile(String),
}

/// Every object under the given paths.
#[derive(Default)]
pub struct Library {
    objects: HashMap<DebugId, Entry>,
    build: BuildArguments,
    /// Source maps by the names of their bundles.
    bundles: Bundles,
    /// The unpacked archives, which are deleted with this.
    archives: Vec<UnpackedArchive>,
    /// Files and folders that were given and cannot be read: they may have the symbols that are missing.
    unreadable: usize,
}

/// The files for a debug id, and the symbols that were built from them.
#[derive(Default)]
struct Entry {
    candidates: Vec<Candidate>,
    built: OnceLock<ImageSymbols>,
    /// The derived objects by their names; without bytes if the files have nothing for one.
    derived: Mutex<HashMap<&'static str, Option<Arc<[u8]>>>>,
}

struct Candidate {
    path: PathBuf,
    /// The name of the file, which is that of its image.
    name: String,
    /// The path for people: that in the archive if it comes from one.
    shown: String,
    range: Range<usize>,
    quality: Quality,
}

impl Library {
    /// Does the same as [`Library::search_paths`], with the notes on standard error.
    pub fn open(paths: &[PathBuf], build: BuildArguments) -> Result<Library, BoxError> {
        check_paths(paths.iter().map(PathBuf::as_path))?;
        let (library, notes) = Library::search_paths(paths)?;
        notes.iter().for_each(|broken| note!("{broken}"));
        Ok(Library { build, ..library })
    }

    /// Creates a library of symbols that are built already.
    pub fn with_built(symbols: impl IntoIterator<Item = (DebugId, ImageSymbols)>) -> Library {
        let entry = |symbols| Entry { built: OnceLock::from(symbols), ..Entry::default() };
        let objects = symbols.into_iter().map(|(id, symbols)| (id, entry(symbols))).collect();
        Library { objects, ..Library::default() }
    }

    /// Looks through the paths, folders to any depth. Returns notes about broken symbol files in folders and
    /// archives.
    ///
    /// # Errors
    /// Returns an error if one of the paths itself does not exist, or is a file without symbols.
    pub fn search_paths(paths: &[PathBuf]) -> Result<(Library, Vec<String>), Unusable> {
        let mut library = Library::default();
        let mut notes = Vec::new();
        for path in paths {
            let unusable = |cause: Cause| Unusable { path: path.clone(), cause };
            if fs::metadata(path).map_err(|error| unusable(error.into()))?.is_dir() {
                fs::read_dir(path).map_err(|error| unusable(error.into()))?;
                library.add_folder(path, &mut notes);
            } else if starts_as_object(path).map_err(|error| unusable(error.into()))? {
                library.add_file(path, &path.display().to_string()).map_err(unusable)?;
            } else if is_archive(path).map_err(|error| unusable(error.into()))? {
                library.add_archive(path, &mut notes).map_err(unusable)?;
            } else {
                let description = describe_file(path).map_err(|error| unusable(error.into()))?;
                return Err(unusable(Cause::WrongFile(description)));
            }
        }
        for entry in library.objects.values_mut() {
            entry.candidates.sort_by(|a, b| b.quality.cmp(&a.quality).then_with(|| a.path.cmp(&b.path)));
        }
        Ok((library, notes))
    }

    /// Adds what lies in a folder, to any depth. Files that cannot be read are noted: they may contain
    /// symbols.
    fn add_folder(&mut self, folder: &Path, notes: &mut Vec<String>) {
        let found = FoundFiles::find_under(folder);
        self.unreadable += found.unreadable.len();
        let left_out = found.unreadable.len().saturating_sub(MOST_UNREADABLE);
        for (path, error) in found.unreadable.iter().take(MOST_UNREADABLE) {
            notes.push(format!("{}: {error}", path.display()));
        }
        if left_out > 0 {
            notes.push(format!("{}: {left_out} more files cannot be read", folder.display()));
        }
        if found.objects.is_empty() && found.unreadable.is_empty() {
            notes.push(format!("{}: it has neither a Mach-O file nor a source map in it", folder.display()));
        }
        for file in found.objects {
            match self.add_file(&file, &file.display().to_string()) {
                // Java's classes begin like fat Mach-O files.
                Ok(()) | Err(Cause::Object(ObjectError::NotAnObject)) => {}
                Err(cause) => notes.push(format!("{}: {cause}", file.display())),
            }
        }
    }

    /// Adds what an archive holds, as an upload of it would.
    fn add_archive(&mut self, path: &Path, notes: &mut Vec<String>) -> Result<(), Cause> {
        let archive = unpack_archive(path)?;
        let named = |inside: &str| format!("{}/{inside}", path.display());
        for skipped in
            archive.skipped.iter().filter(|skipped| !SkipReason::HARMLESS.contains(&skipped.reason))
        {
            notes.push(format!("{}: {}", named(&skipped.path), skipped.reason));
        }
        if archive.members.is_empty() {
            notes.push(format!("{}: it has neither a Mach-O file nor a source map in it", path.display()));
        }
        for member in &archive.members {
            let shown = named(&member.path);
            match self.add_file(&member.file, &shown) {
                Ok(()) | Err(Cause::Object(ObjectError::NotAnObject)) => {}
                Err(cause) => notes.push(format!("{shown}: {cause}")),
            }
        }
        self.archives.push(archive);
        Ok(())
    }

    /// Adds a file's objects under their debug ids, and a source map without one under the name of its bundle.
    fn add_file(&mut self, path: &Path, shown: &str) -> Result<(), Cause> {
        let bytes = map_path(path)?;
        let mut broken = None;
        for slice in object::list_objects(&bytes)? {
            match slice.object {
                Ok(facts) => {
                    let Some(debug_id) = facts.debug_id else {
                        if facts.kind == ObjectKind::SourceMap {
                            self.bundles.add_map(path, shown);
                        }
                        continue;
                    };
                    let name = shown.rsplit('/').next().unwrap_or_default();
                    let candidate = Candidate {
                        path: path.to_path_buf(),
                        name: name.to_owned(),
                        shown: shown.to_owned(),
                        range: slice.range,
                        quality: facts.quality(),
                    };
                    self.objects.entry(debug_id).or_default().candidates.push(candidate);
                }
                Err(error) => broken = Some(error),
            }
        }
        broken.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns the symbols that a report needs: by debug id, and a bundle's by its name if there is no other
    /// way.
    pub fn for_report(&self, needs: &[SymbolNeed]) -> ReportSymbols<'_> {
        ReportSymbols { library: self, bundles: self.bundles.find_maps(needs, self.build) }
    }

    /// Returns the symbols for a debug id, and builds them at the first call. Other debug ids are built at
    /// the same time; callers of the same one wait.
    pub fn find_symbols(&self, debug_id: &DebugId) -> Option<&ImageSymbols> {
        let entry = self.objects.get(debug_id)?;
        Some(entry.built.get_or_init(|| self.build_best(&entry.candidates)))
    }

    /// Returns a derived object of a debug id, and derives it at the first call.
    pub fn find_derived(&self, debug_id: &DebugId, object: &DerivedObject) -> Option<Arc<[u8]>> {
        let entry = self.objects.get(debug_id)?;
        let mut derived = entry.derived.lock().unwrap_or_else(PoisonError::into_inner);
        derived.entry(object.name).or_insert_with(|| derive_best(&entry.candidates, object)).clone()
    }

    /// Returns the number of given files and folders that cannot be read.
    pub fn count_unreadable(&self) -> usize {
        self.unreadable
    }

    /// Returns the files with debug ids that no report has named yet, each with its debug id: those of an
    /// image of this name, or all if there are none and there are few.
    pub fn list_unused(&self, image: &str) -> Vec<(DebugId, &str)> {
        let unused = self.objects.iter().filter(|(_, entry)| entry.built.get().is_none());
        let files = unused.flat_map(|(id, entry)| entry.candidates.iter().map(|candidate| (*id, candidate)));
        let mut files: Vec<(DebugId, &Candidate)> = files.collect();
        if files.iter().any(|(_, candidate)| candidate.name == image) {
            files.retain(|(_, candidate)| candidate.name == image);
        } else if files.len() > MOST_UNUSED {
            files.clear();
        }
        files.sort_by(|a, b| a.1.path.cmp(&b.1.path));
        files.truncate(MOST_UNUSED);
        files.into_iter().map(|(id, candidate)| (id, candidate.shown.as_str())).collect()
    }

    /// Returns the symbols of the best candidate that can be built.
    fn build_best(&self, candidates: &[Candidate]) -> ImageSymbols {
        let mut failed: Option<LocalBuildError> = None;
        for candidate in candidates {
            match self.build.build_symbols(&candidate.path, candidate.range.clone(), None) {
                Ok(built) => {
                    built.warnings.iter().for_each(|warning| note!("{}: {warning}", candidate.shown));
                    return built.symbols;
                }
                Err(error) => {
                    note!("{}: {error}", candidate.shown);
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(ImageSymbols::Missing, |error| error.to_symbols())
    }
}

/// Returns the derived object of the best candidate that has one. Names candidates that cannot be read.
fn derive_best(candidates: &[Candidate], object: &DerivedObject) -> Option<Arc<[u8]>> {
    candidates
        .iter()
        .find_map(|candidate| {
            let derived = map_path(&candidate.path).map_err(|error| error.to_string()).and_then(|bytes| {
                let slice = bytes.get(candidate.range.clone()).unwrap_or_default();
                (object.derive)(slice).map_err(|error| error.to_string())
            });
            derived.unwrap_or_else(|error| {
                note!("{}: {} cannot be built: {error}", candidate.shown, object.name);
                None
            })
        })
        .map(Arc::from)
}

/// The derived objects that the analyses of one report may read.
#[derive(Default)]
pub struct ReportDerivatives(Vec<(DebugId, &'static str, Arc<[u8]>)>);

impl ReportDerivatives {
    /// Derives what `analyses` read of the image with the crash.
    pub fn find(library: &Library, plan: &Plan<'_, '_>, analyses: &[Analysis]) -> ReportDerivatives {
        let wanted = analyses.iter().flat_map(|analysis| analysis.derived);
        let id = plan.find_crashed_image();
        let found = wanted.filter_map(|object| {
            let id = id?;
            Some((id, object.name, library.find_derived(&id, object)?))
        });
        ReportDerivatives(found.collect())
    }

    /// Returns the objects for the context of a symbolication.
    pub fn list(&self) -> Vec<ImageDerivative<'_>> {
        self.0
            .iter()
            .map(|(debug_id, name, bytes)| ImageDerivative { debug_id: *debug_id, name, bytes })
            .collect()
    }
}

/// The symbols for one report.
pub struct ReportSymbols<'l> {
    library: &'l Library,
    bundles: HashMap<DebugId, Arc<ImageSymbols>>,
}

impl ReportSymbols<'_> {
    /// Returns the symbols for a debug id.
    pub fn get(&self, debug_id: &DebugId) -> Option<&ImageSymbols> {
        self.library.find_symbols(debug_id).or_else(|| self.bundles.get(debug_id).map(AsRef::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use unslide_model::CpuType;
    use unslide_testkit::fixtures;

    fn copied(name: &str, binary: &Path, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::copy(binary, folder.join(name)).unwrap();
    }

    fn id(path: &Path) -> DebugId {
        let bytes = fs::read(path).unwrap();
        let slice = object::list_objects(&bytes).unwrap().remove(0);
        slice.object.unwrap().debug_id.unwrap()
    }

    fn quality(library: &Library, id: DebugId) -> Option<Quality> {
        match library.find_symbols(&id)? {
            ImageSymbols::Found { symcache, .. } => Some(symcache.quality()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn folders_are_searched_to_any_depth_and_links_in_circles_end() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c/d/e/App.dSYM/Contents/Resources/DWARF");
        let dsym = fixtures::dsym("app");
        copied("app", &dsym, &deep);
        symlink(root.path(), deep.join("up")).unwrap();
        symlink(deep.join("self"), deep.join("self")).unwrap();
        fs::write(deep.join("short"), [0xCF, 0xFA]).unwrap();
        fs::write(deep.join("Main.class"), b"\xCA\xFE\xBA\xBE\0\0\0\x41 java").unwrap();
        let (library, notes) = Library::search_paths(&[root.path().to_path_buf()]).unwrap();
        assert_eq!(quality(&library, id(&dsym)), Some(Quality::DwarfSymtab));
        assert!(library.find_symbols(&DebugId([7; 16])).is_none());
        assert!(notes.len() <= 1, "{notes:?}");
        // The link in a circle shows the file a second time under no other name.
        assert_eq!(library.objects.values().map(|entry| entry.candidates.len()).sum::<usize>(), 1);
    }

    #[test]
    fn source_maps_of_archives_are_found_like_those_of_folders() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("build");
        fs::create_dir(&folder).unwrap();
        let map = r#"{"version":3,"sources":["a.ts"],"mappings":"AAAA""#;
        fs::write(folder.join("main.jsbundle.map"), format!("{map}}}")).unwrap();
        let (own, named) = ("6f9619ff-8b86-d011-b42d-00c04fc964ff".parse().unwrap(), DebugId([7; 16]));
        fs::write(folder.join("own.map"), format!("{map},\"debugId\":\"{own}\"}}")).unwrap();
        let archive = root.path().join("maps.tar.gz");
        fixtures::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&folder).arg("."));
        let name = "main.jsbundle".to_owned();
        let need = SymbolNeed { debug_id: named, cpu: Some(CpuType::JAVASCRIPT), system: false, name };
        for path in [folder, archive] {
            let (library, notes) = Library::search_paths(&[path]).unwrap();
            assert!(notes.is_empty(), "{notes:?}");
            let symbols = library.for_report(std::slice::from_ref(&need));
            for id in [own, named] {
                assert!(matches!(symbols.get(&id), Some(ImageSymbols::Found { .. })), "{id}");
            }
        }
    }

    #[test]
    fn the_better_of_two_objects_answers_whatever_their_order() {
        let (dsym, symtab) = (fixtures::dsym("app"), fixtures::binary("app-symtab"));
        for paths in [[dsym.clone(), symtab.clone()], [symtab, dsym]] {
            let (library, _) = Library::search_paths(&paths).unwrap();
            assert_eq!(quality(&library, id(&paths[0])), Some(Quality::DwarfSymtab));
        }
    }

    #[test]
    fn where_the_better_object_is_broken_the_other_answers() {
        let root = tempfile::tempdir().unwrap();
        let (dsym, symtab) = (fixtures::dsym("app"), fixtures::binary("app-symtab"));
        let debug_id = id(&dsym);
        let candidate = |path: PathBuf, range: Range<usize>, quality| {
            let shown = path.display().to_string();
            Candidate { path, name: "app".to_owned(), shown, range, quality }
        };
        let length = |path: &Path| fs::metadata(path).unwrap().len() as usize;
        let whole = candidate(symtab.clone(), 0..length(&symtab), Quality::Symtab);
        let gone = candidate(root.path().join("gone"), 0..1, Quality::DwarfSymtab);
        let cut = candidate(dsym, 0..100, Quality::Dwarf);
        let entry = Entry { candidates: vec![gone, cut, whole], ..Entry::default() };
        let library = Library { objects: HashMap::from([(debug_id, entry)]), ..Library::default() };
        assert_eq!(quality(&library, debug_id), Some(Quality::Symtab));
    }

    #[test]
    fn a_path_that_gives_nothing_is_an_error_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().join("notes.txt");
        fs::write(&text, "no symbols here").unwrap();
        for path in [text, root.path().join("absent")] {
            let error = Library::search_paths(std::slice::from_ref(&path)).err().unwrap();
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
        let empty = root.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let (_, notes) = Library::search_paths(std::slice::from_ref(&empty)).unwrap();
        let note = format!("{}: it has neither a Mach-O file nor a source map in it", empty.display());
        assert_eq!(notes, [note], "an empty folder is no mistake, and is named");
        let archive = root.path().join("empty.tar.gz");
        fs::write(empty.join("Shop.so"), b"\x7fELF").unwrap();
        fixtures::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&empty).arg("."));
        let (_, notes) = Library::search_paths(std::slice::from_ref(&archive)).unwrap();
        assert!(notes.len() == 1 && notes[0].contains("neither a Mach-O file"), "{notes:?}");
    }

    #[test]
    fn a_wrong_file_is_named_with_what_to_give_instead() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        for (bytes, name, instead) in [
            (&b""[..], "the file is empty", ""),
            (br#"{"version":"3","sources":[],"mappings":""}"#, "its version as text", "version 3"),
            (b"\xc6\x1f\xbc\x03\xc1\x03\x19\x1f", "Hermes bytecode", "source map"),
            (b"var __BUNDLE_START_TIME__=0;", "JavaScript", "source map"),
            (b"\xfd7zXZ\0", "xz data", "zip or tar.gz"),
            (b"\x7fELF", "an ELF file", "dSYM"),
            (b"!<arch>\n", "a static library", "linked into"),
        ] {
            fs::write(&file, bytes).unwrap();
            let error = Library::search_paths(std::slice::from_ref(&file)).err().unwrap();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(name) && cause.contains(instead), "{cause}");
        }
    }

    /// Reading the memory of a process at 0 fails for everybody, also for root, whom no permission stops.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_read_in_a_folder_is_not_absent() {
        let root = tempfile::tempdir().unwrap();
        let dwarf = root.path().join("App.dSYM/Contents/Resources/DWARF");
        fs::create_dir_all(&dwarf).unwrap();
        symlink("/proc/self/mem", dwarf.join("App")).unwrap();
        symlink("nowhere", dwarf.join("Dangling")).unwrap();
        symlink("Loop", dwarf.join("Loop")).unwrap();
        let (_, notes) = Library::search_paths(&[root.path().to_path_buf()]).unwrap();
        let [app, looped] = &notes[..] else { panic!("{notes:?}") };
        assert!(app.starts_with(&format!("{}: ", dwarf.join("App").display())), "{app}");
        assert!(looped.starts_with(&format!("{}: ", dwarf.join("Loop").display())), "{looped}");
    }

    #[test]
    fn a_file_that_no_report_names_is_unused_and_found_by_its_name() {
        let root = tempfile::tempdir().unwrap();
        for name in ["app", "app-next", "kit-arm64"] {
            copied(name.split('-').next().unwrap(), &fixtures::dsym(name), &root.path().join(name));
        }
        let (library, _) = Library::search_paths(&[root.path().to_path_buf()]).unwrap();
        let (app, next) = (id(&fixtures::dsym("app")), id(&fixtures::dsym("app-next")));
        let unused =
            |image: &str| library.list_unused(image).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(unused("app"), [app, next]);
        assert_eq!(unused("Renamed").len(), 3);
        assert!(library.find_symbols(&app).is_some());
        assert_eq!(library.list_unused("app"), [(next, root.path().join("app-next/app").to_str().unwrap())]);
    }
}
