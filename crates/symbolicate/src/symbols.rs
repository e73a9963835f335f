//! What the engine is given: the symbols of the images that a report refers to.

use crate::symcache::SymCache;
use std::sync::Arc;
use unslide_model::ContentHash;

/// What is known of the symbols for a debug id.
#[derive(Clone, Debug)]
pub enum ImageSymbols {
    /// They are here.
    Found {
        /// The symbols.
        symcache: Arc<SymCache>,
        /// Which generation of the debug id's symbols this is, from 1; `None` where they have none.
        generation: Option<u64>,
        /// The object that they were built from, where that is known.
        object: Option<ContentHash>,
    },
    /// There are none.
    Missing,
    /// They are broken.
    Malformed,
    /// They are of a kind that is not read.
    Unsupported,
    /// They are there and could not be fetched.
    FetchingFailed,
}

impl ImageSymbols {
    /// Symbols without a generation or a known object.
    #[must_use]
    pub fn found(symcache: Arc<SymCache>) -> ImageSymbols {
        ImageSymbols::Found { symcache, generation: None, object: None }
    }

    /// The generation of what was found.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        match self {
            ImageSymbols::Found { generation, .. } => *generation,
            _ => None,
        }
    }
}
