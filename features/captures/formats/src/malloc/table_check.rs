//! Finds the first slot of a table of stacks. The system's serialiser writes a header in front of it, which says how
//! large the table is, but not how long the header is: that follows from the length of the file, or else from the
//! slots. Read from a wrong byte, every slot would be another one and every stack wrong, so other bytes in front of a
//! table are an error.

use super::stack_table::{ADDRESS_BITS, FrameSlot16, SlotForm, StackEnd, StackTable};

/// Code lies above the first page, which no process may map.
const LOWEST_CODE: u64 = 4_096;
/// A slot number from this one on would need a table of 64 GiB.
const IMPOSSIBLE_SLOT: u64 = 1 << 32;
/// The most slots that are looked at.
const MOST_SLOTS: u64 = 1 << 22;
/// The most slots that are looked at to see whether another beginning or form fits.
const MOST_TRIED_SLOTS: u64 = 1 << 14;
/// The furthest beginning of a table that is tried with those before it, the bytes between two, and pages behind them.
const FURTHEST_BEGINNING: usize = 4_096;
const BEGINNING_STEP: usize = 4;
const PAGED_BEGINNINGS: [usize; 2] = [8_192, 16_384];
/// Bytes of a page of memory.
const PAGE_SIZES: [u64; 2] = [4_096, 16_384];
const SLOT_BYTES: u64 = 16;
/// The least bytes of a header: pages, slots, bytes of the table, slots that are not to be touched, and its address.
const LEAST_HEADER: usize = 40;
/// In a table that is cut, one of this many slots may have a caller that is missing.
const SLOTS_OF_ONE_BROKEN: u64 = 4;

/// The reason why bytes are no table of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackTableError {
    #[error(
        "the table of stacks does not begin with its first slot: slots fit from byte {offset} on. Leave out the bytes in \
         front of it"
    )]
    BeginsLater {
        /// The byte that slots fit from.
        offset: usize,
    },
    /// It begins with a header, and its first slot is not found.
    #[error(
        "the table of stacks begins with a header that says how many slots it has, but no byte behind it begins slots \
         that fit. Send the table whole, or leave out the bytes in front of the first slot"
    )]
    Header,
    /// Its slots have the form of the lite mode, but the caller named the other form.
    #[error("the table of stacks is of the lite mode: set `lite`")]
    IsLite,
    /// Its slots have the other form, but the caller named the lite mode.
    #[error("the table of stacks is not of the lite mode: leave out `lite`")]
    IsNotLite,
    /// Most of its slots are impossible.
    #[error(
        "no table of stacks: {impossible} of its {slots} slots have an impossible caller or address. It must begin with \
         its first slot, without a header"
    )]
    Impossible {
        impossible: u64,
        /// Slots that are not empty.
        slots: u64,
    },
}

/// The number of slots of each kind in a table.
#[derive(Clone, Copy, Debug, Default)]
struct SlotCounts {
    /// Slots that are not empty.
    used: u64,
    frames: u64,
    roots: u64,
    /// Frames without code at their address, or with a caller that is no used slot of the table.
    broken: u64,
    /// Broken frames that no part of any table can have.
    impossible: u64,
}

impl SlotCounts {
    /// Returns true for slots of stacks of which few lack their caller, and for no slots.
    fn is_plausible(self) -> bool {
        let has_stacks = self.frames > 0 && self.roots > 0;
        self.used == 0 || has_stacks && self.broken * SLOTS_OF_ONE_BROKEN <= self.used
    }
}

