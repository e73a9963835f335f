//! The records of a log. A layout is stated, or detected from many records: see `layout_check`.

/// The bits of a record's type that name its event.
const ALLOCATED: u32 = 2;
const DEALLOCATED: u32 = 4;
const VM_ALLOCATED: u32 = 16;
const VM_DEALLOCATED: u32 = 32;
/// Bits of a type that has a meaning: the low byte, and the tag in the high one.
const KNOWN_BITS: u32 = 0xFF00_00FF;
/// The mask that stored addresses are combined with (XOR), so that tools that look for leaks do not take them
/// for references.
const DISGUISE: u64 = 0x5555;
const STACK_BITS: u64 = (1 << 48) - 1;

/// How a log lays out its records. All numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLayout {
    /// 24 bytes, of 64-bit processes: size, disguised address, and in one number the stack in bits 0–47, the VM
    /// tag in bits 48–55 and the type in bits 56–63.
    Disk64,
    /// 16 bytes, of 32-bit processes: the same with a size and an address of 32 bits.
    Disk32,
    /// 32 bytes: type, stack, size, address, each in 64 bits; the record that the API gives to an enumerator.
    Enumerator,
    /// 32 bytes: size, disguised address, stack, type, each in 64 bits; the index of newer systems.
    Index,
}

impl EventLayout {
    /// Returns the bytes of a record.
    #[must_use]
    pub fn record_size(self) -> usize {
        match self {
            EventLayout::Disk32 => 16,
            EventLayout::Disk64 => 24,
            EventLayout::Enumerator | EventLayout::Index => 32,
        }
    }

    /// Returns the raw fields of a record of the right size: size, address, stack, type.
    #[inline]
    fn parse_fields(self, record: &[u8]) -> (u64, u64, u64, u32) {
        let wide = |at: usize| {
            let bytes = record.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let packed = |word: u64| {
            // The tag and the type are whole bytes, which become the highest and the lowest of the type.
            let [.., tag, kind] = word.to_le_bytes();
            (word & STACK_BITS, u32::from_le_bytes([kind, 0, 0, tag]))
        };
        // The bits above the 32 bits of a type may be padding that was not cleared.
        let low = |word: u64| {
            let [a, b, c, d, ..] = word.to_le_bytes();
            u32::from_le_bytes([a, b, c, d])
        };
        match self {
            EventLayout::Disk64 => {
                let (stack, kind) = packed(wide(16));
                (wide(0), wide(8) ^ DISGUISE, stack, kind)
            }
            EventLayout::Disk32 => {
                let (both, (stack, kind)) = (wide(0), packed(wide(8)));
                (both & u64::from(u32::MAX), both >> 32 ^ DISGUISE, stack, kind)
            }
            EventLayout::Enumerator => (wide(16), wide(24), wide(8), low(wide(0))),
            EventLayout::Index => (wide(0), wide(8) ^ DISGUISE, wide(16), low(wide(24))),
        }
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Allocation,
    Deallocation,
    /// A block has a new size or place. If it moved, an event of its own frees the old one.
    Reallocation,
}

/// An event of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MallocEvent {
    /// The kind of the event.
    pub kind: EventKind,
    /// True for pages of virtual memory, false for a block of the heap.
    pub vm: bool,
    /// The tag of virtual memory.
    pub tag: u8,
    /// The address of the memory.
    pub address: u64,
    /// Its size; of memory that is freed it may be 0.
    pub size: u64,
    /// The stack that did it: a slot of the table.
    pub stack: u64,
}

/// The reason why a record is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvent {
    Empty,
    /// Something else than an allocation was logged.
    Other,
    /// No such record can be written.
    Damaged,
}

/// A log over its bytes.
#[derive(Clone, Copy, Debug)]
pub struct EventLog<'a> {
    bytes: &'a [u8],
    layout: EventLayout,
}

/// Neighbours with different addresses that show whether a log is sorted.
const FEWEST_NEIGHBOURS: u64 = 15;
/// One of this many neighbours in a sorted log may be out of order, because records get damaged.
const NEIGHBOURS_OF_ONE_BREAK: u64 = 100;

/// How addresses follow each other.
#[derive(Clone, Copy, Debug, Default)]
struct AddressSteps {
    rises: u64,
    falls: u64,
}

impl AddressSteps {
    fn count_step(&mut self, before: u64, after: u64) {
        self.rises += u64::from(before < after);
        self.falls += u64::from(before > after);
    }

