//! The part of the builder's state with stored data.

use unslide_artifacts::ObjectStore;
use unslide_store::Store;

/// Database and object storage, which all jobs share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JobStorage {
    pub(crate) store: Store,
    pub(crate) objects: ObjectStore,
}
