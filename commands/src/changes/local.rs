//! Compares builds that lie on this machine.

use super::answer::ImageDiff;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unslide_changes_compare::{BuildComparison, BuildOutcome, describe_counts, describe_outcome};
use unslide_cli::symbols::{BuildArguments, find_files};
use unslide_cli::{CommandError, map_path, note};
use unslide_model::{DebugId, Quality};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::object::list_objects;
use unslide_symbolicate::symcache::SymCache;

/// Functions that are listed of an image.
const FUNCTIONS_LIMIT: usize = 1_000;

/// A slice of a file with symbols.
struct LocalBuild {
    path: PathBuf,
    range: Range<usize>,
    debug_id: DebugId,
    quality: Quality,
}

/// Files by the name and the CPU type of their image.
type LocalBuilds = BTreeMap<(String, &'static str), LocalBuild>;

/// Compares the images of two paths that have the same name and CPU type; if each path has one alone, its name does not matter.
///
/// # Errors
/// Returns an error if a path has no symbols, no image is in both, or symbols cannot be read.
pub fn diff_paths(
    [a, b]: [PathBuf; 2],
    build: BuildArguments,
    function: Option<&str>,
) -> Result<Vec<ImageDiff>, CommandError> {
    let (before, after) = (list_builds(&a)?, list_builds(&b)?);
    let is_single = before.len() == 1 && after.len() == 1;
    let mut images = Vec::new();
    for ((name, cpu), new) in &after {
        let old = if is_single { before.values().next() } else { before.get(&(name.clone(), cpu)) };
        let Some(old) = old else { continue };
        if old.debug_id == new.debug_id {
            note!("{name}: both builds have the debug id {}", new.debug_id);
            continue;
        }
        images.push(diff_builds(name, [old, new], build, function)?);
    }
    if images.is_empty() {
        let (a, b) = (a.display(), b.display());
        return Err(CommandError::missing(format!("no image is in both {a} and {b} with another debug id")));
    }
    Ok(images)
}

fn list_builds(path: &Path) -> Result<LocalBuilds, CommandError> {
    let shown = path.display().to_string();
    let (files, failed) = find_files(&[path.to_path_buf()], true);
    let mut builds = LocalBuilds::new();
    for file in files {
        let bytes = map_path(&file.path).map_err(|error| CommandError::cannot_read(&file.path, error))?;
        for object in list_objects(&bytes).unwrap_or_default() {
            let Ok(facts) = object.object else { continue };
            let Some(debug_id) = facts.debug_id else { continue };
            let quality = facts.quality();
            let found = LocalBuild { path: file.path.clone(), range: object.range, debug_id, quality };
            let key = (file.name.clone(), facts.cpu.name());
            if builds.get(&key).is_none_or(|known| known.quality < quality) {
                builds.insert(key, found);
            }
        }
    }
    if builds.is_empty() {
        let reason =
            failed.into_iter().next().map_or_else(|| "it has no dSYM".to_owned(), |(_, reason)| reason);
        return Err(CommandError::missing(format!("cannot read symbols from {shown}: {reason}")));
    }
    Ok(builds)
}

fn diff_builds(
    name: &str,
    builds: [&LocalBuild; 2],
    build: BuildArguments,
    function: Option<&str>,
) -> Result<ImageDiff, CommandError> {
    let [before, after] = builds.map(|one| build_symbols(one, build));
    let (before, after) = (before?, after?);
    let comparison = BuildComparison::from_symcaches(&before, &after)
        .map_err(|error| CommandError::caused(format!("cannot compare {name}"), error))?;
    let (outcome, counts) = (comparison.outcome(), comparison.counts());
    let mut functions = match function {
        _ if outcome != BuildOutcome::Compared => Vec::new(),
        Some(name) => comparison.find_by_name(name),
        None => comparison.list_changes(FUNCTIONS_LIMIT + 1),
    };
    let is_truncated = functions.len() > FUNCTIONS_LIMIT;
    functions.truncate(FUNCTIONS_LIMIT);
    let text = match (describe_outcome(outcome), function) {
        (Some(reason), _) => reason.to_owned(),
        (None, Some(_)) if functions.is_empty() => "No function of this name is in the builds.".to_owned(),
        (None, _) => describe_counts(&counts),
    };
    let [a, b] = builds.map(|one| one.debug_id);
    let outcome = outcome.as_str().to_owned();
    Ok(ImageDiff { name: name.to_owned(), a, b, outcome, text, counts, functions, is_truncated })
}

fn build_symbols(build: &LocalBuild, arguments: BuildArguments) -> Result<Arc<SymCache>, CommandError> {
    let shown = build.path.display().to_string();
    let built = arguments
        .build_symbols(&build.path, build.range.clone(), None)
        .map_err(|error| CommandError::caused(format!("cannot read symbols from {shown}"), error))?;
    match built.symbols {
        ImageSymbols::Found { symcache, .. } => Ok(symcache),
        _ => Err(CommandError::missing(format!("{shown} has no symbols"))),
    }
}
