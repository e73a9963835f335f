//! Threads and their frames.

use super::crash::{Crash, Thread};
use super::log::Log;
use super::{escape_line, escaped_file_name, escaped_text, format_string};
use crate::blank::FrameSlot;
use crate::report::ours::{OurCall, OurFrame};
use crate::report::summary::facts::PartFacts;
use crate::report::{Backtrace, BacktraceOrigin, Frame};
use crate::{Number, device_name};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use unslide_model::DebugId;

/// Images and addresses that are needed to print the frames of one part.
pub(super) struct Frames<'f, 'r, 'a> {
    facts: &'f PartFacts<'r, 'a>,
    images: Vec<ShownImage<'a>>,
    /// Positions in `images`.
    by_id: HashMap<DebugId, usize>,
    /// Start, end and position in `images`, by their start.
    ranges: Vec<(u64, u64, usize)>,
    narrow: bool,
}

struct ShownImage<'a> {
    name: Option<Cow<'a, str>>,
    start: Option<u64>,
}

/// Writes every thread of the part, then the exception's own backtrace.
pub(super) fn write_threads(facts: &PartFacts<'_, '_>, crash: &Crash<'_>, out: &mut Log) {
    let frames = Frames::from_facts(facts);
    let own: Vec<&Backtrace<'_>> = facts.report.backtraces.iter().filter(|b| b.part == facts.index).collect();
    let by_position: HashMap<usize, &Backtrace<'_>> = own
        .iter()
        .filter(|b| b.origin == BacktraceOrigin::Thread)
        .filter_map(|b| Some((b.thread?.position, *b)))
        .collect();
    let single = |origin| own.iter().copied().find(|b| b.origin == origin);
    for (position, thread) in crash.threads.iter().enumerate() {
        let Some(thread) = Thread::from_value(*thread, position) else { continue };
        if out.is_full() {
            return;
        }
        let crashed = crash.has_crashed && thread.crashed == Some(true);
        frames.write_thread(&thread, crashed, by_position.get(&position).copied(), out);
    }
    if let Some(thread) = &crash.crashed_thread {
        let crashed = crash.has_crashed && thread.crashed != Some(false);
        frames.write_thread(thread, crashed, single(BacktraceOrigin::CrashedThread), out);
    }
    if let Some(backtrace) = single(BacktraceOrigin::LastException) {
        out.push_str("\nLast Exception Backtrace:\n");
        frames.write_frames(backtrace, out);
    }
    write_samples(&frames, &own, out);
}

/// Writes the stacks sampled before the end, the largest allocations first.
fn write_samples(frames: &Frames<'_, '_, '_>, own: &[&Backtrace<'_>], out: &mut Log) {
    let weights = frames.facts.report.allocation_weights();
    let weight = |backtrace: &Backtrace<'_>| {
        let is_allocation = backtrace.origin == BacktraceOrigin::AllocationStack;
        weights.get(backtrace.thread?.position).copied().filter(|_| is_allocation)
    };
    let mut sampled: Vec<_> = own.iter().copied().filter(|b| b.is_sample()).map(|b| (weight(b), b)).collect();
    sampled.sort_by_key(|(weight, _)| Reverse(weight.and_then(|weight| weight.bytes)));
    for (weight, backtrace) in sampled {
        if out.is_full() {
            return;
        }
        let what = weight.map_or_else(|| "main thread, blocked".to_owned(), |weight| weight.to_string());
        let _ = writeln!(out, "\nLast Sampled Stack (not the cause): {what}");
        frames.write_frames(backtrace, out);
    }
}

/// Writes the frames of the exception that was deallocated last.
pub(super) fn write_deallocated(facts: &PartFacts<'_, '_>, out: &mut Log) {
    let mut backtraces = facts.report.backtraces.iter().filter(|b| b.part == facts.index);
    if let Some(backtrace) = backtraces.find(|b| b.origin == BacktraceOrigin::DeallocatedException) {
        Frames::from_facts(facts).write_frames(backtrace, out);
    }
}

