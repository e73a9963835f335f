//! The text of `heap`: blocks by class, and their sum.

use super::super::tables::{ClassRow, MemoryTables, ZoneRow};
use super::{bounded_lines, footprint_line, parse_size, push};

/// Reads the classes of all zones together. The tables of single zones, which `-zones` adds, are skipped.
pub(super) fn read_classes(text: &str, tables: &mut MemoryTables) {
    let mut is_table = false;
    let mut is_one_zone = false;
    for line in bounded_lines(text) {
        if let Some(footprint) = footprint_line(line) {
            tables.totals.footprint = Some(footprint);
        } else if let Some(rest) = line.strip_prefix("All zones: ") {
            (tables.totals.blocks, tables.totals.bytes) = parse_sum(rest).unwrap_or_default();
            is_one_zone = false;
        } else if let Some((name, rest)) = line.strip_prefix("Zone ").and_then(|rest| rest.split_once(": ")) {
            is_one_zone = true;
            is_table = false;
            if let Some((blocks, bytes)) = parse_sum(rest) {
                let zone = ZoneRow { name: name.to_owned(), blocks, bytes };
                push(&mut tables.zones, zone, &mut tables.left_out);
            }
        } else if line.contains("CLASS_NAME") {
            is_table = !is_one_zone;
        } else if line.trim().is_empty() {
            is_table = false;
        } else if is_table && !line.trim_start().starts_with('=') {
            match parse_row(line) {
                Some(row) => push(&mut tables.classes, row, &mut tables.left_out),
                None => tables.skipped += 1,
            }
        }
    }
}

/// Reads `202503 nodes (47995927 bytes)` or `202503 nodes (46M)`.
fn parse_sum(text: &str) -> Option<(u64, u64)> {
    let (blocks, rest) = text.split_once(" nodes ")?;
    let bytes = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let bytes = bytes.and_then(|bytes| parse_size(bytes.strip_suffix(" bytes").unwrap_or(bytes)));
    Some((blocks.trim().parse().ok()?, bytes.unwrap_or(0)))
}

/// Reads count, bytes and average, then the name, the type and the binary with two spaces or more between
/// them.
fn parse_row(line: &str) -> Option<ClassRow> {
    let (blocks, rest) = line.trim_start().split_once(' ')?;
    let (bytes, rest) = rest.trim_start().split_once(' ')?;
    let (_average, rest) = rest.trim_start().split_once(' ')?;
    let mut parts = rest.split("  ").map(str::trim).filter(|part| !part.is_empty());
    Some(ClassRow {
        name: parts.next()?.to_owned(),
        kind: parts.next().unwrap_or_default().to_owned(),
        image: parts.next().unwrap_or_default().to_owned(),
        blocks: blocks.parse().ok()?,
        bytes: parse_size(bytes)?,
        retained: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::MemorySource;
    use super::super::read_tool_text;

    #[test]
    fn classes_of_all_zones_are_read() {
        let text = "\
Process:         Shop Float [14047]
Physical footprint:         289.4M
Physical footprint (peak):  295.1M
----

Process 14047: 6 zones
Found:  1643 ObjC classes  2656 Swift classes

All zones: 202503 nodes (47995927 bytes)

   COUNT      BYTES       AVG   CLASS_NAME                        TYPE    BINARY
   =====      =====       ===   ==========                        ====    ======
    6014     316480      52.6   CFString                          ObjC    CoreFoundation
   73126   25846913     353.5   non-object
    5800     185600      32.0   Class.data (class_rw_t)           C       libobjc.A.dylib
    many

Zone DefaultMallocZone_0x1: 3 nodes (48 bytes)

   COUNT      BYTES       AVG   CLASS_NAME                        TYPE    BINARY
   =====      =====       ===   ==========                        ====    ======
       3         48      16.0   CFString                          ObjC    CoreFoundation
";
        let tables = read_tool_text(text).unwrap();
        assert_eq!((tables.source, tables.process.as_str()), (MemorySource::Heap, "Shop Float"));
        assert_eq!((tables.totals.blocks, tables.totals.bytes), (202_503, 47_995_927));
        assert_eq!((tables.totals.footprint, tables.skipped), (Some(303_457_894), 1));
        let rows: Vec<_> = tables
            .classes
            .iter()
            .map(|row| (row.name.as_str(), row.kind.as_str(), row.image.as_str(), row.blocks, row.bytes))
            .collect();
        assert_eq!(
            rows,
            [
                ("non-object", "", "", 73_126, 25_846_913),
                ("CFString", "ObjC", "CoreFoundation", 6_014, 316_480),
                ("Class.data (class_rw_t)", "C", "libobjc.A.dylib", 5_800, 185_600),
            ]
        );
        assert_eq!((tables.zones[0].name.as_str(), tables.zones[0].bytes), ("DefaultMallocZone_0x1", 48));
        assert_eq!(super::parse_sum("3 nodes (12K)"), Some((3, 12 << 10)));
        assert_eq!(super::parse_row("3  12K  4.0K  Cart  Swift  Shop").unwrap().bytes, 12 << 10);
    }
}
