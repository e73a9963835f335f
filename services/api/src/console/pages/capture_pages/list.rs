//! Lists of names with numbers, of captures and of what has changed between two.

use crate::console::words::grouped;

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

/// A number.
pub fn number(number: u64) -> String {
    grouped(i64::try_from(number).unwrap_or(i64::MAX))
}
