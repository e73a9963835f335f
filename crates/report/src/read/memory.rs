//! What SDKs send beside `crash` about memory: stacks that were sampled before an end, and the members that say what
//! the report is about. They lie in the report object itself, in `crash`, or in `user`, where apps put what is theirs.

use super::frames;
use crate::json::{JsonScanner, MemberSlot, MemberSlots, Stop};
use crate::memory::{ALLOCATION_FRAMES, MemoryMember};
use crate::report::{Backtrace, BacktraceOrigin, MemorySections, ThreadFacts};

/// What was met in a part. Of a member that occurs twice the last one counts.
#[derive(Default)]
pub(crate) struct MemorySection<'a> {
    pub(crate) at: MemorySections,
    pub(crate) allocations: Vec<Backtrace<'a>>,
    pub(crate) blocked: Option<Backtrace<'a>>,
}

impl<'a> MemorySection<'a> {
    /// Reads the member at the scanner's position where it is one about memory; false for another one, which is still
    /// to be passed.
    pub(crate) fn member(&mut self, s: &mut JsonScanner<'a>, key: &[u8], part: usize) -> Result<bool, Stop> {
        let Some(member) = MemoryMember::of(key) else { return Ok(false) };
        self.at.0[member as usize] = Some(s.pos());
        let mut slots = MemberSlots::new("");
        match member {
            MemoryMember::AllocationStacks => {
                self.allocations = allocation_stacks(s, slots.at(0, "stack_oom"), part)?;
            }
            MemoryMember::BlockedStack => {
                let slot = slots.at(0, "stack_deadlock");
                let thread =
                    s.object_with(slot, |s| frames::thread(s, part, BacktraceOrigin::BlockedThread, 0))?;
                self.blocked = thread.and_then(|(_, backtrace)| backtrace);
            }
            _ => s.skip()?,
        }
        Ok(true)
    }
}

/// Reads `user`, of which only members about memory matter.
pub(crate) fn user<'a>(
    s: &mut JsonScanner<'a>,
    part: usize,
    section: &mut MemorySection<'a>,
) -> Result<(), Stop> {
    if s.byte() != Some(b'{') {
        return s.skip();
    }
    s.members(|s, member| match section.member(s, &member.key, part)? {
        true => Ok(()),
        false => s.skip(),
    })?;
    Ok(())
}

fn allocation_stacks<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
) -> Result<Vec<Backtrace<'a>>, Stop> {
    let mut stacks = Vec::new();
    s.objects(slot, |s, position| {
        s.item()?;
        stacks.extend(allocation_stack(s, part, position)?);
        Ok(())
    })?;
    Ok(stacks)
}

/// Reads the frames of one stack: an array of them, or an object with `contents` as threads have it.
fn allocation_stack<'a>(
    s: &mut JsonScanner<'a>,
    part: usize,
    position: usize,
) -> Result<Option<Backtrace<'a>>, Stop> {
    let mut stack = None;
    let mut slots = MemberSlots::new("stack_oom[]");
    s.members(|s, member| {
        if !ALLOCATION_FRAMES.iter().any(|key| key.as_bytes() == &*member.key) {
            return s.skip();
        }
        let facts = ThreadFacts { position, ..ThreadFacts::default() };
        stack = frames::allocation(s, slots.at(0, "frames"), part, facts)?;
        Ok(())
    })?;
    Ok(stack)
}