    /// Steps against the order, which rises or falls.
    fn count_breaks(self) -> u64 {
        self.rises.min(self.falls)
    }

    /// Returns true if few enough steps break the order.
    fn is_sorted(self) -> bool {
        let steps = self.rises + self.falls;
        steps >= FEWEST_NEIGHBOURS && self.count_breaks() * NEIGHBOURS_OF_ONE_BREAK < steps
    }
}

impl<'a> EventLog<'a> {
    /// Creates a log over these bytes without checks. [`EventLog::from_bytes`] checks the layout.
    #[must_use]
    pub fn new(bytes: &'a [u8], layout: EventLayout) -> EventLog<'a> {
        EventLog { bytes, layout }
    }

    /// Returns the number of whole records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.layout.record_size()
    }

    /// Returns true if there is no whole record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if all bytes of a record are zero: it was not written.
    pub(super) fn is_zero(&self, number: usize) -> bool {
        let size = self.layout.record_size();
        let record = number.checked_mul(size).and_then(|at| self.bytes.get(at..)?.get(..size));
        record.is_some_and(|record| record.iter().all(|byte| *byte == 0))
    }

    /// Returns the number of bytes after the last whole record, which was not written to the end.
    #[must_use]
    pub fn trailing_bytes(&self) -> usize {
        self.bytes.len() % self.layout.record_size()
    }

    /// Returns the records from `first` to before `end`, as events or the reasons why they are none.
    pub fn events(
        &self,
        first: usize,
        end: usize,
    ) -> impl Iterator<Item = Result<MallocEvent, NoEvent>> + use<'a> {
        let (size, layout) = (self.layout.record_size(), self.layout);
        let end = end.min(self.len());
        let records = self.bytes.get(first.min(end) * size..end * size).unwrap_or_default();
        records.chunks_exact(size).map(move |record| parse_event(layout, record))
    }

    /// Returns the number of records that break the order of addresses. Returns `None` if the log is not
    /// sorted by them. A tool may have sorted plain or stored addresses, up or down. The order of events is
    /// then not known.
    #[must_use]
    pub fn out_of_order(&self) -> Option<u64> {
        let most = self.len() as u64 / NEIGHBOURS_OF_ONE_BREAK;
        let (mut plain, mut disguised) = (AddressSteps::default(), AddressSteps::default());
        let mut addresses = self.events(0, self.len()).filter_map(Result::ok).map(|event| event.address);
        let mut last = addresses.next()?;
        for address in addresses {
            plain.count_step(last, address);
            disguised.count_step(last ^ DISGUISE, address ^ DISGUISE);
            if plain.count_breaks() > most && disguised.count_breaks() > most {
                return None;
            }
            last = address;
        }
        let sorted = [plain, disguised].into_iter().filter(|steps| steps.is_sorted());
        sorted.map(AddressSteps::count_breaks).min()
    }
}

