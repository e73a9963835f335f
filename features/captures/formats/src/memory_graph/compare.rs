//! The changes between two snapshots: classes and regions that grew or shrank, and leaks that are new.

use super::tables::{ClassRow, LeakRow, MemoryTables, RegionRow};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The changes between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryComparison {
    /// Classes with another number of blocks or bytes, those that grew most first.
    pub classes: Vec<ClassGrowth>,
    /// Ranges of pages by their purpose, with other dirty or swapped memory, those that grew most first.
    pub regions: Vec<RegionGrowth>,
    /// Leaks of shapes that are new or have become more: the additional ones.
    pub leaks: Vec<LeakRow>,
    /// Rows that were left out, including those that may be in the other snapshot because its list was cut.
    pub left_out: u64,
}

/// How a class has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassGrowth {
    /// Its name.
    pub name: String,
    /// The image that has it; empty if it is not known.
    pub image: String,
    /// Blocks before.
    pub blocks_before: u64,
    /// Blocks after.
    pub blocks_after: u64,
    /// Bytes before.
    pub bytes_before: u64,
    /// Bytes after.
    pub bytes_after: u64,
}

impl ClassGrowth {
    /// Returns the bytes by which it grew; below 0 if it shrank.
    #[must_use]
    pub fn grown_bytes(&self) -> i128 {
        i128::from(self.bytes_after) - i128::from(self.bytes_before)
    }
}

/// How the ranges of pages of one kind have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegionGrowth {
    /// The purpose of the ranges.
    pub name: String,
    /// Bytes that were written before.
    pub dirty_before: u64,
    /// Bytes that were written after.
    pub dirty_after: u64,
    /// Bytes that were compressed or swapped out before.
    pub swapped_before: u64,
    /// Bytes that were compressed or swapped out after.
    pub swapped_after: u64,
}

impl RegionGrowth {
    /// Returns the bytes that count for the process, before and after.
    #[must_use]
    pub fn charged_bytes(&self) -> (u64, u64) {
        let before = self.dirty_before.saturating_add(self.swapped_before);
        (before, self.dirty_after.saturating_add(self.swapped_after))
    }
}

/// Compares two snapshots. A row that only one of them has is left out if the other's list was cut.
#[must_use]
pub fn compare_tables(before: &MemoryTables, after: &MemoryTables) -> MemoryComparison {
    let mut left_out = 0;
    MemoryComparison {
        classes: compare_classes(before, after, &mut left_out),
        regions: compare_regions(before, after, &mut left_out),
        leaks: compare_leaks(before, after, &mut left_out),
        left_out,
    }
}

impl MemoryComparison {
    /// Keeps at most `rows` rows of each list.
    pub fn truncate_rows(&mut self, rows: usize) {
        let lengths = [self.classes.len(), self.regions.len(), self.leaks.len()];
        self.left_out += lengths.iter().map(|length| length.saturating_sub(rows) as u64).sum::<u64>();
        self.classes.truncate(rows);
        self.regions.truncate(rows);
        self.leaks.truncate(rows);
    }
}

/// Pairs the rows of two lists by their keys, with those of the first and those of the second snapshot. A row
/// that only one list has is left out if the other list was cut.
fn pair_rows<'t, K: Ord, T>(
    before: &'t [T],
    after: &'t [T],
    is_cut: (bool, bool),
    key: impl Fn(&'t T) -> K,
    left_out: &mut u64,
) -> Vec<[Vec<&'t T>; 2]> {
    let mut pairs: BTreeMap<K, [Vec<&T>; 2]> = BTreeMap::new();
    for (at, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            pairs.entry(key(row)).or_default()[at].push(row);
        }
    }
    let mut pairs: Vec<[Vec<&T>; 2]> = pairs.into_values().collect();
    let all = pairs.len();
    pairs.retain(|[before, after]| !(before.is_empty() && is_cut.0 || after.is_empty() && is_cut.1));
    *left_out += (all - pairs.len()) as u64;
    pairs
}

fn compare_classes(before: &MemoryTables, after: &MemoryTables, left_out: &mut u64) -> Vec<ClassGrowth> {
    let is_cut = (before.cut.classes, after.cut.classes);
    let pairs = pair_rows(
        &before.classes,
        &after.classes,
        is_cut,
        |row| (row.name.as_str(), row.image.as_str()),
        left_out,
    );
    let sum = |rows: &[&ClassRow], of: fn(&ClassRow) -> u64| {
        rows.iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)))
    };
    let grown = pairs.iter().filter_map(|[before, after]| {
        let class = before.first().or(after.first())?;
        Some(ClassGrowth {
            name: class.name.clone(),
            image: class.image.clone(),
            blocks_before: sum(before, |row| row.blocks),
            blocks_after: sum(after, |row| row.blocks),
            bytes_before: sum(before, |row| row.bytes),
            bytes_after: sum(after, |row| row.bytes),
        })
    });
    let mut rows: Vec<ClassGrowth> = grown.collect();
    rows.retain(|row| row.grown_bytes() != 0 || row.blocks_before != row.blocks_after);
    rows.sort_by_key(|row| Reverse(row.grown_bytes()));
    rows
}

