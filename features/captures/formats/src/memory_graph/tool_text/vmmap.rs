//! The text of `vmmap`: its summary by region type, which crash reports have too, and its table of malloc zones.

use super::super::tables::{MemoryTables, RegionRow, ZoneRow};
use super::{MOST_COLUMNS, bounded_lines, footprint_line, parse_size, push};

/// The table that lines belong to.
enum VmmapTable {
    None,
    /// The rows of regions, with the names of the columns of sizes.
    Regions(Vec<String>),
    Zones,
}

/// Sizes of a zone: virtual, resident, dirty, swapped.
const ZONE_SIZES: usize = 4;

/// Reads the summary. Its sums include the single regions, which come before it.
pub(super) fn read_summary(text: &str, tables: &mut MemoryTables) {
    let mut table = VmmapTable::None;
    let mut above = "";
    for line in bounded_lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(footprint) = footprint_line(line) {
            tables.totals.footprint = Some(footprint);
        } else if line.starts_with("REGION TYPE") && words.contains(&"COUNT") {
            // The names of the columns take two lines. The upper one has a word for each size, and `REGION`.
            let sizes = words.iter().filter(|word| **word == "SIZE").take(MOST_COLUMNS).count();
            table = VmmapTable::Regions(above.split_whitespace().take(sizes).map(str::to_owned).collect());
        } else if line.starts_with("MALLOC ZONE") && words.contains(&"COUNT") {
            table = VmmapTable::Zones;
        } else if words.is_empty() || words[0].starts_with("TOTAL") {
            table = VmmapTable::None;
        } else if !words[0].starts_with('=') {
            read_row(&table, &words, tables);
        }
        above = line;
    }
}

fn read_row(table: &VmmapTable, words: &[&str], tables: &mut MemoryTables) {
    match table {
        VmmapTable::None => {}
        VmmapTable::Regions(columns) => match parse_region(columns, words) {
            Some(row) => push(&mut tables.regions, row, &mut tables.left_out),
            None => tables.skipped += 1,
        },
        VmmapTable::Zones => match parse_zone(words) {
            Some(row) => push(&mut tables.zones, row, &mut tables.left_out),
            None => tables.skipped += 1,
        },
    }
}

/// Reads a name of some words, the sizes, the number of regions, and perhaps a remark.
fn parse_region(columns: &[String], words: &[&str]) -> Option<RegionRow> {
    let at = numbers_at(columns.len(), words)?;
    let mut row = RegionRow { name: words.get(..at)?.join(" "), ..RegionRow::default() };
    for (column, word) in columns.iter().zip(words.get(at..)?) {
        match column.as_str() {
            "VIRTUAL" => row.size = parse_size(word),
            "RESIDENT" => row.resident = parse_size(word),
            "DIRTY" => row.dirty = parse_size(word)?,
            "SWAPPED" => row.swapped = parse_size(word),
            _ => {}
        }
    }
    row.regions = words.get(at + columns.len())?.parse().ok()?;
    Some(row)
}

fn parse_zone(words: &[&str]) -> Option<ZoneRow> {
    let at = numbers_at(ZONE_SIZES, words)?;
    let blocks = words.get(at + ZONE_SIZES)?.parse().ok()?;
    Some(ZoneRow {
        name: words.get(..at)?.join(" "),
        blocks,
        bytes: parse_size(words.get(at + ZONE_SIZES + 1)?)?,
    })
}

/// Returns the position of the first of `sizes` sizes that a count follows. A name comes before them and may
/// end with a number, so the last such position is right.
fn numbers_at(sizes: usize, words: &[&str]) -> Option<usize> {
    let fits = |at: &usize| {
        let has_count = words.get(at + sizes).is_some_and(|word| word.parse::<u64>().is_ok());
        has_count && words[*at..at + sizes].iter().all(|word| parse_size(word).is_some())
    };
    (1..words.len().saturating_sub(sizes)).rev().find(fits).filter(|_| sizes > 0)
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::MemorySource;
    use super::super::read_tool_text;

    #[test]
    fn the_summary_and_the_zones_are_read() {
        let text = "\
Process:         Shop [73559]
Physical footprint:         580.9M
----
REGION TYPE                    START - END         [ VSIZE  RSDNT  DIRTY   SWAP] PRT/MAX SHRMOD PURGE    REGION DETAIL
__TEXT                      1000-2000    [    4K     4K     0K     0K] r-x/r-x SM=COW          /Shop

                                VIRTUAL RESIDENT    DIRTY  SWAPPED VOLATILE   NONVOL    EMPTY   REGION
REGION TYPE                        SIZE     SIZE     SIZE     SIZE     SIZE     SIZE     SIZE    COUNT (non-coalesced)
===========                     ======= ========    =====  ======= ========   ======    =====  =======
MALLOC_SMALL                      16.0M      32K      32K     256K       0K       0K       0K        4         see MALLOC ZONE table below
Memory Tag 253                      320      320       0K       0K       0K       0K       0K     3291
odd row
===========                     ======= ========    =====  ======= ========   ======    =====  =======
TOTAL                             16.0M      32K      32K     256K       0K       0K       0K     3295

                                 VIRTUAL   RESIDENT      DIRTY    SWAPPED ALLOCATION      BYTES DIRTY+SWAP          REGION
MALLOC ZONE                         SIZE       SIZE       SIZE       SIZE      COUNT  ALLOCATED  FRAG SIZE  % FRAG   COUNT
===========                      =======  =========  =========  =========  =========  =========  =========  ======  ======
DefaultMallocZone_0x10c4f5000      16.0M        32K        32K       256K       2345       120K        10K     30%       4
";
        let tables = read_tool_text(text).unwrap();
        assert_eq!(
            (tables.source, tables.process.as_str(), tables.skipped),
            (MemorySource::Vmmap, "Shop", 1)
        );
        let rows: Vec<_> = tables
            .regions
            .iter()
            .map(|row| (row.name.as_str(), row.regions, row.size, row.dirty, row.swapped, row.resident))
            .collect();
        assert_eq!(
            rows,
            [
                ("MALLOC_SMALL", 4, Some(16 << 20), 32 << 10, Some(256 << 10), Some(32 << 10)),
                ("Memory Tag 253", 3291, Some(320), 0, Some(0), Some(320)),
            ]
        );
        let zone = &tables.zones[0];
        assert_eq!(
            (zone.name.as_str(), zone.blocks, zone.bytes),
            ("DefaultMallocZone_0x10c4f5000", 2345, 120 << 10)
        );
    }

    #[test]
    fn the_shorter_table_of_crash_reports_is_read() {
        let text = "\
                                VIRTUAL   REGION 
REGION TYPE                        SIZE    COUNT (non-coalesced) 
===========                     =======  ======= 
CG raster data                    1600K       30 
Memory Tag 255                     4096       12
===========                     =======  ======= 
";
        let tables = read_tool_text(text).unwrap();
        let rows: Vec<_> =
            tables.regions.iter().map(|row| (row.name.as_str(), row.regions, row.size)).collect();
        assert_eq!(rows, [("CG raster data", 30, Some(1600 << 10)), ("Memory Tag 255", 12, Some(4096))]);
        assert_eq!(tables.skipped, 0);
    }
}
