//! Threads and their frames.

use super::log::Log;
use super::thread_index;
use crate::cursor::Value;
use crate::facts::Facts;
use crate::report::{Backtrace, Frame, Image, Origin};
use crate::{OurCall, OurFrame};
use std::collections::HashMap;
use std::fmt::Write;
use unslide_model::DebugId;

/// What the frames of one part need to be shown.
struct Frames<'f, 'r, 'a> {
    facts: &'f Facts<'r, 'a>,
    images: HashMap<DebugId, &'r Image<'a>>,
    /// Start, end and image, by their start.
    ranges: Vec<(u64, u64, &'r Image<'a>)>,
    narrow: bool,
}

/// Every thread of the part, then the exception's own backtrace.
pub(super) fn threads(facts: &Facts<'_, '_>, out: &mut Log) {
    let frames = Frames::of(facts);
    let own: Vec<&Backtrace<'_>> = facts.report.backtraces.iter().filter(|b| b.part == facts.index).collect();
    let by_position: HashMap<usize, &Backtrace<'_>> = own
        .iter()
        .filter(|b| b.origin == Origin::Thread)
        .filter_map(|b| Some((b.thread?.position, *b)))
        .collect();
    let single = |origin| own.iter().copied().find(|b| b.origin == origin);
    let Some(crash) = facts.crash() else { return };
    let threads = crash.get("threads").map(Value::items).unwrap_or_default();
    for (position, thread) in threads.into_iter().enumerate().filter(|(_, thread)| thread.is_object()) {
        if out.is_full() {
            return;
        }
        let crashed = thread.get("crashed").and_then(Value::boolean) == Some(true);
        frames.thread(thread, crashed, by_position.get(&position).copied(), out);
    }
    if let Some(thread) = crash.get("crashed_thread").filter(|thread| thread.is_object()) {
        let crashed = thread.get("crashed").and_then(Value::boolean) != Some(false);
        frames.thread(thread, crashed, single(Origin::CrashedThread), out);
    }
    if let Some(backtrace) = single(Origin::LastException) {
        out.push_str("\nLast Exception Backtrace:\n");
        frames.lines(backtrace, out);
    }
}

/// The frames of the exception that was deallocated last.
pub(super) fn deallocated(facts: &Facts<'_, '_>, out: &mut Log) {
    let mut backtraces = facts.report.backtraces.iter().filter(|b| b.part == facts.index);
    if let Some(backtrace) = backtraces.find(|b| b.origin == Origin::DeallocatedException) {
        Frames::of(facts).lines(backtrace, out);
    }
}

impl<'f, 'r, 'a> Frames<'f, 'r, 'a> {
    fn of(facts: &'f Facts<'r, 'a>) -> Frames<'f, 'r, 'a> {
        let part = facts.part();
        let source = part.and_then(|part| facts.report.parts.get(part.image_source?));
        let list = source.map(|source| source.images.as_slice()).unwrap_or_default();
        let images = list.iter().filter_map(|image| Some((image.uuid?, image))).collect();
        let mut ranges: Vec<_> = list
            .iter()
            .filter_map(|image| {
                let start = image.addr?.to_bits()?;
                Some((start, start.saturating_add(image.size), image))
            })
            .collect();
        ranges.sort_by_key(|(start, _, _)| *start);
        let cpu = part.and_then(|part| part.binary_cpu.or(part.cpu));
        let narrow = cpu.is_some_and(|cpu| cpu.family().is_32_bit());
        Frames { facts, images, ranges, narrow }
    }

    /// The image that the address lies in.
    fn around(&self, address: u64) -> Option<&'r Image<'a>> {
        let after = self.ranges.partition_point(|(start, _, _)| *start <= address);
        let (_, end, image) = self.ranges.get(after.checked_sub(1)?)?;
        (address < *end).then_some(image)
    }

    fn thread(&self, thread: Value<'_>, crashed: bool, backtrace: Option<&Backtrace<'_>>, out: &mut Log) {
        let index = thread_index(thread);
        out.push('\n');
        if let Some(name) = thread.get("name").and_then(Value::string) {
            let _ = writeln!(out, "Thread {index} name:  {name}");
        } else if let Some(queue) = thread.get("dispatch_queue").and_then(Value::string) {
            let _ = writeln!(out, "Thread {index} name:  Dispatch queue: {queue}");
        }
        let _ = writeln!(out, "Thread {index}{}:", if crashed { " Crashed" } else { "" });
        if let Some(backtrace) = backtrace {
            self.lines(backtrace, out);
        }
    }

    fn lines(&self, backtrace: &Backtrace<'_>, out: &mut Log) {
        for frame in &backtrace.frames {
            if out.is_full() {
                return;
            }
            self.frame(frame, out);
        }
    }

    fn frame(&self, frame: &Frame<'_>, out: &mut Log) {
        let ours = self.facts.report.our_frame(frame).unwrap_or_default();
        let bits = |number: Option<crate::Number>| {
            let bits = number?.to_bits()?;
            Some(if self.narrow { bits & 0xffff_ffff } else { bits })
        };
        let pc = bits(frame.instruction_addr).unwrap_or(0);
        // Ours, else the device's opinion, else the list.
        let image = ours.debug_id.and_then(|id| self.images.get(&id).copied());
        let image = image.or_else(|| self.around(pc).filter(|_| frame.object_addr.is_none()));
        let name = image.and_then(|image| image.name).or(frame.object_name).map(crate::Text::decode);
        let name = name.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or("???");
        let start = bits(image.and_then(|image| image.addr).or(frame.object_addr)).unwrap_or(0);
        let line = format!("{:<4}{name:<30}\t{pc:#018x} ", frame.index);
        if !ours.calls.is_empty() {
            for call in &ours.calls {
                if out.is_full() {
                    break;
                }
                let _ = writeln!(out, "{line}{}", function(call, &ours));
            }
            return;
        }
        // A name that does not stand for the address is worse than the address.
        let symbol = frame.symbol_name.map(crate::Text::decode).filter(|name| name != "<redacted>");
        let offset = bits(frame.symbol_addr).and_then(|start| pc.checked_sub(start));
        let _ = match (symbol, offset) {
            (Some(symbol), Some(offset)) => writeln!(out, "{line}{symbol} + {offset}"),
            _ => writeln!(out, "{line}{start:#x} + {}", pc.wrapping_sub(start)),
        };
    }
}

/// A function of ours: the one that owns the machine code has the offset from its start.
fn function(call: &OurCall, frame: &OurFrame) -> String {
    let mut text = call.function.clone();
    if let Some(offset) = frame.symbol_offset.filter(|_| !call.inlined) {
        let _ = write!(text, " + {offset}");
    }
    if let Some(file) = &call.file {
        let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let _ = match call.line {
            Some(line) => write!(text, " ({file}:{line})"),
            None => write!(text, " ({file})"),
        };
    }
    if call.inlined {
        text.push_str(" [inlined]");
    }
    text
}
