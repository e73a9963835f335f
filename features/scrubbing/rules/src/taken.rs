//! Counts of what rules took.

use std::collections::BTreeMap;

/// How often rules took something, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenCounts(pub(crate) BTreeMap<String, u64>);

impl TakenCounts {
    pub(crate) fn add(&mut self, name: &str, count: u64) {
        *self.0.entry(name.to_owned()).or_default() += count;
    }
}
