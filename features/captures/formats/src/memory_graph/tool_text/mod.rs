//! The text of Apple's tools, as far as it has totals: `heap`, `leaks`, `vmmap` and `footprint`. Their layouts are not
//! specified, so that each line that looks like a row and cannot be read is counted.

mod footprint;
mod heap;
mod leaks;
mod vmmap;

use super::tables::{MemorySource, MemoryTables};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The most bytes of a text.
pub const MOST_TEXT_BYTES: usize = 64 << 20;
/// The most columns of a table: each is looked for in each row.
const MOST_COLUMNS: usize = 16;

/// The most bytes of a line. A row has many words, and each costs more memory than its characters.
const MOST_LINE_BYTES: usize = 64 << 10;
/// The most rows of a list. No process has as many classes or regions; further rows are only counted.
const MOST_ROWS: usize = 100_000;

/// Returns the lines of a text, each cut to the bytes that are read.
fn bounded_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.get(..line.floor_char_boundary(MOST_LINE_BYTES)).unwrap_or(line))
}

/// Adds a row, or counts it as left out if there are [`MOST_ROWS`] rows.
fn push<T>(rows: &mut Vec<T>, row: T, left_out: &mut u64) {
    if rows.len() < MOST_ROWS {
        rows.push(row);
    } else {
        *left_out += 1;
    }
}

/// Returns the row of a name. Creates it if there is none and the limit allows it.
fn find_or_add_row<'r, K: Ord, T>(
    rows: &'r mut BTreeMap<K, T>,
    name: K,
    new: impl FnOnce(&K) -> T,
    left_out: &mut u64,
) -> Option<&'r mut T> {
    let is_full = rows.len() >= MOST_ROWS;
    match rows.entry(name) {
        Entry::Occupied(row) => Some(row.into_mut()),
        Entry::Vacant(_) if is_full => {
            *left_out += 1;
            None
        }
        Entry::Vacant(place) => {
            let row = new(place.key());
            Some(place.insert(row))
        }
    }
}

/// Reads the text of one of the tools. Returns `None` if no tool wrote it.
#[must_use]
pub fn read_tool_text(text: &str) -> Option<MemoryTables> {
    let mut tables = MemoryTables::new(bounded_lines(text).find_map(detect_source)?);
    tables.process = bounded_lines(text).find_map(parse_process).unwrap_or_default();
    match tables.source {
        MemorySource::Heap => heap::read_classes(text, &mut tables),
        MemorySource::Leaks => leaks::read_leaks(text, &mut tables),
        MemorySource::Vmmap => vmmap::read_summary(text, &mut tables),
        MemorySource::Footprint => footprint::read_categories(text, &mut tables),
        MemorySource::MemoryGraph => {}
    }
    tables.sort_rows();
    Some(tables)
}

/// Returns the tool that writes such a line and that no other tool writes.
fn detect_source(line: &str) -> Option<MemorySource> {
    let has = |words: &[&str]| words.iter().all(|word| line.split_whitespace().any(|own| own == *word));
    if line.starts_with("leaks Report Version") || line.ends_with(" total leaked bytes.") {
        return Some(MemorySource::Leaks);
    }
    let heads = [
        (&["COUNT", "BYTES", "CLASS_NAME"][..], MemorySource::Heap),
        (&["REGION", "TYPE", "COUNT"], MemorySource::Vmmap),
        (&["Dirty", "Regions", "Category"], MemorySource::Footprint),
    ];
    heads.into_iter().find(|(words, _)| has(words)).map(|(_, source)| source)
}

/// Returns the name of the process, from the lines that all tools but `footprint` begin with.
fn parse_process(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Process:")?.trim();
    Some(rest.rsplit_once(" [").map_or(rest, |(name, _)| name).trim().to_owned())
}

/// Returns the memory that the system charges to the process, as `heap`, `leaks` and `vmmap` print it.
fn footprint_line(line: &str) -> Option<u64> {
    parse_size(line.strip_prefix("Physical footprint:")?.trim())
}

/// Parses bytes from a number with a unit, such as `4.2M`, `16 KB`, `400 bytes` or `17`. The tools round to
/// few digits.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let scale = match unit.trim() {
        "" | "B" | "bytes" | "byte" => 1,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        "T" | "TB" => 1_u64 << 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let digits: String = part.chars().take(6).collect();
    let part = match digits.is_empty() {
        true => 0,
        false => digits.parse::<u64>().ok()?.checked_mul(scale)? / 10_u64.pow(digits.len() as u32),
    };
    bytes.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let sizes = ["0 B", "90 MB", "6592 KB", "4.2M", "1.4T", "320", "400 bytes", "48.0G"];
        assert_eq!(
            sizes.map(parse_size),
            [0, 90 << 20, 6592 << 10, 4_404_019, 1_539_316_278_886, 320, 400, 48 << 30].map(Some)
        );
        for wrong in
            ["", "M", "n/a", "-1K", "1.2.3K", "99999999999999999999", "18446744073709551615K", "1 page"]
        {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn long_lines_and_many_rows_cost_no_more_than_their_bound() {
        let head = " VIRTUAL REGION\nREGION TYPE SIZE COUNT\n";
        let many = (0..MOST_ROWS + 3).map(|n| format!("x{n} 1K 1\n")).collect::<String>();
        let tables = read_tool_text(&format!("{head}{}\n{many}", "é ".repeat(MOST_LINE_BYTES))).unwrap();
        assert_eq!((tables.left_out, tables.skipped), (3, 1));
        let head = "Dirty Regions Category\n";
        let many = (0..MOST_ROWS + 3).map(|n| format!("1 KB 1 x{n}\n")).collect::<String>();
        let tables = read_tool_text(&format!("{head}{many}1 KB 1 x0\n")).unwrap();
        assert_eq!((tables.left_out, tables.skipped), (3, 0));
        assert_eq!((tables.regions[0].name.as_str(), tables.regions[0].dirty), ("x0", 2 << 10));
    }

    #[test]
    fn other_texts_are_of_no_tool() {
        for text in
            ["", "Process: Shop [1]\n", "Call graph:\n    1 Thread_1\n", "{\"REGION\": \"TYPE COUNT\"}"]
        {
            assert!(read_tool_text(text).is_none(), "{text}");
        }
    }
}
