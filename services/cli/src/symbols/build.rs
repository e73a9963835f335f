//! Symcaches built in child processes, as builders build them: a file that needs too much memory ends its child alone.

use crate::quantity;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime;
use unslide_model::DebugId;
use unslide_sandbox::child::ChildProgram;
use unslide_sandbox::{BuildError, Rejection, SymcacheSource, build_symcache};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::{SymCache, SymCacheError};

/// The subcommand of a child process that builds a symcache.
pub const BUILD_SYMCACHE: &str = "build-symcache";

/// The arguments of the child.
#[cfg(not(test))]
const CHILD: &[&str] = &[BUILD_SYMCACHE];
#[cfg(test)]
const CHILD: &[&str] = &[
    "symbols::build::tests::a_child_builds_what_its_folder_says",
    "--exact",
    "--nocapture",
    "--test-threads=1",
];

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BuildArguments {
    /// Memory that the build of one dSYM or source map may take, such as 8GiB; mapped files are not counted
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = quantity::bytes)]
    build_memory: u64,
}

impl Default for BuildArguments {
    fn default() -> BuildArguments {
        BuildArguments { build_memory: 4 << 30 }
    }
}

/// The symbols of a file.
pub struct LocalSymbols {
    pub symbols: ImageSymbols,
    /// The parts of the file that could not be read.
    pub warnings: Vec<String>,
}

/// Why a file was not built.
#[derive(Debug, thiserror::Error)]
pub enum LocalBuildError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("its symcache is damaged")]
    Symcache(#[from] SymCacheError),
}

impl LocalBuildError {
    /// Returns the outcome for an image that needed its symbols from the file.
    pub fn to_symbols(&self) -> ImageSymbols {
        match self {
            LocalBuildError::Io(_) | LocalBuildError::Build(BuildError::Failed(_)) => {
                ImageSymbols::FetchingFailed
            }
            LocalBuildError::Build(BuildError::Rejected(Rejection::Malformed, _))
            | LocalBuildError::Symcache(_) => ImageSymbols::Malformed,
            LocalBuildError::Build(BuildError::Rejected(..)) => ImageSymbols::Unsupported,
        }
    }
}

impl BuildArguments {
    /// Creates the arguments of a command with another flag for the memory, in bytes.
    pub fn with_memory(build_memory: u64) -> BuildArguments {
        BuildArguments { build_memory }
    }

    /// Builds the symbols of a slice of a file, or of the source map of a bundle with a debug id of its own.
    ///
    /// # Errors
    /// Returns an error if the file has none, or if no child can work.
    pub fn build_symbols(
        &self,
        file: &Path,
        range: Range<usize>,
        bundle: Option<DebugId>,
    ) -> Result<LocalSymbols, LocalBuildError> {
        let range = range.start as u64..range.end as u64;
        let source = SymcacheSource { file, range, bundle };
        let program = ChildProgram::from_current_exe(CHILD)?.in_this_group();
        let setting = "--build-memory raises it";
        let building = build_symcache(&program, &source, self.build_memory, setting);
        let built = runtime::Builder::new_current_thread().enable_all().build()?.block_on(building)?;
        let symbols = ImageSymbols::from_symcache(Arc::new(SymCache::parse(built.bytes)?));
        Ok(LocalSymbols { symbols, warnings: built.warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use unslide_testkit::{fixtures, macho};

    #[test]
    fn a_child_builds_what_its_folder_says() {
        if Path::new("request.json").exists() {
            unslide_sandbox::serve_request(&[], &[]).unwrap();
        }
    }

    #[test]
    fn a_build_that_reaches_its_memory_ends_alone_and_names_the_option() {
        let mut dsym = tempfile::NamedTempFile::new().unwrap();
        let bytes = macho::many_functions();
        dsym.write_all(&bytes).unwrap();
        let build = |build: BuildArguments| {
            build.build_symbols(dsym.path(), 0..bytes.len(), None).map(|built| built.symbols)
        };
        let error = build(BuildArguments { build_memory: 64 << 20 }).unwrap_err();
        let text = error.to_string();
        assert_eq!(text, "it needs more than 67108864 bytes of memory (--build-memory raises it)");
        assert!(matches!(error.to_symbols(), ImageSymbols::Unsupported));
        assert!(matches!(build(BuildArguments::default()), Ok(ImageSymbols::Found { .. })));
    }

    /// File names of macOS are UTF-8.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_need_not_be_utf_8() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        use unslide_symbolicate::object::list_objects;

        let folder = tempfile::tempdir().unwrap();
        let dsym = folder.path().join(OsStr::from_bytes(b"app-\xFF"));
        let bytes = std::fs::read(fixtures::dsym("app")).unwrap();
        let range = list_objects(&bytes).unwrap().remove(0).range;
        std::fs::write(&dsym, &bytes).unwrap();
        let symbols = BuildArguments::default().build_symbols(&dsym, range, None).unwrap();
        assert!(matches!(symbols.symbols, ImageSymbols::Found { .. }));
    }

    #[test]
    fn what_is_damaged_and_what_is_gone_are_told_apart() {
        let dsym = fixtures::dsym("app");
        let build = |file: &Path| {
            BuildArguments::default().build_symbols(file, 0..100, None).err().unwrap().to_symbols()
        };
        assert!(matches!(build(&dsym), ImageSymbols::Malformed));
        assert!(matches!(build(Path::new("no/such/file")), ImageSymbols::FetchingFailed));
    }
}
