//! Threads, backtraces and frames.

use crate::json::{JsonScanner, MemberSlot, MemberSlots, Stop, debug_id};
use crate::report::{Backtrace, BacktraceOrigin, Frame, ThreadFacts};
use crate::{BlankFrame, Number};

/// Other names of the address in a frame of an allocation stack.
const ALLOCATION_ADDRESS: [&str; 2] = ["address", "addr"];

/// A number of frames that most backtraces do not exceed.
const USUAL_FRAMES: usize = 32;

/// A list of frames before its owner is known.
#[derive(Default)]
struct Contents<'a> {
    start: usize,
    frames: Vec<Frame<'a>>,
    blank_frames: Vec<BlankFrame>,
    invalid: u64,
    skipped: u64,
}

impl<'a> Contents<'a> {
    fn into_backtrace(
        self,
        part: usize,
        origin: BacktraceOrigin,
        thread: Option<ThreadFacts>,
    ) -> Backtrace<'a> {
        let Contents { start, frames, blank_frames, invalid, skipped } = self;
        Backtrace { part, origin, thread, skipped, frames, blank_frames, invalid, tree: None, start }
    }
}

/// Reads the thread object at the scanner's position: one of `crash.threads`, `crash.crashed_thread` or
/// `stack_deadlock`. Returns the thread's facts, and its frames if it has any.
pub(crate) fn read_thread<'a>(
    s: &mut JsonScanner<'a>,
    part: usize,
    origin: BacktraceOrigin,
    position: usize,
) -> Result<(ThreadFacts, Option<Backtrace<'a>>), Stop> {
    let (place, inside) = match origin {
        BacktraceOrigin::Thread => ("crash.threads[]", "crash.threads[].backtrace"),
        BacktraceOrigin::BlockedThread => ("stack_deadlock", "stack_deadlock.backtrace"),
        _ => ("crash.crashed_thread", "crash.crashed_thread.backtrace"),
    };
    s.count_item()?;
    let mut facts = ThreadFacts { position, ..ThreadFacts::default() };
    let mut contents = None;
    let mut own = MemberSlots::new(place);
    s.read_members(|s, member| {
        match &*member.key {
            b"backtrace" => contents = read_backtrace(s, own.slot_for(0, "backtrace"), inside)?,
            b"crashed" => facts.crashed = s.read_boolean(own.slot_for(1, "crashed"))?.unwrap_or(false),
            b"current_thread" => {
                facts.current_thread = s.read_boolean(own.slot_for(2, "current_thread"))?.unwrap_or(false);
            }
            b"index" => facts.index = s.read_signed(own.slot_for(3, "index"))?,
            b"registers" => {
                (facts.pc, facts.has_registers) = read_registers(s, own.slot_for(4, "registers"), place)?;
            }
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    let backtrace = contents.map(|contents: Contents<'a>| contents.into_backtrace(part, origin, Some(facts)));
    Ok((facts, backtrace))
}

/// Reads the program counter in `registers`, and whether there are any registers.
fn read_registers(
    s: &mut JsonScanner<'_>,
    slot: MemberSlot,
    place: &'static str,
) -> Result<(Option<Number>, bool), Stop> {
    let mut own = MemberSlots::new(place);
    let mut facts = (None, false);
    s.read_object(slot, |s, member| {
        if &*member.key != b"basic" {
            return s.skip_value();
        }
        facts = (None, false);
        let mut basic = MemberSlots::new(match place {
            "crash.threads[]" => "crash.threads[].registers.basic",
            "stack_deadlock" => "stack_deadlock.registers.basic",
            _ => "crash.crashed_thread.registers.basic",
        });
        let object = s.read_object(own.slot_for(0, "registers.basic"), |s, member| {
            match &*member.key {
                b"pc" => s.read_number_into(basic.slot_for(0, "pc"), &mut facts.0)?,
                b"rip" => s.read_number_into(basic.slot_for(1, "rip"), &mut facts.0)?,
                b"eip" => s.read_number_into(basic.slot_for(2, "eip"), &mut facts.0)?,
                _ => s.skip_value()?,
            }
            Ok(())
        })?;
        facts.1 = object.is_some_and(|object| object.count > 0);
        Ok(())
    })?;
    Ok(facts)
}

/// Reads `crash.last_exception_backtrace`.
pub(crate) fn last_exception<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
) -> Result<Option<Backtrace<'a>>, Stop> {
    let contents = read_backtrace(s, slot, "crash.last_exception_backtrace")?;
    Ok(contents.map(|contents| contents.into_backtrace(part, BacktraceOrigin::LastException, None)))
}

/// Reads the frames of one item of `stack_oom`: an array, or an object with `contents`.
pub(crate) fn read_allocation_stack<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
    facts: ThreadFacts,
) -> Result<Option<Backtrace<'a>>, Stop> {
    let contents = match s.peek_byte() {
        Some(b'{') => read_backtrace(s, slot, "stack_oom[].backtrace")?,
        _ => frame_list(s, slot, "stack_oom[].frames[]")?,
    };
    Ok(contents.map(|contents| contents.into_backtrace(part, BacktraceOrigin::AllocationStack, Some(facts))))
}

/// Reads `crash.error.profile`.
pub(crate) fn read_profile<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
) -> Result<Option<Backtrace<'a>>, Stop> {
    let mut contents = None;
    let mut own = MemberSlots::new("crash.error.profile");
    s.read_object(slot, |s, member| {
        if &*member.key != b"frames" {
            return s.skip_value();
        }
        contents = frame_list(s, own.slot_for(0, "frames"), "crash.error.profile.frames[]")?;
        Ok(())
    })?;
    Ok(contents.map(|contents| contents.into_backtrace(part, BacktraceOrigin::Profile, None)))
}

