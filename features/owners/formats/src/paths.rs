//! Paths of build machines, and the paths of a repository that they are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most bytes of a part of a rewrite.
pub const MAX_PATH_BYTES: usize = 1_024;
/// The most rewrites of an app.
const MAX_REWRITES: usize = 100;

/// Says which path of a repository a path of a build machine is: one prefix is replaced by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRewrite {
    /// The folder on the build machine, such as `/Users/ci/build/shop/`.
    #[schema(max_length = 1024, example = "/Users/ci/build/shop/")]
    pub from: String,
    /// The folder in the repository; empty for its root.
    #[schema(max_length = 1024, example = "ios/")]
    pub to: String,
}

/// Reason why rewrites are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRewriteError {
    /// There are too many.
    #[error("{0} rewrites; write at most {MAX_REWRITES}")]
    TooMany(usize),
    /// A path is too long or has a control character.
    #[error("{0:?}: write a path of at most {MAX_PATH_BYTES} bytes without control characters")]
    InvalidPath(String),
    /// A folder in the repository is absolute or leads out of it.
    #[error(
        "{0:?}: write a path from the root of the repository, without a slash at its begin and without .."
    )]
    OutsideRepository(String),
    /// Two rewrites are of the same folder.
    #[error("{0:?}: each folder of a build machine is written once")]
    Repeated(String),
}

/// Checks rewrites before they are stored.
///
/// # Errors
/// Returns [`PathRewriteError`] for the first that cannot be used.
pub fn check_rewrites(rewrites: &[PathRewrite]) -> Result<(), PathRewriteError> {
    if rewrites.len() > MAX_REWRITES {
        return Err(PathRewriteError::TooMany(rewrites.len()));
    }
    let mut folders = Vec::new();
    for rewrite in rewrites {
        for path in [&rewrite.from, &rewrite.to] {
            if path.len() > MAX_PATH_BYTES || path.chars().any(char::is_control) {
                return Err(PathRewriteError::InvalidPath(path.chars().take(100).collect()));
            }
        }
        let to = normalize_path(&rewrite.to);
        if to.is_absolute || to.leads_out() {
            return Err(PathRewriteError::OutsideRepository(rewrite.to.clone()));
        }
        let from = normalize_path(&rewrite.from);
        if folders.contains(&from) {
            return Err(PathRewriteError::Repeated(rewrite.from.clone()));
        }
        folders.push(from);
    }
    Ok(())
}

/// A path without `.`, `..`, doubled slashes and backslashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalPath {
    pub(crate) is_absolute: bool,
    pub(crate) parts: Vec<String>,
}

impl NormalPath {
    /// Returns true for a relative path that leads out of its folder.
    pub(crate) fn leads_out(&self) -> bool {
        self.parts.first().is_some_and(|part| part == "..")
    }
}

/// Normalizes a path. One that leads out of its folder begins with `..`, as sources of source maps do.
pub(crate) fn normalize_path(path: &str) -> NormalPath {
    let (scheme, path) = match path.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("", path),
    };
    let path = match scheme {
        "" | "file" => path,
        // The name of a bundle is before the first slash, and a number of a build after a question mark.
        _ => {
            let path = path.split_once('/').map_or(path, |(_, path)| path);
            path.split_once('?').map_or(path, |(path, _)| path)
        }
    };
    let path = path.replace('\\', "/");
    let has_drive =
        path.as_bytes().get(1) == Some(&b':') && path.starts_with(|one: char| one.is_ascii_alphabetic());
    let is_absolute = matches!(scheme, "" | "file") && (path.starts_with('/') || has_drive);
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            part => parts.push(part.to_owned()),
        }
    }
    NormalPath { is_absolute, parts }
}

/// Returns the path in the repository and the rewrite that made it; `None` for a path that no rewrite fits and that is absolute or
/// leads out of its folder. The rewrite with the most folders counts. Another relative path is one of the repository.
pub(crate) fn rewrite_path<'r>(
    path: &NormalPath,
    rewrites: &'r [PathRewrite],
) -> Option<(String, Option<&'r PathRewrite>)> {
    let mut best: Option<(usize, &PathRewrite)> = None;
    for rewrite in rewrites {
        let from = normalize_path(&rewrite.from);
        // Folders above the one that a path leads out to are not known.
        let is_outside = path.parts.get(from.parts.len()).is_some_and(|part| part == "..");
        let fits = !is_outside && from.is_absolute == path.is_absolute && path.parts.starts_with(&from.parts);
        // A folder is no file.
        if fits && from.parts.len() < path.parts.len() && best.is_none_or(|(most, _)| from.parts.len() > most)
        {
            best = Some((from.parts.len(), rewrite));
        }
    }
    let (skipped, to) = match best {
        Some((skipped, rewrite)) => (skipped, normalize_path(&rewrite.to).parts),
        None if path.is_absolute || path.leads_out() => return None,
        None => (0, Vec::new()),
    };
    let parts: Vec<&str> = to.iter().chain(path.parts.iter().skip(skipped)).map(String::as_str).collect();
    Some((parts.join("/"), best.map(|(_, rewrite)| rewrite)))
}
