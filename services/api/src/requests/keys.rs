//! The part of the api's state for operations on keys and for access with them.

use crate::background::key_cache::KeyCache;
use crate::background::key_uses::KeyUses;
use crate::entropy::Entropy;
use crate::limits::capacity::Capacity;
use crate::storage::Storage;
use std::sync::Arc;

/// The keys of tenants and people: those in use, and the entropy for new ones.
pub struct Keys {
    pub storage: Arc<Storage>,
    pub capacity: Arc<Capacity>,
    /// Principals of the keys in use.
    pub cache: KeyCache,
    /// Recorder of the times when keys were used.
    pub uses: KeyUses,
    pub entropy: Entropy,
}
