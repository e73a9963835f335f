//! Counts of what rules took, and for a preview the lines.

use std::collections::BTreeMap;

/// A line of a text, or the value of a key, that rules change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedText {
    /// Its text in the report.
    pub before: String,
    /// The text that would be stored.
    pub after: String,
}

/// How often rules took something, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenCounts {
    pub(crate) counts: BTreeMap<String, u64>,
    /// The first texts that were changed.
    pub(crate) changed: Vec<ChangedText>,
    /// How many of them are kept.
    changed_limit: usize,
}

impl TakenCounts {
    pub(crate) fn with_texts(changed_limit: usize) -> TakenCounts {
        TakenCounts { changed_limit, ..TakenCounts::default() }
    }

    pub(crate) fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    pub(crate) fn keep_text(&mut self, before: &str, after: &str) {
        if self.changed.len() < self.changed_limit {
            self.changed.push(ChangedText { before: before.to_owned(), after: after.to_owned() });
        }
    }
}
