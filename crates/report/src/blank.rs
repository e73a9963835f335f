//! Frame objects that say nothing: a record of a few megabytes can hold half a million of them, so that
//! what is kept of each counts.

use crate::report::{Backtrace, Frame};
use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

/// A frame object with none of the members that a [`Frame`] is read for.
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
/// a [`Frame`].
const OWN_MEMBER: &[u8] = b"\"symbolication\":{\"status\":\"invalid_address\"}";

impl BlankFrame {
    /// The frame of a report, where it says nothing, and its numbers are small enough.
    pub(crate) fn of(frame: &Frame<'_>, input: &[u8]) -> Option<BlankFrame> {
        let numbers = [frame.instruction_addr, frame.object_addr, frame.symbol_addr];
        let names = [frame.object_name, frame.symbol_name];
        if numbers.iter().any(Option::is_some)
            || names.iter().any(Option::is_some)
            || frame.object_uuid.is_some()
        {
            return None;
        }
        let flags = match &frame.own_member {
            None if frame.has_members => OTHERS,
            None => 0,
            Some(own) if own.end != frame.insert_at => return None,
            Some(own) => match input.get(own.clone())? {
                OWN_MEMBER => OWN,
                [b',', own @ ..] if own == OWN_MEMBER => OWN | OTHERS,
                _ => return None,
            },
        };
        let index = u32::try_from(frame.index).ok().filter(|index| *index < OTHERS)?;
        Some(BlankFrame { insert_at: u32::try_from(frame.insert_at).ok()?, index: index | flags })
    }

    /// As [`Frame::index`].
    #[must_use]
    pub fn index(&self) -> usize {
        (self.index & !(OWN | OTHERS)) as usize
    }

    /// As [`Frame::insert_at`].
    #[must_use]
    pub fn insert_at(&self) -> usize {
        self.insert_at as usize
    }

    /// As [`Frame::has_members`].
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.index & OTHERS != 0
    }

    /// As [`Frame::own_member`].
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

/// A frame object of a backtrace.
#[derive(Clone, Copy, Debug)]
pub enum FrameSlot<'b, 'a> {
    /// One that says something.
    Frame(&'b Frame<'a>),
    /// One that says nothing.
    Blank(&'b BlankFrame),
}

impl<'a> Backtrace<'a> {
    /// All frame objects, in their order.
    pub fn slots(&self) -> impl Iterator<Item = FrameSlot<'_, 'a>> {
        FrameSlots { frames: self.frames.iter().peekable(), blanks: self.blank_frames.iter().peekable() }
    }
}

struct FrameSlots<'b, 'a> {
    frames: Peekable<Iter<'b, Frame<'a>>>,
    blanks: Peekable<Iter<'b, BlankFrame>>,
}

impl<'b, 'a> Iterator for FrameSlots<'b, 'a> {
    type Item = FrameSlot<'b, 'a>;

    fn next(&mut self) -> Option<FrameSlot<'b, 'a>> {
        let next = self.frames.peek().map_or(usize::MAX, |frame| frame.insert_at);
        match self.blanks.next_if(|blank| blank.insert_at() < next) {
            Some(blank) => Some(FrameSlot::Blank(blank)),
            None => self.frames.next().map(FrameSlot::Frame),
        }
    }
}
