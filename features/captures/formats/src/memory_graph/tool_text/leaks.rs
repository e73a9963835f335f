//! The text of `leaks`: its sums, and the top of each leak.

use super::super::graph::NO_CLASS;
use super::super::tables::{LeakRow, MemoryTables};
use super::{bounded_lines, find_or_add_row, footprint_line, parse_size};
use std::collections::BTreeMap;

/// Reads the sums and the leaks. Trees that share blocks count them each.
pub(super) fn read_leaks(text: &str, tables: &mut MemoryTables) {
    let mut rows: BTreeMap<(bool, String), LeakRow> = BTreeMap::new();
    for line in bounded_lines(text) {
        let rest = line.strip_prefix("Process ").and_then(|rest| rest.split_once(": ")).map(|(_, rest)| rest);
        if let Some(footprint) = footprint_line(line) {
            tables.totals.footprint = Some(footprint);
        } else if let Some((blocks, bytes)) = rest.and_then(|rest| rest.split_once(" nodes malloced for ")) {
            tables.totals.blocks = blocks.trim().parse().unwrap_or(0);
            tables.totals.bytes = parse_size(bytes).unwrap_or(0);
        } else if let Some((blocks, bytes)) = rest.and_then(parse_leaked) {
            tables.totals.leaked_blocks = blocks;
            tables.totals.leaked_bytes = bytes;
        } else if let Some((numbers, is_cycle, name)) = parse_top(line) {
            match parse_counts(numbers) {
                Some((blocks, bytes)) => {
                    add_leak(&mut rows, is_cycle, name, blocks, bytes, &mut tables.left_out);
                }
                None => tables.skipped += 1,
            }
        }
    }
    tables.leaks = rows.into_values().collect();
}

/// Reads `3 leaks for 4096 total leaked bytes.`
fn parse_leaked(rest: &str) -> Option<(u64, u64)> {
    let (leaks, bytes) = rest.strip_suffix(" total leaked bytes.")?.split_once(" for ")?;
    let leaks = leaks.strip_suffix(" leaks").or_else(|| leaks.strip_suffix(" leak"))?;
    Some((leaks.parse().ok()?, bytes.parse().ok()?))
}

/// Returns the parts of the line at the top of a tree: the numbers before the mark, whether it is a cycle,
/// and the leaked object.
fn parse_top(line: &str) -> Option<(&str, bool, &str)> {
    if line.starts_with("STACK OF ") {
        return None;
    }
    let (numbers, name) = line.split_once("ROOT LEAK: ").or_else(|| line.split_once("ROOT CYCLE: "))?;
    Some((numbers, line.contains("ROOT CYCLE: "), name))
}

/// Reads `17 (1.91K) `.
fn parse_counts(numbers: &str) -> Option<(u64, u64)> {
    let (blocks, bytes) = numbers.trim().split_once(" (")?;
    Some((blocks.parse().ok()?, parse_size(bytes.strip_suffix(')')?)?))
}

fn add_leak(
    rows: &mut BTreeMap<(bool, String), LeakRow>,
    is_cycle: bool,
    top: &str,
    blocks: u64,
    bytes: u64,
    left_out: &mut u64,
) {
    let (name, address) = parse_object(top);
    let new = |_: &(bool, String)| LeakRow {
        signature: format!("{} {name}", if is_cycle { "cycle" } else { "leak" }),
        cycle: is_cycle,
        name: name.to_owned(),
        leaks: 0,
        blocks: 0,
        bytes: 0,
        example: address.to_owned(),
    };
    let Some(row) = find_or_add_row(rows, (is_cycle, name.to_owned()), new, left_out) else { return };
    row.leaks += 1;
    row.blocks = row.blocks.saturating_add(blocks);
    row.bytes = row.bytes.saturating_add(bytes);
}

/// Returns the class and the address of `<Cart 0x600001>  [64]` or `0x600001 [64]`.
fn parse_object(text: &str) -> (&str, &str) {
    let inner = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(inner, _)| inner);
    match inner {
        Some(inner) => match inner.rsplit_once(" 0x") {
            Some((name, _)) => (name, inner.get(name.len() + 1..).unwrap_or_default()),
            None => (inner, ""),
        },
        None => (
            NO_CLASS,
            text.split_whitespace().next().filter(|word| word.starts_with("0x")).unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::MemorySource;
    use super::super::read_tool_text;

    #[test]
    fn leaks_are_grouped_by_what_stands_at_their_top() {
        let text = "\
Process:         Shop [500]
leaks Report Version: 4.0
Process 500: 1000 nodes malloced for 200 KB
Process 500: 6 leaks for 4096 total leaked bytes.

STACK OF 2 INSTANCES OF 'ROOT CYCLE: <Cart>':
1   dyld   0x1 start + 1
====
    4 (1.91K) << TOTAL >>
      2 (1.0K) ROOT CYCLE: <Cart 0x600000c0> [64]
         1 (32 bytes) item --> <Item 0x600000d0> [32]
      2 (928 bytes) ROOT CYCLE: <Cart 0x600000e0> [64]
    1 (48 bytes) ROOT LEAK: 0x600001 [48]
    one (48 bytes) ROOT LEAK: 0x600002 [48]
";
        let tables = read_tool_text(text).unwrap();
        assert_eq!((tables.source, tables.skipped), (MemorySource::Leaks, 1));
        assert_eq!((tables.totals.blocks, tables.totals.bytes), (1000, 200 << 10));
        assert_eq!((tables.totals.leaked_blocks, tables.totals.leaked_bytes), (6, 4096));
        let rows: Vec<_> = tables
            .leaks
            .iter()
            .map(|row| (row.name.as_str(), row.cycle, row.leaks, row.blocks, row.bytes, row.example.as_str()))
            .collect();
        assert_eq!(
            rows,
            [("Cart", true, 2, 4, 1952, "0x600000c0"), ("non-object", false, 1, 1, 48, "0x600001")]
        );
    }
}
