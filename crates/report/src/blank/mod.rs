//! Frame objects that say nothing: a record of a few megabytes can hold half a million of them, so that
//! what is kept of each counts.

mod slots;

pub use slots::FrameSlot;
use std::ops::Range;

/// A frame object with none of the members that a [`Frame`](crate::Frame) is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlankFrame {
    insert_at: u32,
    /// [`BlankFrame::index`], and the two bits below.
    index: u32,
}

/// The frame has our member, which ends at `insert_at`.
const OWN: u32 = 1 << 31;
/// It has others.
const OTHERS: u32 = 1 << 30;

/// What is written into such a frame, without a comma. One that has another member of that name is kept as
/// a [`Frame`](crate::Frame).
const OWN_MEMBER: &[u8] = b"\"symbolication\":{\"status\":\"invalid_address\"}";

impl BlankFrame {
    /// As [`Frame::index`](crate::Frame::index).
    #[must_use]
    pub fn index(&self) -> usize {
        (self.index & !(OWN | OTHERS)) as usize
    }

    /// As [`Frame::insert_at`](crate::Frame::insert_at).
    #[must_use]
    pub fn insert_at(&self) -> usize {
        self.insert_at as usize
    }

    /// As [`Frame::has_members`](crate::Frame::has_members).
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.index & OTHERS != 0
    }

    /// As [`Frame::own_member`](crate::Frame::own_member).
    #[must_use]
    pub fn own_member(&self) -> Option<Range<usize>> {
        let bytes = OWN_MEMBER.len() + usize::from(self.has_members());
        (self.index & OWN != 0).then(|| self.insert_at().saturating_sub(bytes)..self.insert_at())
    }

    /// Bytes that our member takes in the frame, its comma included.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        OWN_MEMBER.len() + usize::from(self.has_members())
    }

    /// Takes a member that looks like ours for another's, as the report was not enriched.
    pub(crate) fn disown(&mut self) {
        if self.index & OWN != 0 {
            self.index = self.index & !OWN | OTHERS;
        }
    }
}
