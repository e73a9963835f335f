//! Prints single records of a log: a list of them, or those about an address.

use unslide_captures_formats::malloc::{AddressRecords, LogQuestion, MemoryKind, RecordRow, SortedByAddress};
use unslide_cli::symbols::{Lacking, Library};
use unslide_cli::{Console, Exit, Outcome, Table, note, say};
use unslide_model::DebugId;

/// The most records of a list: the next page begins behind them.
const MOST_RECORDS: usize = 10_000;
/// Functions of a stack that people are shown.
const SHOWN_FUNCTIONS: usize = 40;

/// Lists the records of a question.
pub fn list_records(question: &LogQuestion<'_>, json: bool, library: &Library) -> Outcome {
    let question = LogQuestion { most_rows: MOST_RECORDS, ..*question };
    let list = question.list_records(&|id: &DebugId| library.find_symbols(id));
    let mut lacking = Lacking::default();
    lacking.add_images(list.lacking);
    lacking.print_lacking(library);
    if json {
        Console::get().print_json(&list.records)?;
    } else {
        record_table(&list.records).print();
    }
    if let Some(last) = list.records.last().filter(|_| list.more > 0) {
        note!("{} more events follow: --from {} lists the next", list.more, last.record);
    }
    Ok(Exit::Ready)
}

/// Prints the records about addresses. The exit code says if one has none.
pub fn find_addresses(
    question: &LogQuestion<'_>,
    addresses: &[u64],
    json: bool,
    library: &Library,
) -> Outcome {
    let (found, images) = question.find_addresses(addresses, &|id: &DebugId| library.find_symbols(id));
    let mut lacking = Lacking::default();
    lacking.add_images(images);
    lacking.print_lacking(library);
    let is_sorted = question.log.out_of_order().is_some();
    if is_sorted {
        note!("{SortedByAddress}");
    }
    match found.as_slice() {
        [one] if json => Console::get().print_json(one)?,
        several if json => Console::get().print_json(&several)?,
        several => several.iter().for_each(|one| print_address(one, is_sorted)),
    }
    Ok(if found.iter().any(|one| one.records.is_empty()) { Exit::Missing } else { Exit::Ready })
}

fn print_address(found: &AddressRecords, is_sorted: bool) {
    let AddressRecords { address, live_since, records, left_out } = found;
    let Some(last) = records.last() else {
        return say!("{address}: the log has no memory at it");
    };
    match live_since {
        Some(record) => say!("{address}: live since event {record}"),
        None if is_sorted => say!("{address}: in the order of the file"),
        None => say!("{address}: not live; the last event is {}", last.record),
    }
    if *left_out > 0 {
        note!("{left_out} earlier events of {address} are left out: --at ends before them");
    }
    record_table(records).print();
    // The stack that allocated the memory, and the one that freed it.
    let is_freed = |row: &&RecordRow| row.event == "freed";
    let allocated = records.iter().rev().find(|row| !is_freed(row));
    let freed = records.iter().rev().find(is_freed);
    for row in [allocated, freed].into_iter().flatten() {
        stack_lines(row).iter().for_each(|line| say!("{line}"));
    }
}

/// Describes a stack, a line for each function.
fn stack_lines(row: &RecordRow) -> Vec<String> {
    let thread = row.thread.as_deref().unwrap_or("unknown");
    let mut lines = vec![format!("event {} {} it, thread {thread}:", row.record, row.event)];
    lines.extend(row.functions.iter().take(SHOWN_FUNCTIONS).map(|function| format!("    {function}")));
    let more = row.functions.len().saturating_sub(SHOWN_FUNCTIONS);
    if more > 0 {
        lines.push(format!("    and {more} more"));
    }
    lines
}

fn record_table(rows: &[RecordRow]) -> Table {
    let mut table = Table::new(&["EVENT", "WHAT", "KIND", "ADDRESS", "BYTES", "STACK", "THREAD", "FUNCTION"]);
    for row in rows {
        let kind = match (row.kind, &row.tag) {
            (MemoryKind::Heap, _) => "heap".to_owned(),
            (MemoryKind::Virtual, Some(tag)) => format!("virtual {tag}"),
            (MemoryKind::Virtual, None) => "virtual".to_owned(),
        };
        table.add_row([
            row.record.to_string(),
            row.event.to_owned(),
            kind,
            row.address.clone(),
            row.bytes.to_string(),
            row.stack.to_string(),
            row.thread.clone().unwrap_or_default(),
            row.function.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stack_is_cut_for_people() {
        let functions = (0..50).map(|n| format!("f{n}")).collect();
        let row = RecordRow {
            record: 7,
            event: "freed",
            kind: MemoryKind::Heap,
            address: "0x10".to_owned(),
            bytes: 8,
            tag: None,
            stack: 3,
            thread: Some("0x103".to_owned()),
            function: "f0".to_owned(),
            functions,
        };
        let lines = stack_lines(&row);
        assert_eq!(lines[..2], ["event 7 freed it, thread 0x103:", "    f0"]);
        assert_eq!((lines.len(), lines[41].as_str()), (42, "    and 10 more"));
    }
}
