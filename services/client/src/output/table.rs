//! Lists for people: a header, and columns as wide as they have to be.

use super::Console;
use std::fmt::Write as _;
use unslide_report::text::escape_line;

/// A table with a header.
pub struct Table {
    head: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new(head: &'static [&'static str]) -> Table {
        Table { head, rows: Vec::new() }
    }

    /// Adds a row; what is empty is shown as `-`.
    pub fn add_row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| format_cell(&cell)).collect());
    }

    pub fn print(&self) {
        Console::get().write_bytes(self.render().as_bytes());
    }

    /// Returns the text: names to the left, numbers to the right. The last column is not padded.
    pub fn render(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let lines = || [&head].into_iter().chain(&self.rows);
        let width = |column: usize| lines().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
        let is_number = |column: usize| self.rows.iter().any(|cells| cells[column].parse::<u64>().is_ok());
        let columns: Vec<(usize, bool)> =
            (0..self.head.len()).map(|column| (width(column), is_number(column))).collect();
        let mut text = String::new();
        for cells in lines() {
            let mut line = String::new();
            for (cell, (width, is_number)) in cells.iter().zip(&columns) {
                // Writing to a string has no error.
                let _ = match is_number {
                    true => write!(line, "{cell:>width$}  "),
                    false => write!(line, "{cell:width$}  "),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// Returns a cell on one line, without effect on a terminal.
fn format_cell(cell: &str) -> String {
    if cell.is_empty() { "-".to_owned() } else { escape_line(cell).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_cell_stays_in_its_line() {
        let mut table = Table::new(&["TENANT", "NAME"]);
        table.add_row(["acme".to_owned(), "A\n\u{1b}[2J\u{202e}".to_owned()]);
        table.add_row(["a-longer-one".to_owned(), String::new()]);
        let expected = "TENANT        NAME\nacme          A\\n\\u{1b}[2J\\u{202e}\na-longer-one  -\n";
        assert_eq!(table.render(), expected);
    }
}
