//! Single records of a log: those in a range, and those about an address. `malloc_history` answers the same of a live process.

use super::event::{EventKind, MallocEvent};
use super::stack_table::StackTable;
use super::summary::{LogQuestion, find_stack_nodes};
use super::totals::{MemoryKind, StackMemory, StackTotals};
use super::tree::{StackTree, stack_tree};
use super::vm_tag::vm_tag_name;
use serde::Serialize;
use std::collections::VecDeque;
use unslide_calltree::Amount;
use unslide_model::DebugId;
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The most records about one address that are kept: the last ones.
const MOST_ADDRESS_RECORDS: usize = 100;

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordRow {
    /// Its number from 1: after this many events it has happened.
    pub record: usize,
    /// One of `allocated`, `freed` and `reallocated`.
    pub event: &'static str,
    pub kind: MemoryKind,
    /// The address of the memory, in hexadecimal.
    pub address: String,
    /// The bytes of the memory; 0 if memory that is freed has none.
    pub bytes: u64,
    /// The name of the tag of virtual memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The stack's number in the table.
    pub stack: u64,
    /// The number of the thread, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The innermost function of the app, or of all.
    pub function: String,
    /// The functions of the stack, the innermost first; empty in lists of records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// Records of a log, in their order.
#[derive(Clone, Debug)]
pub struct RecordList {
    pub records: Vec<RecordRow>,
    /// The number of events behind the last one of the list.
    pub more: usize,
    /// The images with frames that have no names because symbols are missing.
    pub lacking: Vec<ImageOutcome>,
}

/// The records about the memory at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressRecords {
    /// The requested address, in hexadecimal digits.
    pub address: String,
    /// The record that allocated the memory if it is live. Absent if it is not, and for a log that is sorted by address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_since: Option<usize>,
    /// The records, in their order.
    pub records: Vec<RecordRow>,
    /// Earlier records that are left out.
    pub left_out: u64,
}

/// A record and its number.
type NumberedEvent = (usize, MallocEvent);

/// The names of the stacks of records.
struct RecordNames<'q> {
    tree: StackTree,
    table: StackTable<'q>,
}

impl<'q> RecordNames<'q> {
    fn for_events<'s, 'e>(
        question: &LogQuestion<'q>,
        events: impl Iterator<Item = &'e NumberedEvent>,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> RecordNames<'q> {
        let totals: StackTotals = events.map(|(_, event)| (stack_of(event), Amount::default())).collect();
        let tree = stack_tree(&totals, &question.table, question.images, symbols);
        RecordNames { tree, table: question.table }
    }

    /// Returns the row of a record, with at most `functions` functions.
    fn describe_record(&self, numbered: &NumberedEvent, functions: usize) -> RecordRow {
        let (number, event) = numbered;
        let MallocEvent { address, size, stack, tag, .. } = *event;
        let of = stack_of(event);
        let nodes = find_stack_nodes(of, &[&self.tree]);
        let thread = self.table.walk_stack(stack).thread;
        RecordRow {
            record: number + 1,
            event: match event.kind {
                EventKind::Allocation => "allocated",
                EventKind::Deallocation => "freed",
                EventKind::Reallocation => "reallocated",
            },
            kind: of.kind,
            address: format!("{address:#x}"),
            bytes: size,
            tag: (of.kind == MemoryKind::Virtual).then(|| vm_tag_name(tag).into_owned()),
            stack,
            thread: thread.map(|thread| format!("{thread:#x}")),
            function: nodes.describe_allocator(),
            functions: nodes.describe_functions(functions),
        }
    }
}

impl LogQuestion<'_> {
    /// Lists the records from [`LogQuestion::from`] on, up to [`LogQuestion::at`], at most [`LogQuestion::most_rows`].
    /// Records that are no events are left out.
    pub fn list_records<'s>(&self, symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>) -> RecordList {
        let (first, end) = (self.from.unwrap_or(0), self.at.unwrap_or(usize::MAX));
        let mut events = self.numbered_events(first, end);
        let listed: Vec<NumberedEvent> = events.by_ref().take(self.most_rows).collect();
        let names = RecordNames::for_events(self, listed.iter(), symbols);
        RecordList {
            records: listed.iter().map(|event| names.describe_record(event, 0)).collect(),
            more: events.count(),
            lacking: names.tree.lacking,
        }
    }

    /// Finds the records about the memory at addresses, up to [`LogQuestion::at`].
    pub fn find_addresses<'s>(
        &self,
        addresses: &[u64],
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> (Vec<AddressRecords>, Vec<ImageOutcome>) {
        let mut watched: Vec<WatchedAddress> =
            addresses.iter().map(|address| WatchedAddress::new(*address)).collect();
        for event in self.numbered_events(0, self.at.unwrap_or(usize::MAX)) {
            watched.iter_mut().for_each(|watched| watched.apply_event(event));
        }
        let names = RecordNames::for_events(self, watched.iter().flat_map(|one| &one.records), symbols);
        let is_sorted = self.log.out_of_order().is_some();
        let found = watched.into_iter().map(|one| AddressRecords {
            address: format!("{:#x}", one.address),
            live_since: one.live_since().filter(|_| !is_sorted),
            records: one
                .records
                .iter()
                .map(|event| names.describe_record(event, self.most_functions))
                .collect(),
            left_out: one.left_out,
        });
        (found.collect(), names.tree.lacking.clone())
    }

    /// Returns the events of a range with their numbers from 0.
    fn numbered_events(&self, first: usize, end: usize) -> impl Iterator<Item = NumberedEvent> {
        let events = self.log.events(first, end);
        (first..).zip(events).filter_map(|(number, event)| Some((number, event.ok()?)))
    }
}