impl<'f, 'r, 'a> Frames<'f, 'r, 'a> {
    pub(super) fn from_facts(facts: &'f PartFacts<'r, 'a>) -> Frames<'f, 'r, 'a> {
        let part = facts.part();
        let source = part.and_then(|part| facts.report.parts.get(part.image_source?));
        let list = source.map(|source| source.images.as_slice()).unwrap_or_default();
        let shown = list.iter().map(|image| ShownImage {
            name: image.name.map(escaped_file_name),
            start: image.addr.and_then(Number::to_bits),
        });
        let images: Vec<ShownImage<'_>> = shown.collect();
        let by_id = list.iter().enumerate().filter_map(|(at, image)| Some((image.uuid?, at))).collect();
        let mut ranges: Vec<_> = list
            .iter()
            .zip(&images)
            .enumerate()
            .filter_map(|(at, (image, shown))| {
                let start = shown.start?;
                Some((start, start.saturating_add(image.size), at))
            })
            .collect();
        ranges.sort_by_key(|(start, _, _)| *start);
        let cpu = part.and_then(|part| part.binary_cpu.or(part.cpu));
        let narrow = cpu.is_some_and(|cpu| cpu.family().is_32_bit());
        Frames { facts, images, by_id, ranges, narrow }
    }

    /// Returns the image that contains the address.
    fn find_image_at(&self, address: u64) -> Option<&ShownImage<'a>> {
        let after = self.ranges.partition_point(|(start, _, _)| *start <= address);
        let (_, end, at) = self.ranges.get(after.checked_sub(1)?)?;
        self.images.get(*at).filter(|_| address < *end)
    }

    fn with_id(&self, id: DebugId) -> Option<&ShownImage<'a>> {
        self.images.get(*self.by_id.get(&id)?)
    }

    fn address_bits(&self, number: Option<Number>) -> Option<u64> {
        let bits = number?.to_bits()?;
        Some(if self.narrow { bits & 0xffff_ffff } else { bits })
    }

    fn write_thread(
        &self,
        thread: &Thread<'_>,
        crashed: bool,
        backtrace: Option<&Backtrace<'a>>,
        out: &mut Log,
    ) {
        let number = thread.number;
        out.push('\n');
        if let Some(name) = format_string(thread.name) {
            let _ = writeln!(out, "Thread {number} name:  {name}");
        } else if let Some(queue) = format_string(thread.queue) {
            let _ = writeln!(out, "Thread {number} name:  Dispatch queue: {queue}");
        }
        let _ = writeln!(out, "Thread {number}{}:", if crashed { " Crashed" } else { "" });
        if let Some(backtrace) = backtrace {
            self.write_frames(backtrace, out);
        }
    }

    fn write_frames(&self, backtrace: &Backtrace<'a>, out: &mut Log) {
        let enriched = self.facts.report.ours.is_some();
        for slot in backtrace.frame_slots() {
            if out.is_full() {
                return;
            }
            match slot {
                FrameSlot::Blank(blank) => {
                    write_address(&format_frame_head(blank.index(), None, 0), 0, 0, out);
                }
                FrameSlot::Frame(frame) if enriched => self.write_enriched_frame(frame, out),
                FrameSlot::Frame(frame) => self.as_the_device_says(frame, out),
            }
        }
    }

    /// Writes a frame of an enriched report, using only its `symbolication`.
    fn write_enriched_frame(&self, frame: &Frame<'a>, out: &mut Log) {
        let ours = self.facts.report.our_frame(frame).unwrap_or_default();
        let pc = self.pc(frame);
        let (name, start) = self.find_image(frame, &ours, pc);
        let head = format_frame_head(frame.index, name.as_deref(), pc);
        if let Some(calls) = ours.calls {
            let mut any = false;
            calls.each_item(|call| {
                any = true;
                if !out.is_full() {
                    write_call(&head, &OurCall::from_value(call), &ours, out);
                }
            });
            if any {
                return;
            }
        }
        match ours.symbol {
            Some(symbol) => write_symbol(&head, symbol, ours.symbol_offset, guess_suffix(&ours), out),
            None => write_address(&head, start, ours.relative_address.unwrap_or(pc.wrapping_sub(start)), out),
        }
    }

    /// Returns the frame's address, or 0 if it has none.
    pub(super) fn pc(&self, frame: &Frame<'a>) -> u64 {
        self.address_bits(frame.instruction_addr).unwrap_or(0)
    }

    /// Returns the name and the start of the image of a frame in an enriched report.
    pub(super) fn find_image(
        &self,
        frame: &Frame<'a>,
        ours: &OurFrame<'a>,
        pc: u64,
    ) -> (Option<Cow<'a, str>>, u64) {
        let image = || ours.debug_id.and_then(|id| self.with_id(id)).or_else(|| self.find_image_at(pc));
        let image = if ours.is_in_image() { image() } else { None };
        // An image that is in no list is named by the frame itself.
        let unlisted = || frame.object_name.filter(|_| ours.is_in_image()).map(escaped_file_name);
        let name = image.and_then(|image| image.name.clone()).or_else(unlisted);
        let start =
            image.and_then(|image| image.start).or_else(|| Some(pc.wrapping_sub(ours.relative_address?)));
        (name, self.address_bits(start.map(Number::from_unsigned)).unwrap_or(0))
    }

    /// Writes a frame of a report that was not enriched, with the device's symbol if it is plausible for the address.
    fn as_the_device_says(&self, frame: &Frame<'a>, out: &mut Log) {
        let pc = self.address_bits(frame.instruction_addr).unwrap_or(0);
        let image = if frame.object_addr.is_none() { self.find_image_at(pc) } else { None };
        let name = image.and_then(|image| image.name.clone());
        let name = name.or_else(|| frame.object_name.map(escaped_file_name));
        let start = image.and_then(|image| image.start.map(Number::from_unsigned)).or(frame.object_addr);
        let start = self.address_bits(start).unwrap_or(0);
        let head = format_frame_head(frame.index, name.as_deref(), pc);
        let symbol = frame.symbol_name.filter(|name| device_name::is_a_name(*name));
        let symbol_start = self.address_bits(frame.symbol_addr);
        let offset = symbol_start.and_then(|symbol| device_name::offset_from_symbol(pc, symbol, start));
        match (symbol, offset) {
            (Some(symbol), Some(_)) => write_symbol(&head, symbol, offset, "", out),
            _ => write_address(&head, start, pc.wrapping_sub(start), out),
        }
    }
}

