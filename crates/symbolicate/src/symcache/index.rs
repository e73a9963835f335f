//! Finding what is stored already, without a second copy of it.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, RandomState};

/// The places of things that are kept in a list of their own, found by what the things are.
#[derive(Default)]
pub(super) struct Index {
    places: HashTable<u32>,
    hasher: RandomState,
}

impl Index {
    /// The place of a thing, where `is_it` says of a place whether the thing is there.
    pub(super) fn find<T: Hash + ?Sized>(&self, thing: &T, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.places.find(self.hasher.hash_one(thing), |place| is_it(*place)).copied()
    }

    /// Adds the place of a thing that is not there yet; `thing_at` reads the list.
    pub(super) fn insert<T: Hash>(&mut self, place: u32, thing_at: impl Fn(u32) -> T) {
        let hash = |place: &u32| self.hasher.hash_one(thing_at(*place));
        self.places.insert_unique(hash(&place), place, hash);
    }
}
