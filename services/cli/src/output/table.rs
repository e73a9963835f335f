//! Lists for people: a header, and columns as wide as they have to be.

use super::Console;
use super::age::describe_age;
use std::fmt::Write as _;
use time::OffsetDateTime;
use unslide_model::{Clock, SystemClock};
use unslide_report::text::escape_line;

/// The characters between two columns.
const GAP: usize = 2;
/// A column is not cut to fewer characters.
const MIN_CUT_WIDTH: usize = 10;
/// The characters of an id, which is copied and never cut.
const ID_WIDTH: usize = 36;

/// A table with a header.
pub struct Table {
    head: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// The terminal that shows a table.
struct Screen {
    columns: usize,
    now: OffsetDateTime,
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

    /// Prints the table: on a terminal as wide as that, with the age of times, and elsewhere with all of each cell.
    pub fn print(&self) {
        let screen =
            Console::get().terminal_columns().map(|columns| Screen { columns, now: SystemClock.now() });
        Console::get().write_bytes(self.render_on(screen.as_ref()).as_bytes());
    }

    /// Returns the text: names to the left, numbers to the right. The last column is not padded.
    pub fn render(&self) -> String {
        self.render_on(None)
    }

    fn render_on(&self, screen: Option<&Screen>) -> String {
        let cells: Vec<Vec<String>> = match screen {
            None => self.rows.clone(),
            Some(screen) => {
                let aged = |cell: &String| describe_age(cell, screen.now).unwrap_or_else(|| cell.clone());
                self.rows.iter().map(|cells| cells.iter().map(aged).collect()).collect()
            }
        };
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let lines = || [&head].into_iter().chain(&cells);
        let width = |column: usize| lines().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
        let is_number = |column: usize| cells.iter().any(|cells| cells[column].parse::<u64>().is_ok());
        let mut widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        if let Some(screen) = screen {
            let is_fixed = |column: usize| cells.iter().any(|cells| is_id(&cells[column]));
            let fixed: Vec<bool> = (0..self.head.len()).map(is_fixed).collect();
            fit_widths(&mut widths, &fixed, screen.columns);
        }
        let columns: Vec<(usize, bool)> =
            widths.into_iter().enumerate().map(|(column, width)| (width, is_number(column))).collect();
        let mut text = String::new();
        for cells in lines() {
            let mut line = String::new();
            for (cell, (width, is_number)) in cells.iter().zip(&columns) {
                let cell = cut_to_width(cell, *width);
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

/// Returns true for a UUID in its usual form.
fn is_id(cell: &str) -> bool {
    cell.len() == ID_WIDTH && cell.bytes().filter(|byte| *byte == b'-').count() == 4
}

/// Makes the widest columns narrower until all fit, except `fixed` ones. If they do not fit then either, lines wrap.
fn fit_widths(widths: &mut [usize], fixed: &[bool], columns: usize) {
    let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    while sum(widths) > columns {
        let flexible =
            widths.iter_mut().zip(fixed).filter(|(width, is_fixed)| !**is_fixed && **width > MIN_CUT_WIDTH);
        // One character at a time, so that two long texts share the room.
        let Some((widest, _)) = flexible.max_by_key(|(width, _)| **width) else { return };
        *widest -= 1;
    }
}

/// Returns the beginning of a text with a mark if it is longer than the width.
fn cut_to_width(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns a cell on one line, without effect on a terminal.
fn format_cell(cell: &str) -> String {
    if cell.is_empty() { "-".to_owned() } else { escape_line(cell).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::format_description::well_known::Rfc3339;

    #[test]
    fn columns_are_aligned_and_a_cell_stays_in_its_line() {
        let mut table = Table::new(&["TENANT", "NAME"]);
        table.add_row(["acme".to_owned(), "A\n\u{1b}[2J\u{202e}".to_owned()]);
        table.add_row(["a-longer-one".to_owned(), String::new()]);
        let expected = "TENANT        NAME\nacme          A\\n\\u{1b}[2J\\u{202e}\na-longer-one  -\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn a_table_fits_its_terminal_and_keeps_ids_whole() {
        let id = "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10";
        let mut table = Table::new(&["ID", "LAST SEEN", "REPORTS", "TITLE", "CULPRIT"]);
        let title = "EXC_BAD_ACCESS in a function with a long name";
        let cells =
            [id, "2026-11-20T09:59:00.123Z", "12", title, "cafe::Money cafe::sum<Order>(Order const&)"];
        table.add_row(cells.map(str::to_owned));
        let now = OffsetDateTime::parse("2026-11-20T12:00:00Z", &Rfc3339).unwrap();
        for columns in [100, 120, 150] {
            let text = table.render_on(Some(&Screen { columns, now }));
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            assert!(text.contains(id) && text.contains("2 h ago") && text.contains("EXC_BAD_AC"), "{text}");
        }
        assert!(table.render().contains("2026-11-20T09:59:00.123Z") && table.render().contains(title));
    }

    #[test]
    fn a_terminal_that_is_too_narrow_gets_whole_ids_and_short_texts() {
        let mut widths = [ID_WIDTH, 40, 8];
        fit_widths(&mut widths, &[true, false, false], 20);
        assert_eq!(widths, [ID_WIDTH, MIN_CUT_WIDTH, 8]);
        let mut widths = [30, 36];
        fit_widths(&mut widths, &[false, false], 42);
        assert_eq!(widths, [20, 20]);
    }
}
