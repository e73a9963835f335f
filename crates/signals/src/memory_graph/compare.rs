//! What changed between two snapshots: classes that grew or shrank, and leaks that are new.

use super::tables::{ClassRow, LeakRow, MemoryTables};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// What changed between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryComparison {
    /// Classes with another number of blocks or bytes, those that grew most first.
    pub classes: Vec<ClassGrowth>,
    /// Leaks of shapes that are new, or that there are more of: what came to them.
    pub leaks: Vec<LeakRow>,
    /// Rows that were left out.
    pub left_out: u64,
}

/// How a class has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassGrowth {
    /// Its name.
    pub name: String,
    /// The image that has it; empty where it is not known.
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
    /// The bytes that came to it; below 0 where it shrank.
    #[must_use]
    pub fn bytes(&self) -> i128 {
        i128::from(self.bytes_after) - i128::from(self.bytes_before)
    }
}

/// Compares two snapshots, whose tables have all their rows.
#[must_use]
pub fn compare(before: &MemoryTables, after: &MemoryTables) -> MemoryComparison {
    MemoryComparison { classes: classes(before, after), leaks: leaks(before, after), left_out: 0 }
}

impl MemoryComparison {
    /// Keeps at most `rows` rows of each list.
    pub fn truncate(&mut self, rows: usize) {
        self.left_out +=
            (self.classes.len().saturating_sub(rows) + self.leaks.len().saturating_sub(rows)) as u64;
        self.classes.truncate(rows);
        self.leaks.truncate(rows);
    }
}

fn classes(before: &MemoryTables, after: &MemoryTables) -> Vec<ClassGrowth> {
    let mut rows: BTreeMap<(&str, &str), ClassGrowth> = BTreeMap::new();
    for (is_after, class) in
        before.classes.iter().map(|row| (false, row)).chain(after.classes.iter().map(|row| (true, row)))
    {
        let row = rows.entry((&class.name, &class.image)).or_insert_with(|| unchanged(class));
        let (blocks, bytes) = match is_after {
            false => (&mut row.blocks_before, &mut row.bytes_before),
            true => (&mut row.blocks_after, &mut row.bytes_after),
        };
        *blocks = blocks.saturating_add(class.blocks);
        *bytes = bytes.saturating_add(class.bytes);
    }
    let mut rows: Vec<ClassGrowth> = rows.into_values().collect();
    rows.retain(|row| row.bytes() != 0 || row.blocks_before != row.blocks_after);
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes()));
    rows
}

fn unchanged(class: &ClassRow) -> ClassGrowth {
    ClassGrowth {
        name: class.name.clone(),
        image: class.image.clone(),
        blocks_before: 0,
        blocks_after: 0,
        bytes_before: 0,
        bytes_after: 0,
    }
}

fn leaks(before: &MemoryTables, after: &MemoryTables) -> Vec<LeakRow> {
    let known: HashMap<&str, &LeakRow> =
        before.leaks.iter().map(|leak| (leak.signature.as_str(), leak)).collect();
    let more = |leak: &LeakRow| {
        let Some(known) = known.get(leak.signature.as_str()) else { return Some(leak.clone()) };
        let leaks = leak.leaks.checked_sub(known.leaks).filter(|more| *more > 0)?;
        let blocks = leak.blocks.saturating_sub(known.blocks);
        Some(LeakRow { leaks, blocks, bytes: leak.bytes.saturating_sub(known.bytes), ..leak.clone() })
    };
    after.leaks.iter().filter_map(more).collect()
}
