//! The local cache of symcaches.

mod bounds;
mod events;
mod races;
mod symcaches;
mod versions;
mod world;
