//! Source maps of a folder by the names of their bundles: a report on this machine rarely comes with the ids that an
//! upload would have given.

use crate::note;
use crate::symbols::build::{BuildArguments, LocalBuildError};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use unslide_model::{CpuType, DebugId};
use unslide_symbolicate::{ImageSymbols, SymbolNeed};

/// Built source maps that are kept: each build that a report names has its own.
const MOST_BUILT: usize = 32;

/// Source maps of one bundle that a message names.
const MAX_SHOWN_MAPS: usize = 8;

/// Source maps without a debug id by the file name of their bundle.
#[derive(Default)]
pub struct Bundles {
    /// Several if files have one name: then it is not known which is meant, and none is used.
    files: HashMap<String, Vec<BundleMap>>,
    /// Bundles with several maps that were reported.
    ambiguous: Mutex<HashSet<String>>,
    built: Mutex<HashMap<DebugId, Arc<ImageSymbols>>>,
}

/// The source map of a bundle.
struct BundleMap {
    path: PathBuf,
    /// The path for people: that in the archive if it comes from one.
    shown: String,
}

impl Bundles {
    /// Adds a source map. Its bundle has the name that is shown of it without `.map`.
    pub fn add_map(&mut self, path: &Path, shown: &str) {
        let name = shown.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let bundle = name.strip_suffix(".map").unwrap_or(name).to_owned();
        let maps = self.files.entry(bundle).or_default();
        if maps.iter().all(|known| known.path != path) {
            maps.push(BundleMap { path: path.to_path_buf(), shown: shown.to_owned() });
        }
    }

    /// Returns the source maps of the bundles that a report needs, by the ids that they have there.
    pub fn find_maps(
        &self,
        needs: &[SymbolNeed],
        build: BuildArguments,
    ) -> HashMap<DebugId, Arc<ImageSymbols>> {
        let bundles = needs.iter().filter(|need| need.cpu == Some(CpuType::JAVASCRIPT));
        let found = bundles.filter_map(|need| {
            let map = self.only_map(&need.name)?;
            let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
            if built.len() >= MOST_BUILT && !built.contains_key(&need.debug_id) {
                built.clear();
            }
            let symbols = built
                .entry(need.debug_id)
                .or_insert_with(|| Arc::new(map.build_symbols(need.debug_id, build)));
            Some((need.debug_id, Arc::clone(symbols)))
        });
        found.collect()
    }

    /// Returns the source map of a bundle. If several have its name, it prints that once, and how to choose
    /// one.
    fn only_map(&self, bundle: &str) -> Option<&BundleMap> {
        let maps = self.files.get(bundle)?;
        let [map] = maps.as_slice() else {
            if self.ambiguous.lock().unwrap_or_else(PoisonError::into_inner).insert(bundle.to_owned()) {
                note!("{}", describe_choice(bundle, maps));
            }
            return None;
        };
        Some(map)
    }
}

/// Names the source maps of one bundle, and says how to choose one.
fn describe_choice(bundle: &str, maps: &[BundleMap]) -> String {
    let mut shown: Vec<&str> = maps.iter().take(MAX_SHOWN_MAPS).map(|map| map.shown.as_str()).collect();
    shown.sort_unstable();
    let more = if maps.len() > MAX_SHOWN_MAPS { ", …" } else { "" };
    format!(
        "{} source maps have the name of the bundle {bundle:?}, and none of them is used: {}{more}. Give the one that is \
         meant, as --symbols FILE, or maps with a debug id",
        maps.len(),
        shown.join(", ")
    )
}

impl BundleMap {
    fn build_symbols(&self, debug_id: DebugId, build: BuildArguments) -> ImageSymbols {
        let length = fs::metadata(&self.path).map(|file| usize::try_from(file.len()).unwrap_or(usize::MAX));
        let built = length
            .map_err(LocalBuildError::from)
            .and_then(|length| build.build_symbols(&self.path, 0..length, Some(debug_id)));
        match built {
            Ok(built) => built.symbols,
            Err(error) => {
                note!("{}: {error}", self.shown);
                error.to_symbols()
            }
        }
    }
}
