//! Figures that a part of the program keeps of itself, with names for metrics.

/// A family of figures of a `T`: one name, and one label with a value for each.
#[derive(Debug)]
pub struct Stats<T> {
    /// The metric's name; those of counters end in `_total`.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// The label.
    pub label: &'static str,
    /// The label's values, each with its figure now.
    pub read: fn(&T) -> Vec<(&'static str, u64)>,
}