fn stack_of(event: &MallocEvent) -> StackMemory {
    let kind = if event.vm { MemoryKind::Virtual } else { MemoryKind::Heap };
    StackMemory { stack: event.stack, kind }
}

/// An address, with the memory that holds it at a moment.
struct WatchedAddress {
    address: u64,
    /// The start of the block that holds the address, and the number of its record.
    block: Option<(u64, usize)>,
    /// The range of virtual memory that holds the address, and the number of its record.
    range: Option<(u64, u64, usize)>,
    records: VecDeque<NumberedEvent>,
    left_out: u64,
}

impl WatchedAddress {
    fn new(address: u64) -> WatchedAddress {
        WatchedAddress { address, block: None, range: None, records: VecDeque::new(), left_out: 0 }
    }

    /// Returns the number from 1 of the record that allocated the live memory at the address.
    fn live_since(&self) -> Option<usize> {
        let block = self.block.map(|(_, number)| number);
        Some(block.or(self.range.map(|(.., number)| number))? + 1)
    }

    fn apply_event(&mut self, event: NumberedEvent) {
        let is_about = if event.1.vm { self.apply_range(event) } else { self.apply_block(event) };
        if !is_about {
            return;
        }
        if self.records.len() == MOST_ADDRESS_RECORDS {
            self.records.pop_front();
            self.left_out += 1;
        }
        self.records.push_back(event);
    }

    /// Applies an event of the heap. Returns true if it is about the address.
    fn apply_block(&mut self, (number, event): NumberedEvent) -> bool {
        let is_held = self.block.is_some_and(|(start, _)| start == event.address);
        let holds = match event.kind {
            EventKind::Deallocation => false,
            // A block without bytes has an address, too.
            EventKind::Allocation | EventKind::Reallocation => self.lies_in(event.address, event.size.max(1)),
        };
        if holds {
            self.block = Some((event.address, number));
        } else if is_held {
            // It was freed, or its block has become smaller.
            self.block = None;
        }
        holds || is_held || event.address == self.address
    }

