//! The text of `footprint`: memory by category, for one or several processes.

use super::super::tables::{MemoryTables, RegionRow};
use super::{MOST_COLUMNS, bounded_lines, find_or_add_row, parse_size};
use std::collections::BTreeMap;

/// Reads the categories. Those of several processes are added, unless a summary follows.
pub(super) fn read_categories(text: &str, tables: &mut MemoryTables) {
    let mut rows: BTreeMap<String, RegionRow> = BTreeMap::new();
    let mut columns: Vec<&str> = Vec::new();
    for line in bounded_lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(rest) = line.strip_prefix("Summary Footprint: ") {
            // All processes together, with shared memory once: it takes the place of their sums.
            tables.totals.footprint = parse_footprint(rest).or(tables.totals.footprint);
            rows.clear();
            tables.left_out = 0;
            columns.clear();
        } else if let Some((name, rest)) = line.split_once("Footprint: ").filter(|_| line.contains("]: ")) {
            if tables.process.is_empty() {
                tables.process = name.rsplit_once(" [").map_or("", |(name, _)| name).trim().to_owned();
            }
            let sum = tables.totals.footprint;
            let more = parse_footprint(rest).map(|one| sum.unwrap_or(0).saturating_add(one));
            tables.totals.footprint = more.or(sum);
            columns.clear();
        } else if words.last() == Some(&"Category") && words.len() <= MOST_COLUMNS {
            columns = words;
        } else if columns.is_empty()
            || words.is_empty()
            || words.contains(&"TOTAL")
            || words[0].starts_with('-')
        {
            // The table ends with its sum.
            if words.is_empty() || words.contains(&"TOTAL") {
                columns.clear();
            }
        } else if let Some(row) = parse_row(&columns, &words) {
            add_row(&mut rows, row, &mut tables.left_out);
        } else {
            tables.skipped += 1;
        }
    }
    tables.regions = rows.into_values().collect();
}

/// Reads `195 MB (16384 bytes per page)`.
fn parse_footprint(text: &str) -> Option<u64> {
    parse_size(text.split('(').next().unwrap_or_default())
}

/// Reads a row: a number and its unit for each column, the number of regions, and the name.
fn parse_row(columns: &[&str], words: &[&str]) -> Option<RegionRow> {
    let mut row = RegionRow::default();
    let mut at = 0;
    for column in columns {
        match *column {
            "Category" => row.name = words.get(at..).filter(|rest| !rest.is_empty())?.join(" "),
            "Regions" => {
                row.regions = words.get(at)?.parse().ok()?;
                at += 1;
            }
            column => {
                let bytes = parse_size(&format!("{} {}", words.get(at)?, words.get(at + 1)?))?;
                at += 2;
                match column {
                    "Dirty" => row.dirty = bytes,
                    "(Swapped)" | "Swapped" => row.swapped = Some(bytes),
                    _ => {}
                }
            }
        }
    }
    Some(row)
}

fn add_row(rows: &mut BTreeMap<String, RegionRow>, row: RegionRow, left_out: &mut u64) {
    let new = |name: &String| RegionRow { name: name.clone(), ..RegionRow::default() };
    let Some(sum) = find_or_add_row(rows, row.name, new, left_out) else { return };
    sum.regions = sum.regions.saturating_add(row.regions);
    sum.dirty = sum.dirty.saturating_add(row.dirty);
    if let Some(swapped) = row.swapped {
        sum.swapped = Some(sum.swapped.unwrap_or(0).saturating_add(swapped));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::MemorySource;
    use super::super::read_tool_text;

    #[test]
    fn categories_are_read_with_and_without_swapped_memory() {
        let text = "\
======================================================================
Shop [14047]: 64-bit    Footprint: 195 MB (16384 bytes per page)
======================================================================

  Dirty  (Swapped)      Clean  Reclaimable    Regions    Category
    ---        ---        ---          ---        ---    ---
  90 MB       1 MB        0 B          0 B         44    Owned physical footprint (unmapped) (graphics)
3013 KB        0 B      16 KB          0 B       1001    __DATA
 broken        0 B      16 KB          0 B       1001    __TEXT
    ---        ---        ---          ---        ---    ---
 195 MB       1 MB      16 KB          0 B       1045    TOTAL

Auxiliary data:
    phys_footprint: 195 MB
";
        let tables = read_tool_text(text).unwrap();
        assert_eq!((tables.source, tables.process.as_str()), (MemorySource::Footprint, "Shop"));
        assert_eq!((tables.totals.footprint, tables.skipped), (Some(195 << 20), 1));
        let rows: Vec<_> = tables
            .regions
            .iter()
            .map(|row| (row.name.as_str(), row.regions, row.dirty, row.swapped))
            .collect();
        assert_eq!(
            rows,
            [
                ("Owned physical footprint (unmapped) (graphics)", 44, 90 << 20, Some(1 << 20)),
                ("__DATA", 1001, 3013 << 10, Some(0)),
            ]
        );
        let two = read_tool_text(&text.repeat(2)).unwrap();
        assert_eq!((two.totals.footprint, two.regions[0].dirty), (Some(390 << 20), 180 << 20));
    }

    #[test]
    fn the_summary_takes_the_place_of_the_sums_over_processes() {
        let table = "Dirty  Clean  Regions  Category\n 1 MB    0 B        2  MALLOC\n";
        let text = format!(
            "Shop [1]: 64-bit    Footprint: 30 MB\n{table}\nCart [2]: 64-bit    Footprint: 20 MB\n{table}\n\
             Summary Footprint: 45 MB\n{table}"
        );
        let tables = read_tool_text(&text).unwrap();
        assert_eq!((tables.process.as_str(), tables.totals.footprint), ("Shop", Some(45 << 20)));
        assert_eq!((tables.regions.len(), tables.regions[0].dirty, tables.skipped), (1, 1 << 20, 0));
        let unknown = read_tool_text(&text.replace("20 MB", "n/a").replace("45 MB", "n/a")).unwrap();
        assert_eq!(unknown.totals.footprint, Some(30 << 20));
    }
}