impl<'a> StackTable<'a> {
    /// Returns the table in these bytes, if they are one from the first byte or from the end of a header on. A
    /// table that is cut or has some damaged slots is one.
    ///
    /// # Errors
    /// Returns a [`StackTableError`], which says what fits instead.
    pub fn from_bytes(bytes: &'a [u8], form: SlotForm) -> Result<StackTable<'a>, StackTableError> {
        let table = StackTable::new(bytes, form);
        let table = match table.read_header() {
            Some(size) => table.skip_header(size)?,
            None => table,
        };
        table.check_table()?;
        Ok(table)
    }

    fn check_table(&self) -> Result<(), StackTableError> {
        let counts = self.count_slots(MOST_SLOTS);
        if counts.broken == 0 {
            return Ok(());
        }
        let least_used = self.count_slots(MOST_TRIED_SLOTS).used / 2;
        let fits = |offset: usize, form| self.with_offset(offset, form).is_whole(least_used);
        let beginnings =
            (BEGINNING_STEP..=FURTHEST_BEGINNING).step_by(BEGINNING_STEP).chain(PAGED_BEGINNINGS);
        if let Some(offset) = beginnings.into_iter().find(|offset| fits(*offset, self.form())) {
            return Err(StackTableError::BeginsLater { offset });
        }
        let (other, error) = match self.form() {
            SlotForm::Plain => (SlotForm::Counted, StackTableError::IsLite),
            SlotForm::Counted => (SlotForm::Plain, StackTableError::IsNotLite),
        };
        if fits(0, other) {
            return Err(error);
        }
        if counts.impossible * 2 > counts.used {
            let SlotCounts { used: slots, impossible, .. } = counts;
            return Err(StackTableError::Impossible { impossible, slots });
        }
        Ok(())
    }

    /// Returns the bytes of the table if the file begins with its numbers of pages, slots and bytes.
    fn read_header(&self) -> Option<usize> {
        let word = |at: usize| {
            let bytes = self.bytes().get(at * 8..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes)).filter(|word| *word > 0)
        };
        let (pages, slots, size) = (word(0)?, word(1)?, word(2)?);
        let is_of_pages = PAGE_SIZES.iter().any(|page| pages.checked_mul(*page) == Some(size));
        let is_of_slots = slots.checked_mul(SLOT_BYTES) == Some(size);
        usize::try_from(size).ok().filter(|_| is_of_pages && is_of_slots)
    }

    /// Returns the table of `size` bytes behind a header.
    fn skip_header(&self, size: usize) -> Result<StackTable<'a>, StackTableError> {
        let is_beginning = |offset: &usize| {
            let forms = [SlotForm::Plain, SlotForm::Counted];
            (LEAST_HEADER..=FURTHEST_BEGINNING).contains(offset)
                && forms.iter().any(|form| self.count_behind(*offset, size, *form).is_plausible())
        };
        let rest = self.bytes().len().checked_sub(size).filter(is_beginning);
        let offset = rest.or_else(|| self.find_first_slot(size)).ok_or(StackTableError::Header)?;
        Ok(self.with_range(offset, size, self.form()))
    }

    /// Returns the byte behind a header from which on the fewest slots are broken. Returns `None` if two bytes are as
    /// good, or none is good.
    fn find_first_slot(&self, size: usize) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        let mut is_unclear = false;
        for offset in (LEAST_HEADER..=FURTHEST_BEGINNING).step_by(BEGINNING_STEP) {
            let counts = self.count_behind(offset, size, self.form());
            if counts.used == 0 || !counts.is_plausible() {
                continue;
            }
            match best {
                Some((broken, _)) if broken < counts.broken => {}
                Some((broken, _)) if broken == counts.broken => is_unclear = true,
                _ => (best, is_unclear) = (Some((counts.broken, offset)), false),
            }
        }
        best.filter(|_| !is_unclear).map(|(_, offset)| offset)
    }

    fn count_behind(&self, offset: usize, size: usize, form: SlotForm) -> SlotCounts {
        self.with_range(offset, size, form).count_slots(MOST_TRIED_SLOTS)
    }

    fn with_range(&self, offset: usize, size: usize, form: SlotForm) -> StackTable<'a> {
        let bytes = self.with_offset(offset, form).bytes();
        StackTable::new(bytes.get(..size).unwrap_or(bytes), form)
    }

    fn count_slots(&self, most: u64) -> SlotCounts {
        let mut counts = SlotCounts::default();
        for number in 0..self.len().min(most) {
            self.count_slot(number, &mut counts);
        }
        counts
    }

    /// Returns true if at least `least_used` slots are used, none of them is broken, and their stacks end at
    /// threads.
    fn is_whole(&self, least_used: u64) -> bool {
        let mut counts = SlotCounts::default();
        for number in 0..self.len().min(MOST_TRIED_SLOTS) {
            self.count_slot(number, &mut counts);
            if counts.broken > 0 {
                return false;
            }
        }
        let is_table = counts.used >= least_used && counts.frames > 0 && counts.roots > 0;
        is_table
            && (0..self.len().min(MOST_TRIED_SLOTS))
                .all(|number| self.walk_stack(number).end.is_possible_in_whole())
    }

    fn count_slot(&self, number: u64, counts: &mut SlotCounts) {
        let Ok(FrameSlot16 { address, caller }) = self.read_slot(number) else { return };
        counts.used += 1;
        let Some(caller) = caller else {
            counts.roots += 1;
            return;
        };
        counts.frames += 1;
        let is_impossible =
            caller >= IMPOSSIBLE_SLOT || address & ADDRESS_BITS < LOWEST_CODE || caller == number;
        counts.impossible += u64::from(is_impossible);
        counts.broken += u64::from(is_impossible || self.read_slot(caller).is_err());
    }
}

