//! Lists of names with numbers, of captures and of what has changed between two.

/// Rows of a list that a page shows.
pub const MOST_ROWS: usize = 20;

/// A list of functions or other names, each with numbers.
pub struct ShownList {
    pub heading: &'static str,
    pub caption: &'static str,
    /// What the names are, and the numbers.
    pub columns: &'static [&'static str],
    pub lines: Vec<Vec<String>>,
}
