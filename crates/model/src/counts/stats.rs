//! Statistics of one component, with names for metrics.

/// A metric family of a `T`: one name, and one label with a value for each figure.
#[derive(Debug)]
pub struct Stats<T> {
    /// The metric's name. A counter's name ends in `_total`.
    pub name: &'static str,
    /// The metric's help text.
    pub help: &'static str,
    /// The label's name.
    pub label: &'static str,
    /// Reads the current figure for each value of the label.
    pub read: fn(&T) -> Vec<(&'static str, u64)>,
}
