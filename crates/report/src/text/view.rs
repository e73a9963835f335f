//! A report's threads, registers and images for a page, in the form of the log. Texts of the device are
//! escaped. Parts that would make the page too long are left out.

use super::backtrace::Frames;
use super::crash::{Crash, Thread};
use super::threads::{CallView, FrameView, ThreadView, ViewRoom};
use super::{escaped_file_name, format_string, rest};
use crate::report::ours::{OurCall, OurFinding, OurVariable};
use crate::report::summary::facts::PartFacts;
use crate::report::{Backtrace, BacktraceOrigin, Frame, Report};
use crate::{AllocationWeight, FrameSlot, Number};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use unslide_model::{CpuType, DebugId};

/// The maximum number of threads shown of one report.
const MOST_THREADS: usize = 2_000;
/// The maximum number of images shown of one report.
const MOST_IMAGES: usize = 2_000;

/// The main crash of an enriched report, as a page shows it.
#[derive(Clone, Debug, Default)]
pub struct ReportView {
    /// The exception's name, such as `EXC_BAD_ACCESS`.
    pub exception: Option<String>,
    /// The signal's name.
    pub signal: Option<String>,
    /// The exception's code.
    pub code: Option<String>,
    /// The exception's message.
    pub reason: Option<String>,
    /// How the run ended and the evidence for it, for a report that is not about a crash.
    pub ended: Option<String>,
    /// The findings of analyses.
    pub findings: Vec<OurFinding>,
    /// The variables of the innermost frame.
    pub variables: Vec<OurVariable>,
    /// True for a report about memory: its backtraces do not show the cause.
    pub about_memory: bool,
    /// The backtraces, that of the crash first. For a report about memory, the samples.
    pub threads: Vec<ThreadView>,
    /// The registers of the crashed thread.
    pub registers: Vec<(String, u64)>,
    /// The images, by their addresses.
    pub images: Vec<ImageView>,
    /// True if frames, texts or images were left out.
    pub truncated: bool,
}

/// A binary image.
#[derive(Clone, Debug, Default)]
pub struct ImageView {
    /// Its load address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its file name.
    pub name: String,
    /// Its path on the device.
    pub path: String,
    /// Its architecture.
    pub arch: &'static str,
    /// Its debug id.
    pub debug_id: Option<DebugId>,
    /// The status of its symbols, or `None` if no frame refers to it.
    pub status: Option<String>,
    /// True if it belongs to the operating system.
    pub system: bool,
}

/// Returns the main crash of an enriched report for a page.
#[must_use]
pub fn build_view(report: &Report<'_>) -> ReportView {
    let facts = PartFacts::for_part(report, report.main_part());
    let crash = Crash::from_facts(&facts);
    let mut room = ViewRoom::default();
    let mut threads: Vec<_> = super::javascript::build_thread_view(report, &mut room).into_iter().collect();
    threads.extend(native_threads(&facts, &crash, &mut room));
    let registers = crash.subject.as_ref().map(rest::sorted_registers).unwrap_or_default();
    let images = list_images(&facts, &mut room);
    let error = report.crash_error().clone();
    let text = |text: Option<String>| text.map(|text| super::escape_line(&text).into_owned());
    let reason =
        text(error.find_reason().map(str::to_owned).or_else(|| report.memory_event()?.describe_reason()));
    let own = report.backtraces.iter().filter(|backtrace| backtrace.part == facts.index).count();
    ReportView {
        exception: text(error.exception),
        signal: text(error.signal),
        code: text(error.code),
        reason,
        ended: text(report.evaluate_end().map(|ended| ended.to_string())),
        findings: report.ours.iter().flat_map(|ours| &ours.findings).map(escaped_finding).collect(),
        variables: report.ours.iter().flat_map(|ours| &ours.variables).map(escaped_variable).collect(),
        about_memory: !crash.has_crashed,
        threads,
        registers,
        images,
        truncated: room.cut || own > MOST_THREADS,
    }
}

fn escaped_finding(finding: &OurFinding) -> OurFinding {
    let own = |text: &String| super::escape_line(text).into_owned();
    OurFinding {
        member: own(&finding.member),
        subject: finding.subject.as_ref().map(own),
        sentence: own(&finding.sentence),
        evidence: finding.evidence.iter().map(own).collect(),
        abstained: finding.abstained.iter().map(own).collect(),
        ..finding.clone()
    }
}

fn escaped_variable(variable: &OurVariable) -> OurVariable {
    let own = |text: &String| super::escape_line(text).into_owned();
    OurVariable {
        function: own(&variable.function),
        name: own(&variable.name),
        type_name: own(&variable.type_name),
        ..variable.clone()
    }
}

