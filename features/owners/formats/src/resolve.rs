//! The owner of a source file, by its path as symbols have it.

use crate::file::{DecidingLine, OwnersFile};
use crate::paths::{PathRewrite, normalize_path, rewrite_path};
use unslide_model::words;

/// The most owners of a file that count. GitLab's sections may name more.
pub const MAX_OWNERS: usize = 20;
/// The most lines of an answer.
const MAX_LINES: usize = 20;
/// The most bytes of the path of a source file: longer ones have no owner.
const MAX_SOURCE_BYTES: usize = 4_096;
/// Folders with the code of others. Only a line that names the folder decides for what is in it.
const DEPENDENCY_FOLDERS: [&str; 6] =
    ["Pods", "Carthage", "SourcePackages", "checkouts", "node_modules", ".build"];
/// Parts of paths of files that a build has written.
const GENERATED_FOLDERS: [&str; 2] = ["DerivedSources", "DerivedData"];

words! {
    /// The outcome of the look for the owner of a source file.
    pub enum OwnerOutcome {
        /// It has owners.
        Owned = "owned",
        /// A line matches that names no owner.
        Cleared = "cleared",
        /// No line matches.
        Unmatched = "unmatched",
        /// It is in a folder with the code of others, and the line that matches does not name the folder.
        Dependency = "dependency",
        /// The build or the compiler wrote it.
        Generated = "generated",
        /// No rewrite fits its path, so that its place in the repository is not known.
        Unmapped = "unmapped",
        /// The cause has no source file: symbols are missing, or the report says neither.
        NoSource = "no_source",
        /// There is no file of owners.
        NoFile = "no_file",
        /// The group has no stored report.
        NoReport = "no_report",
        /// The report of the group cannot be read.
        Unreadable = "unreadable",
    }
}

/// The owner of a source file, with what decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedOwner {
    /// The outcome of the look for the owner.
    pub outcome: OwnerOutcome,
    /// The owners, at most [`MAX_OWNERS`].
    pub owners: Vec<String>,
    /// The path in the repository, if it is known.
    pub repository_path: Option<String>,
    /// The rewrite that made it, if one did.
    pub rewrite: Option<PathRewrite>,
    /// The lines that decided: one, or one of each section.
    pub lines: Vec<DecidingLine>,
}

impl ResolvedOwner {
    /// Makes an answer without a line.
    #[must_use]
    pub fn without_line(outcome: OwnerOutcome) -> ResolvedOwner {
        ResolvedOwner { outcome, owners: Vec::new(), repository_path: None, rewrite: None, lines: Vec::new() }
    }
}

/// Returns the owner of a source file by its path in symbols.
#[must_use]
pub fn resolve_owner(file: &OwnersFile, rewrites: &[PathRewrite], path: &str) -> ResolvedOwner {
    let without = ResolvedOwner::without_line;
    if path.is_empty() {
        return without(OwnerOutcome::NoSource);
    }
    if path.len() > MAX_SOURCE_BYTES {
        return without(OwnerOutcome::Unmapped);
    }
    if path.starts_with('<') || path.contains("@__swiftmacro_") {
        return without(OwnerOutcome::Generated);
    }
    let normal = normalize_path(path);
    let is_generated = normal.parts.iter().any(|part| GENERATED_FOLDERS.contains(&part.as_str()));
    let is_dependency = normal.parts.iter().any(|part| DEPENDENCY_FOLDERS.contains(&part.as_str()));
    let Some((repository_path, rewrite)) = rewrite_path(&normal, rewrites) else {
        return without(match (is_dependency, is_generated) {
            (true, _) => OwnerOutcome::Dependency,
            (false, true) => OwnerOutcome::Generated,
            (false, false) => OwnerOutcome::Unmapped,
        });
    };
    let mut resolved = decide(file, &repository_path);
    resolved.rewrite = rewrite.cloned();
    resolved.repository_path = Some(repository_path);
    resolved
}

fn decide(file: &OwnersFile, path: &str) -> ResolvedOwner {
    let without = ResolvedOwner::without_line;
    let in_folder = |folders: &[&'static str]| -> Vec<&'static str> {
        folders.iter().copied().filter(|folder| path.split('/').any(|part| part == *folder)).collect()
    };
    if !in_folder(&GENERATED_FOLDERS).is_empty() && in_folder(&DEPENDENCY_FOLDERS).is_empty() {
        return without(OwnerOutcome::Generated);
    }
    let dependencies = in_folder(&DEPENDENCY_FOLDERS);
    let mut deciding = file.find_deciding(path);
    if deciding.is_empty() {
        return without(OwnerOutcome::Unmatched);
    }
    if !dependencies.is_empty() {
        deciding.retain(|(_, rule)| dependencies.iter().any(|folder| rule.pattern.has_segment(folder)));
        if deciding.is_empty() {
            return without(OwnerOutcome::Dependency);
        }
    }
    let mut resolved = without(OwnerOutcome::Cleared);
    for (section, rule) in deciding {
        let mut line = rule.to_deciding(section);
        line.owners.truncate(MAX_OWNERS);
        for owner in &line.owners {
            if resolved.owners.len() < MAX_OWNERS && !resolved.owners.contains(owner) {
                resolved.owners.push(owner.clone());
            }
        }
        if resolved.lines.len() < MAX_LINES {
            resolved.lines.push(line);
        }
    }
    if !resolved.owners.is_empty() {
        resolved.outcome = OwnerOutcome::Owned;
    }
    resolved
}