/// Returns the beginning of each line of a frame.
fn format_frame_head(index: usize, image: Option<&str>, pc: u64) -> String {
    format!("{index:<4}{:<30}\t{pc:#018x} ", image.unwrap_or("???"))
}

/// Returns the suffix of a name that is a guess.
fn guess_suffix(ours: &OurFrame<'_>) -> &'static str {
    if ours.approximate { " [approximate]" } else { "" }
}

fn write_symbol(head: &str, symbol: crate::Text<'_>, offset: Option<u64>, guess: &str, out: &mut Log) {
    let symbol = escaped_text(symbol);
    let _ = match offset {
        Some(offset) => writeln!(out, "{head}{symbol} + {offset}{guess}"),
        None => writeln!(out, "{head}{symbol}{guess}"),
    };
}

fn write_address(head: &str, start: u64, offset: u64, out: &mut Log) {
    let _ = writeln!(out, "{head}{start:#x} + {offset}");
}

/// Writes one of our functions. The one that owns the machine code has the offset from its start.
fn write_call(head: &str, call: &OurCall<'_>, ours: &OurFrame<'_>, out: &mut Log) {
    out.push_str(head);
    out.push_str(&call.function.map(escaped_text).unwrap_or_default());
    if let Some(offset) = ours.symbol_offset.filter(|_| !call.inlined) {
        let _ = write!(out, " + {offset}");
    }
    if let Some(path) = call.file.map(crate::Text::decode) {
        let file = escape_line(path.rsplit(['/', '\\']).next().unwrap_or_default());
        let _ = match call.line {
            Some(line) => write!(out, " ({file}:{line})"),
            // `atos` writes an unknown line like this.
            None => write!(out, " ({file}:0)"),
        };
    }
    out.push_str(if call.inlined { " [inlined]" } else { guess_suffix(ours) });
    out.push('\n');
}
