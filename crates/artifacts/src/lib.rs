//! Files at rest: object storage, uploaded archives taken apart, and the local cache of symcaches.
//!
//! * [`ObjectStore`]: S3, or memory with failure switches for tests; one suite holds both.
//! * [`archive`]: zip, tar and gzip in any nesting, down to the Mach-O files.
//! * [`SymcacheCache`]: symcaches on this machine's disk, mapped, bounded, fetched once.
//! * [`segment`]: bodies of stored reports, many an object, each read by itself.
//! * [`keys`]: the one place where object keys are made and checked.

mod alias;
pub mod archive;
mod cache;
mod error;
pub mod keys;
mod mapped;
mod object_store;
mod readings;
pub mod segment;
mod settings;

pub use alias::AliasMeta;
pub use cache::{
    CacheError, CacheLimits, CacheSettings, CacheStats, Cached, Evictions, Hint, Symcache, SymcacheCache,
};
pub use error::StoreError;
pub use mapped::map as map_file;
pub use object_store::memory::{Fault, Hold, Memory, Operation};
pub use object_store::{
    Condition, Download, ETag, Entry, Fetched, Head, MOST_PARTS, MULTIPART_FROM, Object, ObjectStore,
    PART_BYTES, Page, Put, StoreStats, Stored, hashed_part,
};
pub use readings::{READINGS, Wrong, read_again};
pub use settings::Settings;
