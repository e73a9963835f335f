//! Members about memory that SDKs send beside `crash`: stacks that were sampled before an end, and members with the
//! report's subject. They lie in the report object itself, in `crash`, or in `user`, which belongs to the app.

use super::frames;
use crate::json::{JsonScanner, MemberSlot, MemberSlots, Stop};
use crate::report::memory::ALLOCATION_FRAMES;
use crate::report::memory::member::{MEMORY_MEMBERS, MemoryMember};
use crate::report::{Backtrace, BacktraceOrigin, MemorySections, ThreadFacts};

/// The members found in one of the three places. Of a duplicate member, the last one counts.
#[derive(Default)]
pub(crate) struct MemorySection<'a> {
    at: [Option<usize>; MEMORY_MEMBERS],
    allocations: AllocationStacks<'a>,
    blocked: Option<Backtrace<'a>>,
}

/// The stacks of `stack_oom` that have frames.
#[derive(Default)]
struct AllocationStacks<'a> {
    stacks: Vec<Backtrace<'a>>,
    /// The number of non-objects in lists of frames that contain no frame.
    invalid: u64,
}

/// The combined contents of the three sections of a part.
#[derive(Default)]
pub(crate) struct JoinedMemory<'a> {
    pub(crate) at: MemorySections,
    pub(crate) allocations: Vec<Backtrace<'a>>,
    pub(crate) blocked: Option<Backtrace<'a>>,
    pub(crate) invalid: u64,
}

impl<'a> JoinedMemory<'a> {
    /// Takes each kind of stack from the first section that has some. For the other members, the reader chooses the
    /// first usable one later.
    pub(crate) fn from_sections(sections: [MemorySection<'a>; 3]) -> JoinedMemory<'a> {
        let mut joined = JoinedMemory::default();
        for (section, at) in sections.into_iter().zip(&mut joined.at.members) {
            *at = section.at;
            joined.blocked = joined.blocked.or(section.blocked);
            if joined.allocations.is_empty() && !section.allocations.stacks.is_empty() {
                joined.allocations = section.allocations.stacks;
                joined.at.allocations = section.at[MemoryMember::AllocationStacks as usize];
            }
            joined.invalid += section.allocations.invalid;
        }
        joined
    }
}

impl<'a> MemorySection<'a> {
    /// Reads the member at the scanner's position if it is about memory. Returns false for any other member, which is
    /// not read.
    pub(crate) fn read_member(
        &mut self,
        s: &mut JsonScanner<'a>,
        key: &[u8],
        part: usize,
    ) -> Result<bool, Stop> {
        let Some(member) = MemoryMember::from_key(key) else { return Ok(false) };
        self.at[member as usize] = Some(s.pos());
        let mut slots = MemberSlots::new("");
        match member {
            MemoryMember::AllocationStacks => {
                self.allocations = allocation_stacks(s, slots.slot_for(0, "stack_oom"), part)?;
            }
            MemoryMember::BlockedStack => {
                let slot = slots.slot_for(0, "stack_deadlock");
                let thread =
                    s.object_with(slot, |s| frames::read_thread(s, part, BacktraceOrigin::BlockedThread, 0))?;
                self.blocked = thread.and_then(|(_, backtrace)| backtrace);
            }
            _ => s.skip_value()?,
        }
        Ok(true)
    }
}

/// Reads `user`. Only members about memory matter.
pub(crate) fn read_user<'a>(s: &mut JsonScanner<'a>, part: usize) -> Result<MemorySection<'a>, Stop> {
    let mut section = MemorySection::default();
    if s.peek_byte() != Some(b'{') {
        s.skip_value()?;
        return Ok(section);
    }
    s.read_members(|s, member| match section.read_member(s, &member.key, part)? {
        true => Ok(()),
        false => s.skip_value(),
    })?;
    Ok(section)
}

fn allocation_stacks<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
) -> Result<AllocationStacks<'a>, Stop> {
    let mut read = AllocationStacks::default();
    s.read_objects(slot, |s, position| {
        s.count_item()?;
        let Some(stack) = allocation_stack(s, part, position)? else { return Ok(()) };
        // In memory, a short list would take many times its bytes.
        if stack.frame_slots().next().is_some() {
            read.stacks.push(stack);
        } else {
            read.invalid += stack.invalid;
        }
        Ok(())
    })?;
    Ok(read)
}

/// Reads the frames of one stack: an array of them, or an object with `contents` as in threads.
fn allocation_stack<'a>(
    s: &mut JsonScanner<'a>,
    part: usize,
    position: usize,
) -> Result<Option<Backtrace<'a>>, Stop> {
    let mut stack = None;
    let mut slots = MemberSlots::new("stack_oom[]");
    s.read_members(|s, member| {
        if !ALLOCATION_FRAMES.iter().any(|key| key.as_bytes() == &*member.key) {
            return s.skip_value();
        }
        let facts = ThreadFacts { position, ..ThreadFacts::default() };
        stack = frames::read_allocation_stack(s, slots.slot_for(0, "frames"), part, facts)?;
        Ok(())
    })?;
    Ok(stack)
}