/// Returns one backtrace of the main crash, by its position in [`Report::backtraces`], with everything a page shows.
#[must_use]
pub fn thread_view(report: &Report<'_>, position: usize) -> Option<ThreadView> {
    let facts = PartFacts::for_part(report, report.main_part());
    let backtrace = report.backtraces.get(position).filter(|backtrace| backtrace.part == facts.index)?;
    let crash = Crash::from_facts(&facts);
    Some(Threads::from_facts(&facts, &crash).build_thread(position, backtrace, &mut ViewRoom::default()))
}

fn native_threads<'a>(facts: &PartFacts<'_, 'a>, crash: &Crash<'a>, room: &mut ViewRoom) -> Vec<ThreadView> {
    let threads = Threads::from_facts(facts, crash);
    let first = facts.report.crashed_backtrace().map(std::ptr::from_ref);
    let mut own: Vec<(usize, &Backtrace<'a>)> = facts
        .report
        .backtraces
        .iter()
        .enumerate()
        .filter(|(_, backtrace)| backtrace.part == facts.index && backtrace.is_stack())
        .collect();
    own.sort_by_key(|(position, backtrace)| {
        let held = threads.allocation_weight(backtrace).and_then(|weight| weight.bytes).unwrap_or(0);
        let is_later = backtrace.is_sample() == crash.has_crashed;
        let rank = (first != Some(std::ptr::from_ref(*backtrace)), is_later);
        (rank, Reverse(held), *position)
    });
    let mut shown = Vec::new();
    for (position, backtrace) in own.into_iter().take(MOST_THREADS) {
        // The crashed thread is shown as far as it fits. Any other thread is shown whole or not at all.
        let is_first = shown.is_empty();
        let frames = backtrace.frame_slots().count();
        let mut thread = match !is_first && (room.cut || frames > room.frames) {
            true => ThreadView { left_out: true, ..threads.without_frames(position, backtrace, room) },
            false => threads.build_thread(position, backtrace, room),
        };
        if !is_first && room.cut && frames > 0 {
            (thread.left_out, thread.frames) = (true, Vec::new());
        }
        shown.push(thread);
    }
    shown
}

/// The threads of the main crash.
struct Threads<'f, 'r, 'a> {
    report: &'f Report<'a>,
    crash: &'f Crash<'a>,
    frames: Frames<'f, 'r, 'a>,
    system: HashSet<DebugId>,
    /// The live memory of the allocation stacks, by their position.
    weights: Vec<AllocationWeight>,
}

impl<'f, 'r, 'a> Threads<'f, 'r, 'a> {
    fn from_facts(facts: &'f PartFacts<'r, 'a>, crash: &'f Crash<'a>) -> Threads<'f, 'r, 'a> {
        let images = facts.report.ours.iter().flat_map(|ours| &ours.images);
        let system = images.filter(|image| image.system).filter_map(|image| image.debug_id).collect();
        let weights = facts.report.allocation_weights();
        Threads { report: facts.report, crash, frames: Frames::from_facts(facts), system, weights }
    }

    /// Returns the live memory of an allocation stack.
    fn allocation_weight(&self, backtrace: &Backtrace<'_>) -> Option<AllocationWeight> {
        let position =
            backtrace.thread.filter(|_| backtrace.origin == BacktraceOrigin::AllocationStack)?.position;
        self.weights.get(position).copied()
    }

    fn build_thread(&self, position: usize, backtrace: &Backtrace<'a>, room: &mut ViewRoom) -> ThreadView {
        let view = self.without_frames(position, backtrace, room);
        ThreadView { frames: frames_of(self.report, &self.frames, backtrace, &self.system, room), ..view }
    }

    fn without_frames(&self, position: usize, backtrace: &Backtrace<'a>, room: &mut ViewRoom) -> ThreadView {
        let thread = thread_of(backtrace, self.crash);
        let name = thread
            .as_ref()
            .and_then(|thread| format_string(thread.name).or_else(|| format_string(thread.queue)));
        let sample = match backtrace.origin {
            BacktraceOrigin::BlockedThread => Some("the main thread when it was found blocked".to_owned()),
            _ => self.allocation_weight(backtrace).map(|weight| weight.to_string()),
        };
        let crashed = match backtrace.origin {
            BacktraceOrigin::Thread => backtrace.thread.is_some_and(|thread| thread.crashed),
            BacktraceOrigin::CrashedThread | BacktraceOrigin::LastException => true,
            BacktraceOrigin::DeallocatedException
            | BacktraceOrigin::Profile
            | BacktraceOrigin::CallStackTree
            | BacktraceOrigin::BlockedThread
            | BacktraceOrigin::AllocationStack => false,
        };
        ThreadView {
            position,
            number: thread.as_ref().map(|thread| thread.number),
            name: name.map(Cow::into_owned).or(sample).map(|name| room.take_string(name)),
            crashed: crashed && self.crash.has_crashed,
            is_sample: backtrace.is_sample(),
            skipped: backtrace.skipped,
            ..ThreadView::default()
        }
    }
}

fn thread_of<'a>(backtrace: &Backtrace<'a>, crash: &Crash<'a>) -> Option<Thread<'a>> {
    match backtrace.origin {
        BacktraceOrigin::Thread => {
            let position = backtrace.thread?.position;
            Thread::from_value(*crash.threads.get(position)?, position)
        }
        _ => None,
    }
}

fn frames_of<'a>(
    report: &Report<'a>,
    frames: &Frames<'_, '_, 'a>,
    backtrace: &Backtrace<'a>,
    system: &HashSet<DebugId>,
    room: &mut ViewRoom,
) -> Vec<FrameView> {
    let mut shown = Vec::new();
    for slot in backtrace.frame_slots() {
        if !room.take_frame() {
            break;
        }
        shown.push(match slot {
            FrameSlot::Frame(frame) => frame_of(report, frames, frame, system, room),
            FrameSlot::Blank(blank) => FrameView {
                index: blank.index(),
                status: "invalid_address".to_owned(),
                ..FrameView::default()
            },
        });
    }
    shown
}

