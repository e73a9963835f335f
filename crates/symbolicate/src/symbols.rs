//! The engine's input: the symbols of the images that a report refers to.

use crate::symcache::SymCache;
use std::sync::Arc;
use unslide_model::ContentHash;

/// The symbols for a debug id, or why there are none.
#[derive(Clone, Debug)]
pub enum ImageSymbols {
    /// They were found.
    Found {
        /// The symbols.
        symcache: Arc<SymCache>,
        /// The generation of the debug id's symbols, from 1; `None` if they have none.
        generation: Option<u64>,
        /// The object that they were built from, if known.
        object: Option<ContentHash>,
    },
    /// There are none.
    Missing,
    /// They are broken.
    Malformed,
    /// Their format is not supported.
    Unsupported,
    /// They exist but could not be fetched.
    FetchingFailed,
}

impl ImageSymbols {
    /// Returns symbols without a generation or a known object.
    #[must_use]
    pub fn from_symcache(symcache: Arc<SymCache>) -> ImageSymbols {
        ImageSymbols::Found { symcache, generation: None, object: None }
    }

    /// Returns the generation of the symbols that were found.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        match self {
            ImageSymbols::Found { generation, .. } => *generation,
            _ => None,
        }
    }
}
