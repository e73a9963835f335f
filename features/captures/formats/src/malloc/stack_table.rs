//! The table of stacks: each slot is a frame with the slot of its caller, so that stacks share their callers.

use std::collections::HashSet;
use unslide_model::LoadAddress;

const FRAME_SLOT_BYTES: usize = 16;
/// The most frames that a stack is logged with.
pub const MOST_STACK_FRAMES: usize = 512;
/// The bits of an address; above them may lie a pointer's signature.
pub(super) const ADDRESS_BITS: u64 = (1 << 47) - 1;
const COUNTED_ADDRESS_BITS: u128 = (1 << 48) - 1;

/// How a table lays out its slots of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotForm {
    /// The address and the caller's slot in 64 bits each.
    Plain,
    /// An address of 48 bits, the caller's slot in 32 and a count of references in 48: of the lite mode.
    Counted,
}

/// The reason why the walk along a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// At its thread.
    Root,
    /// At a slot outside of the table.
    Outside,
    /// At a slot without a frame.
    Empty,
    /// At a slot that it has been at.
    Cycle,
    /// After as many frames as a stack can have.
    TooDeep,
}

/// The frames of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackWalk {
    /// Return addresses, the innermost first.
    pub frames: Vec<LoadAddress>,
    /// The thread. `None` if the walk ended before it.
    pub thread: Option<u64>,
    /// The reason why it ended.
    pub end: StackEnd,
}

/// A table over its bytes: slots from number 0 on.
#[derive(Clone, Copy, Debug)]
pub struct StackTable<'a> {
    bytes: &'a [u8],
    form: SlotForm,
}

/// A slot's address and the slot of its caller.
pub(super) struct FrameSlot16 {
    pub(super) address: u64,
    pub(super) caller: Option<u64>,
}