#[inline]
fn parse_event(layout: EventLayout, record: &[u8]) -> Result<MallocEvent, NoEvent> {
    let (size, address, stack, flags) = layout.parse_fields(record);
    if flags & 0xFF == 0 {
        return Err(NoEvent::Empty);
    }
    if flags & !KNOWN_BITS != 0 || address.checked_add(size).is_none() {
        return Err(NoEvent::Damaged);
    }
    let has = |bit: u32| flags & bit != 0;
    let kind = match (has(ALLOCATED), has(DEALLOCATED), has(VM_ALLOCATED), has(VM_DEALLOCATED)) {
        (true, false, false, false) | (false, false, true, false) => EventKind::Allocation,
        (false, true, false, false) | (false, false, false, true) => EventKind::Deallocation,
        (true, true, false, false) => EventKind::Reallocation,
        (false, false, false, false) => return Err(NoEvent::Other),
        _ => return Err(NoEvent::Damaged),
    };
    // A call that failed has allocated nothing.
    if address == 0 {
        return Err(NoEvent::Other);
    }
    let [.., tag] = flags.to_le_bytes();
    let vm = has(VM_ALLOCATED) || has(VM_DEALLOCATED);
    Ok(MallocEvent { kind, vm, tag, address, size, stack })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record in a layout.
    pub(crate) fn record(layout: EventLayout, flags: u32, address: u64, size: u64, stack: u64) -> Vec<u8> {
        let packed = stack | u64::from(flags >> 24) << 48 | u64::from(flags & 0xFF) << 56;
        let (narrow_size, narrow_address) = (size as u32, (address ^ DISGUISE) as u32);
        match layout {
            EventLayout::Disk64 => [size, address ^ DISGUISE, packed].map(u64::to_le_bytes).concat(),
            EventLayout::Disk32 => {
                [&narrow_size.to_le_bytes()[..], &narrow_address.to_le_bytes(), &packed.to_le_bytes()]
                    .concat()
            }
            EventLayout::Enumerator => {
                // The padding behind the type is not cleared.
                let flags = u64::from(flags) | 0xDEAD_BEEF << 32;
                [flags, stack, size, address].map(u64::to_le_bytes).concat()
            }
            EventLayout::Index => {
                [size, address ^ DISGUISE, stack, u64::from(flags)].map(u64::to_le_bytes).concat()
            }
        }
    }

    pub(crate) const LAYOUTS: [EventLayout; 4] =
        [EventLayout::Disk64, EventLayout::Disk32, EventLayout::Enumerator, EventLayout::Index];

    #[test]
    fn every_layout_says_the_same() {
        for layout in LAYOUTS {
            let bytes = record(layout, 16 | 8 | 33 << 24, 0x7fff_1000, 4096, 0x1234_5678_9abc);
            assert_eq!(bytes.len(), layout.record_size());
            let expected = MallocEvent {
                kind: EventKind::Allocation,
                vm: true,
                tag: 33,
                address: 0x7fff_1000,
                size: 4096,
                stack: 0x1234_5678_9abc,
            };
            assert_eq!(EventLog::new(&bytes, layout).events(0, 1).next(), Some(Ok(expected)), "{layout:?}");
        }
    }

    #[test]
    fn types_are_bits_and_not_numbers() {
        let kind = |flags: u32| {
            let bytes = record(EventLayout::Index, flags, 0x1000, 1, 1);
            EventLog::new(&bytes, EventLayout::Index).events(0, 1).next().unwrap().map(|event| event.kind)
        };
        assert_eq!((kind(2), kind(2 | 8 | 64)), (Ok(EventKind::Allocation), Ok(EventKind::Allocation)));
        assert_eq!((kind(4), kind(32)), (Ok(EventKind::Deallocation), Ok(EventKind::Deallocation)));
        assert_eq!((kind(6), kind(16 | 128)), (Ok(EventKind::Reallocation), Ok(EventKind::Allocation)));
        assert_eq!((kind(0), kind(1)), (Err(NoEvent::Empty), Err(NoEvent::Other)));
        assert_eq!((kind(2 | 16), kind(2 | 0x100)), (Err(NoEvent::Damaged), Err(NoEvent::Damaged)));
    }

    #[test]
    fn a_cut_record_is_not_read() {
        let bytes = record(EventLayout::Disk64, 2, 0x1000, 1, 1).repeat(3);
        let log = EventLog::new(&bytes[..60], EventLayout::Disk64);
        assert_eq!((log.len(), log.trailing_bytes(), log.events(0, 9).count()), (2, 12, 2));
    }

    fn out_of_order(addresses: &[u64]) -> Option<u64> {
        let log: Vec<u8> =
            addresses.iter().flat_map(|at| record(EventLayout::Disk64, 2, *at, 1, 1)).collect();
        EventLog::new(&log, EventLayout::Disk64).out_of_order()
    }

    #[test]
    fn rising_addresses_are_a_sorted_log() {
        let rising: Vec<u64> = (1..=20).map(|n| n * 16).collect();
        assert_eq!((out_of_order(&rising), out_of_order(&rising[..10])), (Some(0), None));
        assert_eq!(out_of_order(&[&rising[..], &[16]].concat()), None);
        assert_eq!(out_of_order(&[]), None);
        // One block that is allocated and freed again and again.
        assert_eq!(out_of_order(&[16; 100]), None);
    }

    #[test]
    fn a_sorted_log_stays_one_whatever_the_order_and_with_a_damaged_record() {
        let rising: Vec<u64> = (1..=1_000).map(|n| n * 16).collect();
        let falling: Vec<u64> = rising.iter().rev().copied().collect();
        let mut disguised = rising.clone();
        disguised.sort_unstable_by_key(|address| address ^ DISGUISE);
        for mut addresses in [rising, falling, disguised] {
            assert_eq!(out_of_order(&addresses), Some(0));
            addresses[500] = 1 << 40;
            assert_eq!(out_of_order(&addresses), Some(1));
            for at in (1..1_000).step_by(50) {
                addresses[at] = 1 << 40;
            }
            assert_eq!(out_of_order(&addresses), None);
        }
    }
}
