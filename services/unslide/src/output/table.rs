//! Lists for people: a header, and columns as wide as they have to be.

use super::Output;
use std::fmt::Write as _;

/// A table with a header.
pub struct Table {
    head: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(head: &'static [&'static str]) -> Table {
        Table { head, rows: Vec::new() }
    }

    /// Adds a row; what is empty is shown as `-`.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| shown(&cell)).collect());
    }

    /// Prints it.
    pub fn print(&self) {
        Output::get().bytes(self.render().as_bytes());
    }

    /// The text. The last column is not padded.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let head = self.head.iter().map(|name| (*name).to_owned()).collect();
        for row in [&head].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string has no error.
                let _ = write!(line, "{cell:width$}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// A cell on one line, without effect on a terminal.
fn shown(cell: &str) -> String {
    if cell.is_empty() {
        return "-".to_owned();
    }
    let mut shown = String::with_capacity(cell.len());
    for c in cell.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_cell_stays_in_its_line() {
        let mut table = Table::new(&["TENANT", "NAME"]);
        table.row(["acme".to_owned(), "A\n\u{1b}[2J".to_owned()]);
        table.row(["a-longer-one".to_owned(), String::new()]);
        let expected = "TENANT        NAME\nacme          A\\n\\u{1b}[2J\na-longer-one  -\n";
        assert_eq!(table.render(), expected);
    }
}
