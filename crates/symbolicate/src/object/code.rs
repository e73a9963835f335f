//! The sections of machine code, as offsets from `__TEXT`.

use super::macho::MachFile;
use std::ops::Range;

/// The sections of machine code. Addresses outside them belong to no function, even if the debug information
/// says so: linkers leave 0 or a tombstone for functions that they removed.
#[derive(Debug)]
pub(super) struct CodeMap {
    base: u64,
    /// Ascending, without overlap.
    sections: Vec<Range<u64>>,
}

impl CodeMap {
    pub(super) fn new(file: &MachFile<'_>) -> CodeMap {
        CodeMap::from_file(file, true)
    }

    /// Returns a map of the sections without machine code.
    pub(super) fn for_data(file: &MachFile<'_>) -> CodeMap {
        CodeMap::from_file(file, false)
    }

    fn from_file(file: &MachFile<'_>, is_code: bool) -> CodeMap {
        let mut sections: Vec<Range<u64>> =
            file.sections.iter().filter(|s| s.is_code == is_code).map(|s| s.addresses.clone()).collect();
        sections.sort_by_key(|s| (s.start, s.end));
        for i in 1..sections.len() {
            let next = sections[i].start;
            sections[i - 1].end = sections[i - 1].end.min(next);
        }
        sections.retain(|s| !s.is_empty());
        CodeMap { base: file.text.as_ref().map_or(0, |t| t.start), sections }
    }

    /// Returns the section that holds an address.
    pub(super) fn find_section(&self, address: u64) -> Option<&Range<u64>> {
        let index = self.sections.partition_point(|s| s.end <= address);
        self.sections.get(index).filter(|s| s.start <= address)
    }

    /// Returns an address as an offset from `__TEXT`; `None` outside code, or 4 GiB or more above
    /// `__TEXT`.
    pub(super) fn offset_at(&self, address: u64) -> Option<u32> {
        self.find_section(address)?;
        offset_from_base(address, self.base)
    }

    /// Returns the offset just after code, as the end of a range.
    pub(super) fn offset_after(&self, end: u64) -> Option<u32> {
        self.offset_at(end.checked_sub(1)?).and_then(|last| last.checked_add(1))
    }

    /// Cuts a range of addresses at the end of the section that it starts in; `None` if it is empty or
    /// does not start in code.
    pub(super) fn clip_range(&self, low: u64, high: u64) -> Option<(u32, u32)> {
        let end = high.min(self.find_section(low)?.end);
        if low >= end {
            return None;
        }
        Some((offset_from_base(low, self.base)?, self.offset_after(end)?))
    }

    /// Returns the end of the last section, as a file address.
    pub(super) fn end_address(&self) -> u64 {
        self.sections.last().map_or(0, |s| s.end)
    }
}

fn offset_from_base(address: u64, base: u64) -> Option<u32> {
    address.checked_sub(base).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < u32::MAX - 1)
}
