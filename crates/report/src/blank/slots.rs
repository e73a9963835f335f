//! Conversion to blank frames, and all frame objects in their order.

use super::{BlankFrame, OTHERS, OWN, OWN_MEMBER};
use crate::report::{Backtrace, Frame};
use std::iter::Peekable;
use std::slice::Iter;

impl BlankFrame {
    /// Returns a blank frame if the frame has no useful member and its numbers are small enough.
    pub(crate) fn from_frame(frame: &Frame<'_>, input: &[u8]) -> Option<BlankFrame> {
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
}

/// A frame object of a backtrace.
#[derive(Clone, Copy, Debug)]
pub enum FrameSlot<'b, 'a> {
    /// A frame with at least one useful member.
    Frame(&'b Frame<'a>),
    /// A frame without any.
    Blank(&'b BlankFrame),
}

impl<'a> Backtrace<'a> {
    /// Returns all frame objects in their order.
    pub fn frame_slots(&self) -> impl Iterator<Item = FrameSlot<'_, 'a>> {
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
