//! Finds values that are stored already, without a second copy of them.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, RandomState};

/// Index of the values of a separate list, by value.
#[derive(Default)]
pub(super) struct Index {
    places: HashTable<u32>,
    hasher: RandomState,
}

impl Index {
    /// Returns the position of a value. `is_it` says whether a position holds the value.
    pub(super) fn find<T: Hash + ?Sized>(&self, thing: &T, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.places.find(self.hasher.hash_one(thing), |place| is_it(*place)).copied()
    }

    /// Adds the position of a new value. `thing_at` reads the list.
    pub(super) fn insert<T: Hash>(&mut self, place: u32, thing_at: impl Fn(u32) -> T) {
        let hash = |place: &u32| self.hasher.hash_one(thing_at(*place));
        self.places.insert_unique(hash(&place), place, hash);
    }
}