impl StackEnd {
    /// Returns true for a stack that ends at its thread, and for a slot that is not used.
    fn is_possible_in_whole(self) -> bool {
        matches!(self, StackEnd::Root | StackEnd::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack_table::tests::{ROOT, counted, plain};
    use super::*;

    const CODE: u64 = 0x1_0000_4000;

    /// Two threads with `stacks` stacks of two frames each, in a table of `slots` slots.
    fn table(stacks: u64, slots: usize) -> Vec<u8> {
        let mut rows = vec![(0x104, ROOT), (0x205, ROOT)];
        for stack in 0..stacks {
            rows.push((CODE + stack * 0x1000, stack % 2));
            rows.push((CODE + stack * 0x1000 + 0x40, rows.len() as u64 - 1));
        }
        rows.resize(slots, (0, 0));
        plain(&rows)
    }

    fn read(bytes: &[u8]) -> Result<(), StackTableError> {
        StackTable::from_bytes(bytes, SlotForm::Plain).map(|_| ())
    }

    #[test]
    fn tables_are_read_whole_cut_and_damaged() {
        let whole = table(20, 64);
        let mut damaged = whole.clone();
        damaged[10 * 16 + 8] = 63;
        for bytes in [whole.clone(), whole[..whole.len() / 3].to_vec(), damaged, table(0, 9), Vec::new()] {
            assert_eq!(read(&bytes), Ok(()), "{}", bytes.len());
        }
        // Half of the slots of a table are hashed to any place in it.
        let spread: Vec<(u64, u64)> = (0..64)
            .map(|slot| match slot % 4 {
                0 if slot == 0 => (0x104, ROOT),
                0 => (CODE + slot, slot - 4),
                _ => (0, 0),
            })
            .collect();
        assert_eq!(read(&plain(&spread)), Ok(()));
    }

    #[test]
    fn a_table_behind_something_else_is_refused() {
        // The fields of the header of libmalloc's table: pages, slots, bytes, slots that are not to be touched, the
        // address of the table, collisions and flags.
        let header = |slots: u64| [slots * 16 / 4_096, slots, slots * 16, 0, 0x1_2000_0000, 19];
        let with_header = |words: &[u64], table: &[u8]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).chain(table.iter().copied()).collect()
        };
        // A header without the table.
        assert_eq!(read(&with_header(&header(256), &[])), Err(StackTableError::Header));
        let noise: Vec<u8> = (0..9_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        assert_eq!(read(&with_header(&header(256), &noise)), Err(StackTableError::Header));
        for words in [&[1, 64, 1_024, 0, CODE, 19][..], &[0; 6], &[7, 7], &[0x5354_4b31], &[3, CODE, 1, 2, 3]]
        {
            for stacks in [3, 20] {
                let bytes = with_header(words, &table(stacks, 64));
                let offset = words.len() * 8;
                assert_eq!(read(&bytes), Err(StackTableError::BeginsLater { offset }), "{words:?} {stacks}");
            }
        }
        let mut odd = vec![1, 2, 3, 4];
        odd.extend(table(20, 64));
        assert_eq!(read(&odd), Err(StackTableError::BeginsLater { offset: 4 }));
        let mut far = vec![0; 5_000];
        far.extend(table(20, 64));
        assert!(matches!(read(&far), Err(StackTableError::Impossible { .. })), "{:?}", read(&far));
    }

    /// The header of libmalloc's table with `more` bytes behind the fields that are known.
    fn headed(slots: u64, more: usize, table: &[u8]) -> Vec<u8> {
        let words = [slots * 16 / 4_096, slots, slots * 16, 3, 0x1_2000_0000];
        let more = std::iter::repeat_n(7_u8, more);
        words.iter().flat_map(|word| word.to_le_bytes()).chain(more).chain(table.iter().copied()).collect()
    }

    #[test]
    fn a_table_behind_its_header_says_the_same_as_without_it() {
        for (stacks, slots) in [(20, 256), (127, 256), (1_000, 4_096)] {
            let plain = table(stacks, slots);
            let expected = StackTable::from_bytes(&plain, SlotForm::Plain).unwrap();
            // The trial's header had 48 bytes; others may have more fields.
            for more in [0, 8, 16, 24, 100, 1_000] {
                let file = headed(slots as u64, more, &plain);
                let followed = [&file[..], b"something behind the table, which is no part of it"].concat();
                for bytes in [&file, &followed] {
                    let found = StackTable::from_bytes(bytes, SlotForm::Plain).unwrap();
                    assert_eq!(found.bytes(), plain, "{stacks} {more}");
                    for slot in 0..slots as u64 + 1 {
                        assert_eq!(
                            found.walk_stack(slot),
                            expected.walk_stack(slot),
                            "{stacks} {more} {slot}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_headed_table_that_is_cut_or_of_the_lite_mode_is_recognised() {
        let whole = table(1_000, 4_096);
        let file = headed(4_096, 8, &whole);
        let cut = &file[..file.len() / 3];
        let found = StackTable::from_bytes(cut, SlotForm::Plain).unwrap();
        assert_eq!(found.bytes(), &whole[..cut.len() - 48]);
        let mut slots = vec![(0, 0, 0), (0x104, ROOT, 2), (CODE, 1, 1), (CODE + 8, 2, 1), (CODE, 2, 0)];
        slots.resize(256, (0, 0, 0));
        let lite = headed(256, 8, &counted(&slots));
        assert_eq!(read(&lite), Err(StackTableError::IsLite));
        let found = StackTable::from_bytes(&lite, SlotForm::Counted).unwrap();
        assert_eq!(found.walk_stack(3).end, StackEnd::Root);
    }

    #[test]
    fn a_table_of_the_other_form_or_of_anything_is_refused() {
        let lite = counted(&[(0, 0, 0), (0x104, ROOT, 2), (CODE, 1, 1), (CODE + 8, 2, 1), (CODE, 2, 0)]);
        assert!(StackTable::from_bytes(&lite, SlotForm::Counted).is_ok());
        assert_eq!(read(&lite), Err(StackTableError::IsLite));
        let whole = table(20, 64);
        let refused = StackTable::from_bytes(&whole, SlotForm::Counted).map(|_| ());
        assert_eq!(refused, Err(StackTableError::IsNotLite));
        let text = "{\"report\": {\"id\": \"5e551011-0000-4000-8000-000000000006\"}}".repeat(9);
        assert!(matches!(read(text.as_bytes()), Err(StackTableError::Impossible { .. })));
        let said = StackTableError::BeginsLater { offset: 48 }.to_string();
        assert!(said.contains("from byte 48 on"), "{said}");
    }
}
