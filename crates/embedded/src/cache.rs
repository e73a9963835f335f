//! Where fetched servers are kept.

use crate::place;
use std::path::PathBuf;

/// Where root keeps the cache when its own folder does not let the servers' user through.
const CACHE_OUTSIDE: &str = "/var/cache/unslide";

/// The cache folder: `$UNSLIDE_CACHE`, else `$XDG_CACHE_HOME/unslide`, else `~/.cache/unslide`. As
/// root, where PostgreSQL's user cannot reach that, `/var/cache/unslide`.
#[must_use]
pub fn cache_folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let wanted = set("UNSLIDE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("unslide")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/unslide")));
    match wanted {
        Some(folder) => {
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            if place::is_root() && !place::reachable(&folder) { PathBuf::from(CACHE_OUTSIDE) } else { folder }
        }
        None => PathBuf::from(CACHE_OUTSIDE),
    }
}
