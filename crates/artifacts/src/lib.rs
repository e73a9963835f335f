//! Files at rest: object storage, uploaded archives taken apart, and the local cache of symcaches.
//!
//! * [`ObjectStore`]: S3, or memory with failure switches for tests; one suite holds both.
//! * [`keys`]: the one place where object keys are made and checked.

mod alias;
mod error;
pub mod keys;
mod object_store;
mod settings;

pub use alias::AliasMeta;
pub use error::StoreError;
pub use object_store::memory::{Fault, Hold, Memory, Operation};
pub use object_store::{
    Condition, ETag, Entry, Fetched, Head, MULTIPART_FROM, Object, ObjectStore, PART_BYTES, Page, Put, Stored,
};
pub use settings::Settings;