fn frame_of<'a>(
    report: &Report<'a>,
    frames: &Frames<'_, '_, 'a>,
    frame: &Frame<'a>,
    system: &HashSet<DebugId>,
    room: &mut ViewRoom,
) -> FrameView {
    let ours = report.our_frame(frame).unwrap_or_default();
    let address = frames.pc(frame);
    let (image, _) = frames.find_image(frame, &ours, address);
    let mut calls = Vec::new();
    if let Some(list) = ours.calls {
        list.each_item(|call| {
            if !room.cut {
                calls.push(call_of(&OurCall::from_value(call), room));
            }
        });
    }
    if calls.is_empty()
        && let Some(symbol) = ours.symbol
    {
        calls.push(CallView { function: room.take_text(symbol), ..CallView::default() });
    }
    FrameView {
        index: frame.index,
        image: image.map(|image| room.take_string(image.into_owned())),
        debug_id: ours.debug_id,
        system: ours.debug_id.is_some_and(|id| system.contains(&id)),
        address,
        relative: ours.relative_address,
        status: ours.status.map(|status| room.take_text(status)).unwrap_or_default(),
        approximate: ours.approximate,
        calls,
        ..FrameView::default()
    }
}

fn call_of(call: &OurCall<'_>, room: &mut ViewRoom) -> CallView {
    let path = call.file.map(|file| room.take_text(file));
    let name = |path: &String| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    CallView {
        function: call.function.map(|function| room.take_text(function)).unwrap_or_default(),
        file: path.as_ref().map(name),
        path,
        line: call.line,
        inlined: call.inlined,
    }
}

fn list_images(facts: &PartFacts<'_, '_>, room: &mut ViewRoom) -> Vec<ImageView> {
    let source = facts.part().and_then(|part| facts.report.parts.get(part.image_source?));
    let ours = facts.report.ours.iter().flat_map(|ours| &ours.images);
    let known: HashMap<DebugId, _> = ours.filter_map(|image| Some((image.debug_id?, image))).collect();
    let mut shown = Vec::new();
    for image in source.map(|part| part.images.as_slice()).unwrap_or_default() {
        if room.cut || shown.len() == MOST_IMAGES {
            room.cut = true;
            break;
        }
        let ours = image.uuid.and_then(|id| known.get(&id));
        shown.push(ImageView {
            start: image.addr.and_then(Number::to_bits).unwrap_or(0),
            size: image.size,
            name: image
                .name
                .map(|name| room.take_string(escaped_file_name(name).into_owned()))
                .unwrap_or_default(),
            path: image.name.map(|name| room.take_text(name)).unwrap_or_default(),
            arch: image.cpu.map_or("unknown", CpuType::name),
            debug_id: image.uuid,
            status: ours.map(|image| image.status.clone()),
            system: ours.is_some_and(|image| image.system),
        });
    }
    shown.sort_by_key(|image| image.start);
    shown
}