impl<'a> StackTable<'a> {
    /// Returns the table in these bytes without checks. [`StackTable::from_bytes`] checks them.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: SlotForm) -> StackTable<'a> {
        StackTable { bytes, form }
    }

    /// Returns the frames of the stack with its innermost frame in this slot.
    #[must_use]
    pub fn walk_stack(&self, stack: u64) -> StackWalk {
        let mut walk = StackWalk { frames: Vec::new(), thread: None, end: StackEnd::TooDeep };
        let (mut at, mut slots) = (stack, HashSet::new());
        while walk.frames.len() <= MOST_STACK_FRAMES && slots.insert(at) {
            let slot = match self.read_slot(at) {
                Ok(slot) => slot,
                Err(end) => {
                    walk.end = end;
                    break;
                }
            };
            match slot.caller {
                Some(caller) => {
                    walk.frames.push(LoadAddress(slot.address & ADDRESS_BITS));
                    at = caller;
                }
                // The outermost element is the thread's number and one.
                None => {
                    (walk.thread, walk.end) = (Some(slot.address.wrapping_sub(1)), StackEnd::Root);
                    break;
                }
            }
        }
        if walk.end == StackEnd::TooDeep && slots.len() <= MOST_STACK_FRAMES {
            walk.end = StackEnd::Cycle;
        }
        walk
    }

    /// Returns the number of whole slots.
    pub(super) fn len(&self) -> u64 {
        (self.bytes.len() / FRAME_SLOT_BYTES) as u64
    }

    /// Returns the same slots as if the table began `offset` bytes later, in any form.
    pub(super) fn with_offset(&self, offset: usize, form: SlotForm) -> StackTable<'a> {
        StackTable { bytes: self.bytes.get(offset..).unwrap_or_default(), form }
    }

    /// Returns the bytes of the table.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the form of the slots.
    pub(super) fn form(&self) -> SlotForm {
        self.form
    }

    pub(super) fn read_slot(&self, number: u64) -> Result<FrameSlot16, StackEnd> {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_mul(FRAME_SLOT_BYTES));
        let bytes = at.and_then(|at| self.bytes.get(at..)?.first_chunk::<FRAME_SLOT_BYTES>());
        let word = u128::from_le_bytes(*bytes.ok_or(StackEnd::Outside)?);
        if word == 0 {
            return Err(StackEnd::Empty);
        }
        let low = |word: u128, bits: u32| u64::try_from(word & ((1 << bits) - 1)).unwrap_or(u64::MAX);
        Ok(match self.form {
            SlotForm::Plain => {
                let caller = low(word >> 64, 64);
                FrameSlot16 { address: low(word, 64), caller: (caller != u64::MAX).then_some(caller) }
            }
            SlotForm::Counted => {
                if word >> 80 == 0 {
                    return Err(StackEnd::Empty);
                }
                let caller = low(word >> 48, 32);
                let address = low(word & COUNTED_ADDRESS_BITS, 48);
                FrameSlot16 { address, caller: (caller != u64::from(u32::MAX)).then_some(caller) }
            }
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ROOT: u64 = u64::MAX;

    /// A plain table of addresses and callers.
    pub(crate) fn plain(slots: &[(u64, u64)]) -> Vec<u8> {
        slots
            .iter()
            .flat_map(|(address, caller)| [address.to_le_bytes(), caller.to_le_bytes()].concat())
            .collect()
    }

    pub(crate) fn counted(slots: &[(u64, u64, u64)]) -> Vec<u8> {
        let word = |(address, caller, count): &(u64, u64, u64)| {
            u128::from(*address) | u128::from(*caller & 0xFFFF_FFFF) << 48 | u128::from(*count) << 80
        };
        slots.iter().flat_map(|slot| word(slot).to_le_bytes()).collect()
    }

    fn addresses(walk: &StackWalk) -> Vec<u64> {
        walk.frames.iter().map(|frame| frame.0).collect()
    }

    #[test]
    fn a_stack_is_walked_to_its_thread_in_both_forms() {
        let bytes = plain(&[(0, 0), (0x104, ROOT), (0x1000, 1), (0x8123_0000_0000_2000, 2)]);
        let walk = StackTable::new(&bytes, SlotForm::Plain).walk_stack(3);
        assert_eq!(
            (addresses(&walk), walk.thread, walk.end),
            (vec![0x2000, 0x1000], Some(0x103), StackEnd::Root)
        );
        let bytes = counted(&[(0, 0, 0), (0x104, ROOT, 2), (0x1000, 1, 1), (0x2000, 2, 1), (0x3000, 2, 0)]);
        let table = StackTable::new(&bytes, SlotForm::Counted);
        assert_eq!(table.walk_stack(3), walk_of(&[0x2000, 0x1000], Some(0x103), StackEnd::Root));
        assert_eq!(table.walk_stack(4), walk_of(&[], None, StackEnd::Empty));
    }

    fn walk_of(frames: &[u64], thread: Option<u64>, end: StackEnd) -> StackWalk {
        StackWalk { frames: frames.iter().copied().map(LoadAddress).collect(), thread, end }
    }

    #[test]
    fn damaged_tables_end_every_walk() {
        let bytes = plain(&[(0, 0), (0x1000, 2), (0x2000, 1), (0x3000, 99)]);
        let table = StackTable::new(&bytes, SlotForm::Plain);
        assert_eq!(table.walk_stack(1), walk_of(&[0x1000, 0x2000], None, StackEnd::Cycle));
        assert_eq!(table.walk_stack(3), walk_of(&[0x3000], None, StackEnd::Outside));
        let endless: Vec<(u64, u64)> = (1..2_000).map(|n| (n << 12, n)).collect();
        let walk = StackTable::new(&plain(&endless), SlotForm::Plain).walk_stack(0);
        assert_eq!((walk.frames.len(), walk.end), (MOST_STACK_FRAMES + 1, StackEnd::TooDeep));
        assert_eq!(
            (table.walk_stack(0).end, table.walk_stack(u64::MAX).end),
            (StackEnd::Empty, StackEnd::Outside)
        );
    }
}
