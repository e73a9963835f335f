//! Prints the summary of a log for people.

use unslide_captures_formats::malloc::{EventCounts, MemoryKind, MemoryRow, MemorySummary, StackRow};
use unslide_cli::{Table, note, say};

/// Rows of each list that people are shown.
const SHOWN_ROWS: usize = 20;

/// Prints the answer for people.
pub fn print_summary(answer: &MemorySummary) {
    print_skipped(answer);
    let MemoryRow { heap_bytes, heap_blocks, vm_bytes, vm_ranges } = answer.memory;
    let what = match answer.position {
        Some(position) => format!("live after {position} events"),
        None => "allocated, freed or not".to_owned(),
    };
    say!("{what}: {heap_bytes} bytes in {heap_blocks} blocks, {vm_bytes} bytes in {vm_ranges} ranges");
    if !answer.vm_tags.is_empty() {
        let mut table = Table::new(&["TAG", "BYTES", "RANGES"]);
        for row in answer.vm_tags.iter().take(SHOWN_ROWS) {
            table.add_row([row.name.clone(), row.bytes.to_string(), row.ranges.to_string()]);
        }
        table.print();
    }
    stacks_table(&answer.stacks);
    if let Some(history) = &answer.history {
        say!("live memory over time:");
        let mut table = Table::new(&["EVENTS", "HEAP BYTES", "BLOCKS", "VM BYTES"]);
        for (events, row) in history.events.iter().zip(&history.memory) {
            let MemoryRow { heap_bytes, heap_blocks, vm_bytes, .. } = row;
            table.add_row([
                events.to_string(),
                heap_bytes.to_string(),
                heap_blocks.to_string(),
                vm_bytes.to_string(),
            ]);
        }
        table.print();
    }
    if let Some(growth) = &answer.growth {
        say!("changed since:");
        let mut table = Table::new(&["GROWN", "KIND", "STACK", "FUNCTION"]);
        for row in growth.iter().take(SHOWN_ROWS) {
            table.add_row([
                row.grown_bytes.to_string(),
                kind_name(row.kind).to_owned(),
                row.stack.to_string(),
                row.allocator.clone(),
            ]);
        }
        table.print();
    }
    if let Some(older) = &answer.older {
        say!("allocated before and still live:");
        stacks_table(older);
    }
}

/// Says what could not be used.
pub fn print_skipped(answer: &MemorySummary) {
    let EventCounts { unknown_deallocations, replaced, empty, other, damaged, out_of_order, .. } =
        answer.counts;
    let parts = [
        (damaged, "damaged records were skipped"),
        (empty, "empty records were skipped"),
        (other, "records do not concern memory"),
        (out_of_order, "records of the sorted log are out of the order of addresses"),
        (unknown_deallocations, "deallocations are of memory that is not in the log"),
        (replaced, "allocations are at addresses that the log does not free before"),
        (answer.broken_stacks, "stacks are incomplete in the table"),
        (answer.left_out, "addresses have no names: the functions at all of them are too many"),
    ];
    for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
        note!("{count} {what}");
    }
    if answer.trailing_bytes > 0 {
        note!("{} bytes at the end are not a whole record", answer.trailing_bytes);
    }
}

fn stacks_table(rows: &[StackRow]) {
    let mut table = Table::new(&["BYTES", "NUMBER", "KIND", "STACK", "FUNCTION"]);
    for row in rows.iter().take(SHOWN_ROWS) {
        let StackRow { stack, kind, bytes, blocks, allocator, .. } = row;
        let kind = kind_name(*kind).to_owned();
        table.add_row([bytes.to_string(), blocks.to_string(), kind, stack.to_string(), allocator.clone()]);
    }
    table.print();
}

fn kind_name(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Heap => "heap",
        MemoryKind::Virtual => "virtual",
    }
}
