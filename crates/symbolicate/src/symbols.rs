//! What the engine is given: the symbols of the images that a report refers to.

use crate::symcache::{Lookup, SymCache};
use std::fmt;
use std::sync::Arc;
use unslide_model::{ContentHash, CpuType, DebugId, FileAddress, Quality, RelativeAddress};

/// Something that knows the functions of one object. Implemented by every [`SymCache`], whatever
/// holds its bytes.
pub trait Symbols: Send + Sync {
    /// The object's debug id.
    fn debug_id(&self) -> DebugId;
    /// The object's CPU type.
    fn cpu(&self) -> CpuType;
    /// The vm address of the object's `__TEXT`.
    fn text_address(&self) -> FileAddress;
    /// What the object has to offer.
    fn quality(&self) -> Quality;
    /// The function at an address.
    fn lookup(&self, address: RelativeAddress) -> Lookup<'_>;
}

impl<B: AsRef<[u8]> + Send + Sync> Symbols for SymCache<B> {
    fn debug_id(&self) -> DebugId {
        SymCache::debug_id(self)
    }
    fn cpu(&self) -> CpuType {
        SymCache::cpu(self)
    }
    fn text_address(&self) -> FileAddress {
        SymCache::text_address(self)
    }
    fn quality(&self) -> Quality {
        SymCache::quality(self)
    }
    fn lookup(&self, address: RelativeAddress) -> Lookup<'_> {
        SymCache::lookup(self, address)
    }
}

/// What is known of the symbols for a debug id.
#[derive(Clone)]
pub enum ImageSymbols {
    /// They are here.
    Found {
        /// The symbols.
        symcache: Arc<dyn Symbols>,
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
    pub fn found(symcache: Arc<dyn Symbols>) -> ImageSymbols {
        ImageSymbols::Found { symcache, generation: None, object: None }
    }
}

impl fmt::Debug for ImageSymbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageSymbols::Found { symcache, generation, object } => f
                .debug_struct("Found")
                .field("debug_id", &symcache.debug_id())
                .field("generation", generation)
                .field("object", object)
                .finish(),
            ImageSymbols::Missing => f.write_str("Missing"),
            ImageSymbols::Malformed => f.write_str("Malformed"),
            ImageSymbols::Unsupported => f.write_str("Unsupported"),
            ImageSymbols::FetchingFailed => f.write_str("FetchingFailed"),
        }
    }
}
