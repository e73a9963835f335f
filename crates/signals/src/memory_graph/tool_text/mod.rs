//! The text of Apple's tools, as far as it has totals: `heap`, `leaks`, `vmmap` and `footprint`. Their layouts are not
//! specified, so that each line that looks like a row and cannot be read is counted.

mod footprint;
mod heap;
mod leaks;
mod vmmap;

use super::tables::{MemorySource, MemoryTables};

/// The most bytes of a text.
pub const MOST_TEXT_BYTES: usize = 64 << 20;
/// The most columns of a table: each is looked for in each row.
const MOST_COLUMNS: usize = 16;

/// Reads the text of one of the tools; `None` where it is of none.
#[must_use]
pub fn read_tool_text(text: &str) -> Option<MemoryTables> {
    let mut tables = MemoryTables::new(text.lines().find_map(source)?);
    tables.process = text.lines().find_map(process).unwrap_or_default();
    match tables.source {
        MemorySource::Heap => heap::read(text, &mut tables),
        MemorySource::Leaks => leaks::read(text, &mut tables),
        MemorySource::Vmmap => vmmap::read(text, &mut tables),
        MemorySource::Footprint => footprint::read(text, &mut tables),
        MemorySource::MemoryGraph => {}
    }
    tables.sort();
    Some(tables)
}

/// The tool that writes such a line, and no other does.
fn source(line: &str) -> Option<MemorySource> {
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

/// The name of the process, from the lines that all tools but `footprint` begin with.
fn process(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Process:")?.trim();
    Some(rest.rsplit_once(" [").map_or(rest, |(name, _)| name).trim().to_owned())
}

/// What the system charges the process with, as `heap`, `leaks` and `vmmap` say it.
fn footprint_line(line: &str) -> Option<u64> {
    size(line.strip_prefix("Physical footprint:")?.trim())
}

/// Bytes from a number with a unit, such as `4.2M`, `16 KB`, `400 bytes` or `17`. The tools round to few digits.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
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
            sizes.map(size),
            [0, 90 << 20, 6592 << 10, 4_404_019, 1_539_316_278_886, 320, 400, 48 << 30].map(Some)
        );
        for wrong in
            ["", "M", "n/a", "-1K", "1.2.3K", "99999999999999999999", "18446744073709551615K", "1 page"]
        {
            assert_eq!(size(wrong), None, "{wrong}");
        }
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