    /// Applies an event of virtual memory. Returns true if it is about the address.
    fn apply_range(&mut self, (number, event): NumberedEvent) -> bool {
        let (start, end) = (event.address, event.address.saturating_add(event.size));
        // A deallocation without a size frees the range that begins there.
        let is_whole = event.kind == EventKind::Deallocation && event.size == 0;
        let is_held = is_whole && self.range.is_some_and(|(held, ..)| held == start);
        let holds = self.lies_in(start, event.size);
        if event.kind != EventKind::Deallocation && holds {
            self.range = Some((start, end, number));
        } else if holds || is_held {
            self.range = None;
        } else if let Some((held_start, held_end, _)) = &mut self.range
            && event.size > 0
        {
            // A part beside the address is freed or replaced.
            if end <= self.address {
                *held_start = end.max(*held_start);
            } else {
                *held_end = start.min(*held_end);
            }
        }
        holds || is_held
    }

    fn lies_in(&self, start: u64, size: u64) -> bool {
        self.address.checked_sub(start).is_some_and(|offset| offset < size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::{LAYOUTS, record};
    use super::super::event::{EventLayout, EventLog};
    use super::super::stack_table::SlotForm;
    use super::super::stack_table::tests::{ROOT, plain};
    use super::*;
    use crate::profile::ProfileImage;

    /// A log, and a table in which stack 2 is `0x1010` in thread 0x103 and stack 3 is called by it.
    fn answer<T>(
        layout: EventLayout,
        events: &[(u32, u64, u64, u64)],
        ask: impl FnOnce(LogQuestion<'_>) -> T,
    ) -> T {
        let table = plain(&[(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 2)]);
        let records =
            events.iter().flat_map(|(flags, at, size, stack)| record(layout, *flags, *at, *size, *stack));
        let bytes: Vec<u8> = records.collect();
        let image = ProfileImage {
            name: "Shop".to_owned(),
            path: "/Applications/Shop".to_owned(),
            start: 0x1000,
            end: Some(0x2000),
            ..ProfileImage::default()
        };
        ask(LogQuestion {
            log: EventLog::new(&bytes, layout),
            table: StackTable::new(&table, SlotForm::Plain),
            images: &[image],
            at: None,
            from: None,
            history: false,
            most_rows: 3,
            most_functions: 10,
        })
    }

    fn shown(records: &[RecordRow]) -> Vec<(usize, &str, u64)> {
        records.iter().map(|row| (row.record, row.event, row.stack)).collect()
    }

    fn find(events: &[(u32, u64, u64, u64)], at: Option<usize>, address: u64) -> AddressRecords {
        answer(EventLayout::Index, events, |question| {
            let (mut found, _) = LogQuestion { at, ..question }.find_addresses(&[address], &|_| None);
            found.remove(0)
        })
    }

    #[test]
    fn an_address_has_the_stacks_that_allocated_and_freed_its_block() {
        let events =
            [(2, 0x9000, 64, 2), (2, 0x9100, 8, 3), (4, 0x9000, 0, 3), (2, 0x9000, 32, 3), (1, 0x9000, 1, 1)];
        for layout in LAYOUTS {
            let (found, _) = answer(layout, &events, |question| {
                question.find_addresses(&[0x9000, 0x9030, 0x9107, 0x9108], &|_| None)
            });
            assert_eq!(
                shown(&found[0].records),
                [(1, "allocated", 2), (3, "freed", 3), (4, "allocated", 3)],
                "{layout:?}"
            );
            assert_eq!(found[0].live_since, Some(4));
            let first = &found[0].records[0];
            assert_eq!(
                (first.bytes, first.thread.as_deref(), first.function.as_str()),
                (64, Some("0x103"), "Shop + 16 (Shop)")
            );
            assert_eq!(found[0].records[1].functions, ["Shop + 32 (Shop)", "Shop + 16 (Shop)"]);
            // The second block at the address is too short for this byte of the first one.
            assert_eq!(
                (shown(&found[1].records), found[1].live_since),
                (vec![(1, "allocated", 2), (3, "freed", 3)], None)
            );
            assert_eq!((shown(&found[2].records), found[2].live_since), (vec![(2, "allocated", 3)], Some(2)));
            assert!(found[3].records.is_empty() && found[3].live_since.is_none());
        }
    }

    #[test]
    fn the_answer_is_that_of_the_moment() {
        let events = [(2, 0x9000, 64, 2), (4, 0x9000, 0, 3)];
        assert_eq!(find(&events, Some(1), 0x9010).live_since, Some(1));
        assert_eq!(find(&events, Some(2), 0x9010).live_since, None);
        assert_eq!(find(&events, Some(0), 0x9010).records, []);
    }

    #[test]
    fn a_block_that_is_moved_or_cut_by_a_reallocation_no_longer_holds_the_address() {
        let cut = find(&[(2, 0x9000, 64, 2), (6, 0x9000, 16, 3)], None, 0x9030);
        assert_eq!(
            (shown(&cut.records), cut.live_since),
            (vec![(1, "allocated", 2), (2, "reallocated", 3)], None)
        );
        let kept = find(&[(2, 0x9000, 16, 2), (6, 0x9000, 64, 3)], None, 0x9030);
        assert_eq!((shown(&kept.records), kept.live_since), (vec![(2, "reallocated", 3)], Some(2)));
        let moved = find(&[(2, 0x9000, 64, 2), (4, 0x9000, 0, 3), (6, 0xa000, 99, 3)], None, 0x9030);
        assert_eq!(
            (shown(&moved.records), moved.live_since),
            (vec![(1, "allocated", 2), (2, "freed", 3)], None)
        );
        // The log lacks the record that allocated this block, and it is freed at the address itself.
        assert_eq!(shown(&find(&[(4, 0x9000, 0, 3)], None, 0x9000).records), [(1, "freed", 3)]);
    }

    #[test]
    fn a_range_of_virtual_memory_holds_an_address_until_its_part_is_freed() {
        let range = (16 | 7 << 24, 0x10_0000, 0x4000, 2);
        let freed = find(&[range, (32, 0x10_0000, 0x1000, 3), (32, 0x10_3000, 0x1000, 3)], None, 0x10_1000);
        assert_eq!((shown(&freed.records), freed.live_since), (vec![(1, "allocated", 2)], Some(1)));
        assert_eq!(freed.records[0].tag.as_deref(), Some(vm_tag_name(7).as_ref()));
        // The rest begins at the address, and is freed without a size.
        let rest = [range, (32, 0x10_0000, 0x1000, 3), (32, 0x10_1000, 0, 3)];
        assert_eq!(
            (shown(&find(&rest, None, 0x10_2000).records), find(&rest, None, 0x10_2000).live_since),
            (vec![(1, "allocated", 2), (3, "freed", 3)], None)
        );
        // A block of the heap in a range of virtual memory counts first.
        let both = find(&[range, (2, 0x10_1000, 32, 3)], None, 0x10_1000);
        assert_eq!((both.records.len(), both.live_since), (2, Some(2)));
    }

    #[test]
    fn a_busy_address_keeps_its_last_records() {
        let events: Vec<_> = (0..150).flat_map(|_| [(2, 0x9000, 64, 2), (4, 0x9000, 0, 3)]).collect();
        let found = find(&events, None, 0x9000);
        assert_eq!(
            (found.records.len(), found.left_out, found.records[99].record),
            (MOST_ADDRESS_RECORDS, 200, 300)
        );
    }

    #[test]
    fn records_are_listed_in_pages() {
        let events = [
            (2, 0x9000, 64, 2),
            (1, 1, 1, 1),
            (16 | 7 << 24, 0x8000, 4096, 3),
            (4, 0x9000, 0, 3),
            (32, 0x8000, 0, 2),
            (2, 0x9000, 1, 2),
        ];
        answer(EventLayout::Disk64, &events, |question| {
            let list = question.list_records(&|_| None);
            assert_eq!(shown(&list.records), [(1, "allocated", 2), (3, "allocated", 3), (4, "freed", 3)]);
            assert_eq!((list.more, list.records[1].kind, list.lacking.len()), (2, MemoryKind::Virtual, 1));
            assert!(list.records[1].functions.is_empty() && list.records[1].function == "Shop + 32 (Shop)");
            let next = LogQuestion { from: Some(4), at: Some(5), ..question }.list_records(&|_| None);
            assert_eq!((shown(&next.records), next.more), (vec![(5, "freed", 2)], 0));
        });
    }
}
