//! Frame objects without any useful member. A record of a few megabytes can hold half a million of them, so each
//! is stored in a few bytes.

mod slots;

pub use slots::FrameSlot;
use std::ops::Range;

/// A frame object without any member that [`Frame`](crate::Frame) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlankFrame {
    insert_at: u32,
    /// [`BlankFrame::index`] and the two bits below.
    index: u32,
}

/// Set if the frame has our member, which ends at `insert_at`.
const OWN: u32 = 1 << 31;
/// Set if the frame has other members.
const OTHERS: u32 = 1 << 30;

/// The member that we write into such a frame, without a comma. A frame with another member of that name is kept as
/// a [`Frame`](crate::Frame).
const OWN_MEMBER: &[u8] = b"\"symbolication\":{\"status\":\"invalid_address\"}";

impl BlankFrame {
    /// Works as [`Frame::index`](crate::Frame::index).
    #[must_use]
    pub fn index(&self) -> usize {
        (self.index & !(OWN | OTHERS)) as usize
    }

    /// Works as [`Frame::insert_at`](crate::Frame::insert_at).
    #[must_use]
    pub fn insert_at(&self) -> usize {
        self.insert_at as usize
    }

    /// Works as [`Frame::has_members`](crate::Frame::has_members).
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.index & OTHERS != 0
    }

    /// Works as [`Frame::own_member`](crate::Frame::own_member).
    #[must_use]
    pub fn own_member(&self) -> Option<Range<usize>> {
        let bytes = OWN_MEMBER.len() + usize::from(self.has_members());
        (self.index & OWN != 0).then(|| self.insert_at().saturating_sub(bytes)..self.insert_at())
    }

    /// Returns the bytes that our member takes in the frame, including its comma.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        OWN_MEMBER.len() + usize::from(self.has_members())
    }

    /// Treats a member that looks like ours as a foreign one, because the report was not enriched.
    pub(crate) fn treat_as_foreign(&mut self) {
        if self.index & OWN != 0 {
            self.index = self.index & !OWN | OTHERS;
        }
    }
}
