//! The local cache of symcaches.

mod bounds;
mod races;
mod symcaches;
mod versions;
mod world;
