//! Files at rest: object storage and the local cache of symcaches.
//!
//! * [`ObjectStore`]: S3, or, for tests, memory with failure switches; one suite tests both.
//! * [`SymcacheCache`]: symcaches on this machine's disk, mapped, limited, fetched once.
//! * [`segment`]: bodies of stored reports, many per object, each readable separately.
//! * [`keys`]: creates and checks all object keys.

#![warn(missing_docs)]

mod alias;
mod cache;
mod error;
pub mod keys;
mod object_store;
mod readings;
pub mod segment;
mod settings;

pub use alias::AliasMeta;
pub use cache::{
    CacheError, CacheLimits, CacheSettings, CacheStats, DerivedContents, Evictions, Hint, SymcacheCache,
};
pub use error::StorageError;
pub use object_store::{
    Condition, Download, ETag, FetchedFile, FetchedObject, Head, ListingEntry, ListingPage, MOST_PARTS,
    MULTIPART_FROM, ObjectStore, PART_BYTES, Put, StoreStats, StoredObject, hashed_part,
};
#[cfg(feature = "testkit")]
pub use object_store::{Fault, Hold, Memory, Operation};
pub use readings::{WRONG_CONTENT_READS_LIMIT, Wrong, read_again};
pub use settings::Settings;