/// Reads `process`. Only `last_dealloced_nsexception.backtrace` matters.
pub(crate) fn read_deallocated_exception<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    part: usize,
) -> Result<Option<Backtrace<'a>>, Stop> {
    const LAST_EXCEPTION_PLACE: &str = "process.last_dealloced_nsexception";
    let mut contents = None;
    let mut own = MemberSlots::new("process");
    s.object_or_empty(slot, |s, member| {
        if &*member.key != b"last_dealloced_nsexception" {
            return s.skip_value();
        }
        contents = None;
        let mut exception = MemberSlots::new(LAST_EXCEPTION_PLACE);
        s.read_object(own.slot_for(0, "last_dealloced_nsexception"), |s, member| {
            if &*member.key != b"backtrace" {
                return s.skip_value();
            }
            let slot = exception.slot_for(0, "backtrace");
            contents = read_backtrace(s, slot, "process.last_dealloced_nsexception.backtrace")?;
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(contents.map(|contents: Contents<'a>| {
        contents.into_backtrace(part, BacktraceOrigin::DeallocatedException, None)
    }))
}

/// Reads a backtrace object. Returns `None` without `contents`.
fn read_backtrace<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    place: &'static str,
) -> Result<Option<Contents<'a>>, Stop> {
    let mut contents = None;
    let mut skipped = 0;
    let mut own = MemberSlots::new(place);
    s.read_object(slot, |s, member| {
        match &*member.key {
            b"contents" => contents = frame_list(s, own.slot_for(0, "contents"), frame_place(place))?,
            b"skipped" => skipped = s.read_unsigned(own.slot_for(1, "skipped"))?.unwrap_or(0),
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    Ok(contents.map(|contents| Contents { skipped, ..contents }))
}

fn frame_place(backtrace: &'static str) -> &'static str {
    match backtrace {
        "crash.threads[].backtrace" => "crash.threads[].backtrace.contents[]",
        "crash.crashed_thread.backtrace" => "crash.crashed_thread.backtrace.contents[]",
        "crash.last_exception_backtrace" => "crash.last_exception_backtrace.contents[]",
        "stack_deadlock.backtrace" => "stack_deadlock.backtrace.contents[]",
        "stack_oom[].backtrace" => "stack_oom[].backtrace.contents[]",
        _ => "process.last_dealloced_nsexception.backtrace.contents[]",
    }
}

/// Reads an array of frames. Returns `None` for any other value.
fn frame_list<'a>(
    s: &mut JsonScanner<'a>,
    slot: MemberSlot,
    place: &'static str,
) -> Result<Option<Contents<'a>>, Stop> {
    let start = s.pos();
    let mut frames: Vec<Frame<'a>> = Vec::new();
    let mut blank_frames = Vec::new();
    let invalid = s.read_objects(slot, |s, index| {
        s.count_item()?;
        if frames.is_empty() {
            frames.reserve(USUAL_FRAMES);
        }
        // The frame is read in place: copying it would take as long as reading a part of it.
        frames.push(Frame { index, ..Frame::default() });
        let Some(own) = frames.last_mut() else { return Ok(()) };
        read_frame(s, own, place)?;
        if let Some(blank) = BlankFrame::from_frame(own, s.input()) {
            frames.pop();
            blank_frames.push(blank);
        }
        Ok(())
    })?;
    // There are many such lists, so they should not waste memory.
    frames.shrink_to_fit();
    blank_frames.shrink_to_fit();
    Ok(invalid.map(|invalid| Contents { start, frames, blank_frames, invalid, skipped: 0 }))
}

fn read_frame<'a>(s: &mut JsonScanner<'a>, frame: &mut Frame<'a>, place: &'static str) -> Result<(), Stop> {
    let mut own = MemberSlots::new(place);
    let object = s.read_members(|s, member| {
        frame.own_member = None;
        match () {
            () if member.has_key("instruction_addr") => {
                s.read_number_into(own.slot_for(0, "instruction_addr"), &mut frame.instruction_addr)?;
            }
            () if member.has_key("object_addr") => {
                s.read_number_into(own.slot_for(1, "object_addr"), &mut frame.object_addr)?;
            }
            () if member.has_key("object_name") => {
                frame.object_name = s.read_text(own.slot_for(2, "object_name"))?;
            }
            () if member.has_key("object_uuid") => {
                frame.object_uuid = s.read_uuid(own.slot_for(3, "object_uuid"))?.and_then(debug_id);
            }
            () if member.has_key("symbol_addr") => {
                s.read_number_into(own.slot_for(4, "symbol_addr"), &mut frame.symbol_addr)?;
            }
            () if member.has_key("symbol_name") => {
                frame.symbol_name = s.read_text(own.slot_for(5, "symbol_name"))?;
            }
            () if member.has_key("symbolication") => {
                let object = s.peek_byte() == Some(b'{');
                s.skip_value()?;
                // The report's own member decides at the end whether this one is ours.
                frame.own_member = object.then(|| member.separator..s.pos());
            }
            () if place.starts_with("stack_oom")
                && ALLOCATION_ADDRESS.iter().any(|key| member.has_key(key)) =>
            {
                s.read_number_into(own.slot_for(0, "address"), &mut frame.instruction_addr)?;
            }
            () => s.skip_value()?,
        }
        Ok(())
    })?;
    frame.insert_at = object.close;
    frame.has_members = object.count > 0;
    Ok(())
}
