//! Shows tables about memory, as JSON and for people.

use super::origin::Origins;
use serde::Serialize;
use unslide_captures_formats::memory_graph::{
    BlockDetail, BlockRow, ClassRow, LeakRow, MemberLabel, MemoryComparison, MemorySource, MemoryTables,
    MemoryTotals, NeighbourRow, PathStep, RegionRow, format_path,
};
use unslide_cli::{Table, note, say};

/// Rows of each list that people are shown.
const SHOWN_ROWS: usize = 20;

/// The tables of one snapshot, or of two with their comparison.
#[derive(Serialize)]
pub struct GraphAnswer {
    pub memory: MemoryTables,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<MemoryComparison>,
    /// The functions that created the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origins: Option<Origins>,
}

impl GraphAnswer {
    /// Prints the answer for people.
    pub fn print_answer(&self) {
        if self.memory.skipped > 0 {
            note!("{} lines look like rows and cannot be read", self.memory.skipped);
        }
        if let Some(block) = &self.block {
            print_block(block);
            self.origins.iter().for_each(Origins::print_block);
        } else if let Some(comparison) = &self.comparison {
            print_comparison(comparison);
        } else {
            print_tables(&self.memory);
            self.origins.iter().for_each(Origins::print_classes);
        }
    }
}

fn print_tables(tables: &MemoryTables) {
    let MemoryTotals { blocks, bytes, leaked_blocks, leaked_bytes, footprint, .. } = tables.totals;
    if blocks > 0 {
        let leaked = match tables.source {
            MemorySource::MemoryGraph | MemorySource::Leaks => {
                format!("; {leaked_bytes} bytes in {leaked_blocks} of them are leaked")
            }
            MemorySource::Heap | MemorySource::Vmmap | MemorySource::Footprint => String::new(),
        };
        say!("{bytes} bytes in {blocks} blocks{leaked}");
    }
    if let Some(footprint) = footprint {
        say!("footprint: {footprint} bytes");
    }
    print_regions(&tables.regions);
    print_classes(&tables.classes);
    if !tables.largest.is_empty() {
        say!("what keeps most memory alive:");
        let mut table = Table::new(&["RETAINED", "BYTES", "ADDRESS", "CLASS"]);
        for row in tables.largest.iter().take(SHOWN_ROWS) {
            let BlockRow { retained, bytes, address, class, .. } = row;
            table.add_row([retained.to_string(), bytes.to_string(), address.clone(), class.clone()]);
        }
        table.print();
    }
    if !tables.leaks.is_empty() {
        say!("leaks:");
        print_leaks(&tables.leaks);
    }
}

fn print_regions(rows: &[RegionRow]) {
    if rows.is_empty() {
        return;
    }
    let shown = |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let mut table = Table::new(&["DIRTY", "SWAPPED", "SIZE", "REGIONS", "NAME"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let regions = row.regions.to_string();
        table.add_row([
            row.dirty.to_string(),
            shown(row.swapped),
            shown(row.size),
            regions,
            row.name.clone(),
        ]);
    }
    table.print();
}

fn print_classes(rows: &[ClassRow]) {
    if rows.is_empty() {
        return;
    }
    let mut table = Table::new(&["BYTES", "BLOCKS", "RETAINED", "IMAGE", "CLASS"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let retained = row.retained.map_or_else(String::new, |bytes| bytes.to_string());
        let (bytes, blocks) = (row.bytes.to_string(), row.blocks.to_string());
        table.add_row([bytes, blocks, retained, row.image.clone(), row.name.clone()]);
    }
    table.print();
}

fn print_leaks(rows: &[LeakRow]) {
    let mut table = Table::new(&["BYTES", "BLOCKS", "LEAKS", "KIND", "EXAMPLE", "WHAT"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let kind = if row.cycle { "cycle" } else { "leak" };
        let numbers = [row.bytes, row.blocks, row.leaks].map(|number| number.to_string());
        let [bytes, blocks, leaks] = numbers;
        table.add_row([bytes, blocks, leaks, kind.to_owned(), row.example.clone(), row.name.clone()]);
    }
    table.print();
}

fn print_block(detail: &BlockDetail) {
    let BlockRow { address, class, bytes, retained, path } = &detail.block;
    say!("{class} {address}: {bytes} bytes; {retained} bytes would be free without it");
    print_path(path);
    if path.len() > 1 {
        say!("{}", format_path(path));
    }
    if !detail.referrers.is_empty() {
        say!("{} references to it:", detail.referrer_count);
        print_references(&detail.referrers);
    }
    if !detail.references.is_empty() {
        say!("{} references from it:", detail.reference_count);
        print_references(&detail.references);
    }
    if !detail.keeps.is_empty() {
        say!("{} blocks that only it keeps alive directly:", detail.keeps_count);
        let mut table = Table::new(&["RETAINED", "BYTES", "ADDRESS", "CLASS"]);
        for row in detail.keeps.iter().take(SHOWN_ROWS) {
            let [retained, bytes] = [row.retained, row.bytes].map(|bytes| bytes.to_string());
            table.add_row([retained, bytes, row.address.clone(), row.class.clone()]);
        }
        table.print();
    }
}

fn print_references(rows: &[NeighbourRow]) {
    let mut table = Table::new(&["BY", "OFFSET", "MEMBER", "ADDRESS", "CLASS"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let offset = row.offset.map_or_else(String::new, |offset| offset.to_string());
        let member = row.member.as_ref().map(MemberLabel::describe).unwrap_or_default();
        table.add_row([row.by.clone(), offset, member, row.address.clone(), row.class.clone()]);
    }
    table.print();
}

fn print_path(path: &[PathStep]) {
    if path.is_empty() {
        say!("no root reaches it: it is leaked, or part of a leak");
        return;
    }
    let mut table = Table::new(&["BY", "OFFSET", "MEMBER", "ADDRESS", "CLASS"]);
    for step in path {
        if step.left_out > 0 {
            let empty = String::new;
            table.add_row([format!("… {} more", step.left_out), empty(), empty(), empty(), empty()]);
        }
        let offset = step.offset.map_or_else(String::new, |offset| offset.to_string());
        let member = step.member.as_ref().map(MemberLabel::describe).unwrap_or_default();
        table.add_row([step.by.clone(), offset, member, step.address.clone(), step.class.clone()]);
    }
    table.print();
}

fn print_comparison(comparison: &MemoryComparison) {
    if comparison.classes.is_empty() && comparison.regions.is_empty() && comparison.leaks.is_empty() {
        say!("nothing has grown or shrunk");
    }
    if !comparison.classes.is_empty() {
        let mut table = Table::new(&["GROWN", "BLOCKS BEFORE", "AFTER", "IMAGE", "CLASS"]);
        for row in comparison.classes.iter().take(SHOWN_ROWS) {
            let (before, after) = (row.blocks_before.to_string(), row.blocks_after.to_string());
            table.add_row([
                row.grown_bytes().to_string(),
                before,
                after,
                row.image.clone(),
                row.name.clone(),
            ]);
        }
        table.print();
    }
    if !comparison.regions.is_empty() {
        say!("regions, dirty and swapped:");
        let mut table = Table::new(&["GROWN", "BEFORE", "AFTER", "NAME"]);
        for row in comparison.regions.iter().take(SHOWN_ROWS) {
            let (before, after) = row.charged_bytes();
            let grown = i128::from(after) - i128::from(before);
            table.add_row([grown.to_string(), before.to_string(), after.to_string(), row.name.clone()]);
        }
        table.print();
    }
    if !comparison.leaks.is_empty() {
        say!("new leaks:");
        print_leaks(&comparison.leaks);
    }
}
