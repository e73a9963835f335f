//! What the store keeps of topics: dead letters, and the positions of readers.

pub mod dead_letters;
pub mod deferred;
mod positions;