fn compare_regions(before: &MemoryTables, after: &MemoryTables, left_out: &mut u64) -> Vec<RegionGrowth> {
    let is_cut = (before.cut.regions, after.cut.regions);
    let pairs = pair_rows(&before.regions, &after.regions, is_cut, |row| row.name.as_str(), left_out);
    let sum = |rows: &[&RegionRow], of: fn(&RegionRow) -> u64| {
        rows.iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)))
    };
    let grown = pairs.iter().filter_map(|[before, after]| {
        let region = before.first().or(after.first())?;
        Some(RegionGrowth {
            name: region.name.clone(),
            dirty_before: sum(before, |row| row.dirty),
            dirty_after: sum(after, |row| row.dirty),
            swapped_before: sum(before, |row| row.swapped.unwrap_or(0)),
            swapped_after: sum(after, |row| row.swapped.unwrap_or(0)),
        })
    });
    let mut rows: Vec<RegionGrowth> = grown.collect();
    rows.retain(|row| (row.dirty_before, row.swapped_before) != (row.dirty_after, row.swapped_after));
    rows.sort_by_key(|row| {
        let (before, after) = row.charged_bytes();
        Reverse(i128::from(after) - i128::from(before))
    });
    rows
}

fn compare_leaks(before: &MemoryTables, after: &MemoryTables, left_out: &mut u64) -> Vec<LeakRow> {
    let known: HashMap<&str, &LeakRow> =
        before.leaks.iter().map(|leak| (leak.signature.as_str(), leak)).collect();
    let more = |leak: &LeakRow| {
        let Some(known) = known.get(leak.signature.as_str()) else {
            *left_out += u64::from(before.cut.leaks);
            return Some(leak.clone()).filter(|_| !before.cut.leaks);
        };
        let leaks = leak.leaks.checked_sub(known.leaks).filter(|more| *more > 0)?;
        let blocks = leak.blocks.saturating_sub(known.blocks);
        Some(LeakRow { leaks, blocks, bytes: leak.bytes.saturating_sub(known.bytes), ..leak.clone() })
    };
    after.leaks.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tables::MemorySource;
    use super::*;

    fn class(name: &str, bytes: u64) -> ClassRow {
        let [name, kind, image] = [name, "", "Shop"].map(str::to_owned);
        ClassRow { name, kind, image, blocks: bytes / 16, bytes, retained: None }
    }

    fn region(name: &str, dirty: u64, swapped: Option<u64>) -> RegionRow {
        RegionRow { name: name.to_owned(), regions: 1, dirty, swapped, ..RegionRow::default() }
    }

    fn tables(classes: Vec<ClassRow>, regions: Vec<RegionRow>) -> MemoryTables {
        MemoryTables { classes, regions, ..MemoryTables::new(MemorySource::MemoryGraph) }
    }

    #[test]
    fn regions_grow_by_what_counts_for_the_process() {
        let before = tables(Vec::new(), vec![region("MALLOC", 100, Some(10)), region("IOSurface", 50, None)]);
        let after = tables(Vec::new(), vec![region("MALLOC", 90, Some(40)), region("Stack", 5, None)]);
        let change = compare_tables(&before, &after);
        let grown: Vec<_> =
            change.regions.iter().map(|row| (row.name.as_str(), row.charged_bytes())).collect();
        assert_eq!(grown, [("MALLOC", (110, 130)), ("Stack", (0, 5)), ("IOSurface", (50, 0))]);
        assert!(compare_tables(&after, &after).regions.is_empty());
    }

    #[test]
    fn what_may_be_in_a_cut_list_is_left_out_and_counted() {
        let mut before = tables(vec![class("Cart", 160), class("Item", 32)], Vec::new());
        let after = tables(vec![class("Item", 96), class("Image", 64), class("Cart", 160)], Vec::new());
        let names = |change: &MemoryComparison| {
            change.classes.iter().map(|row| row.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let whole = compare_tables(&before, &after);
        assert_eq!((names(&whole), whole.left_out), ("Image Item".to_owned(), 0));
        before.truncate_rows(1);
        assert!(before.cut.classes && !before.cut.leaks && before.left_out == 1);
        let cut = compare_tables(&before, &after);
        assert_eq!((names(&cut), cut.left_out), (String::new(), 2));
    }
}
