//! The local cache of symcaches.

mod bounds;
mod cache_fixture;
mod events;
mod races;
mod symcaches;
mod versions;
