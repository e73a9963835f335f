//! Bundles of source files that a feature makes for `unslide upload --include-sources`.

use crate::BoxError;
use std::path::{Path, PathBuf};
use unslide_model::DebugId;

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

/// Makes bundles of the source files that symbols name.
#[derive(Clone, Copy, Debug)]
pub struct SourceBundler {
    /// Writes a bundle into a folder for each architecture of a Mach-O file that names source files. Blocks.
    pub write_bundles: fn(&Path, &SourceSelection, &Path) -> Result<SourceBundles, BoxError>,
    /// The path in the API to which a bundle is sent.
    pub path: &'static str,
}
