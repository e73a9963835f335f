//! The folder that keeps fetched servers.

use crate::place;
use std::path::PathBuf;

/// Root's cache folder, if the servers' user cannot reach root's own.
const CACHE_OUTSIDE: &str = "/var/cache/unslide";

/// Returns the cache folder: `$UNSLIDE_CACHE`, else `$XDG_CACHE_HOME/unslide`, else `~/.cache/unslide`. For
/// root it is `/var/cache/unslide`, if PostgreSQL's user cannot reach that folder.
#[must_use]
pub fn cache_folder() -> PathBuf {
    match wanted_folder() {
        Some(folder) if place::is_root() && !place::reachable(&folder) => PathBuf::from(CACHE_OUTSIDE),
        Some(folder) => folder,
        None => PathBuf::from(CACHE_OUTSIDE),
    }
}

/// Returns the folder into which `scripts/setup` installs tools, if there is a home.
pub(crate) fn tools_folder() -> Option<PathBuf> {
    Some(wanted_folder()?.join("tools"))
}

fn wanted_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let wanted = set("UNSLIDE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("unslide")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/unslide")))?;
    Some(std::path::absolute(&wanted).unwrap_or(wanted))
}
