//! Extension of the builder by features.

use std::pin::Pin;
use unslide_store::{Store, StoreError};

/// The clearing of what is over. Returns the number of rows that are gone.
pub type Clearing<'s> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + 's>>;

/// Everything that one feature adds to the builder.
#[derive(Clone, Copy, Debug)]
pub struct BuilderFeature {
    /// The feature's name, for the log.
    pub name: &'static str,
    /// Removes rows of the feature that are over. One builder calls it every ten minutes.
    pub clear: for<'s> fn(&'s Store) -> Clearing<'s>,
}

/// Everything that features add to a builder.
#[derive(Clone, Debug, Default)]
pub struct BuilderFeatures {
    /// Their hooks, in the order in which they run.
    pub hooks: Vec<unslide_store::StoreHook>,
    /// Their additions to the builder's own work.
    pub features: Vec<BuilderFeature>,
}
