//! Why each frame got the answer that it got.

mod advice;
mod explanation;
mod grouping;
mod javascript;

use crate::analysis::{self, Analysis};
use crate::answer::{DeviceNames, FrameAnswer, Judged, Name, answer_frame, check_symbols};
use crate::derived::ImageDerivative;
use crate::engine::ENGINE;
use crate::grouping::GroupingRules;
use crate::plan::{Plan, PlannedFrame};
use crate::status::{FrameStatus, ImageStatus};
use crate::symbols::ImageSymbols;
use crate::symcache::{NameSource, SymCache};
use advice::Advisor;
pub use explanation::Explanation;
pub use grouping::{ExplainedFunction, ExplainedGrouping};
pub use javascript::ExplainedJavaScriptFrame;
use serde::Serialize;
use std::slice::Iter;
use unslide_model::{
    ContentHash, CpuType, DebugId, FileAddress, LoadAddress, Quality, RelativeAddress, Slide,
};
use unslide_report::{Backtrace, BacktraceOrigin, Frame, FrameSlot, Number, Report};

/// Limits of one report: frames that are explained, and bytes of the calls that are named.
const MOST_FRAMES: usize = 20_000;
const MOST_CALL_BYTES: usize = 4 << 20;

/// Remaining capacity of an explanation.
struct Room {
    frames: usize,
    call_bytes: usize,
    cut: bool,
}

impl Room {
    /// Reserves capacity for one more frame. Returns false if there is none left.
    fn try_reserve_frame(&mut self) -> bool {
        let left = self.frames.checked_sub(1);
        self.cut |= left.is_none();
        self.frames = left.unwrap_or(0);
        left.is_some()
    }

    /// Reserves capacity for texts of `bytes`. Once a text does not fit, no later one does.
    fn try_reserve_text(&mut self, bytes: usize) -> bool {
        let left = self.call_bytes.checked_sub(bytes);
        self.cut |= left.is_none();
        self.call_bytes = left.unwrap_or(0);
        left.is_some()
    }
}

/// Shared state while frames are explained.
struct ExplainContext<'c, 'a> {
    names: &'c mut DeviceNames<'a>,
    room: &'c mut Room,
    advisor: &'c Advisor,
}

/// An image and its symbols. Addresses are hexadecimal texts, because JSON numbers would lose bits.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedImage {
    /// Its debug id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_id: Option<DebugId>,
    /// Its path, as the report has it.
    pub path: String,
    /// True for an image of the operating system.
    pub system: bool,
    /// Its CPU, as the report has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<&'static str>,
    /// Its load address.
    pub load_address: String,
    /// Its preferred load address, according to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_vm_address: Option<String>,
    /// Its preferred load address, according to its object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_vm_address: Option<String>,
    /// Status of its symbols.
    pub status: ImageStatus,
    /// The symcache that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symcache: Option<ExplainedSymcache>,
}

/// A symcache that answers.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedSymcache {
    /// The generation of the debug id's symbols.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The object that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ContentHash>,
    /// The CPU of the object.
    pub arch: &'static str,
    /// Kinds of names and lines that the object contains.
    pub quality: Quality,
}

/// A list of frames.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedBacktrace {
    /// 0 for the outer report, 1 for its `recrash_report`, and so on.
    pub part: usize,
    /// Origin of the backtrace in the report.
    pub origin: &'static str,
    /// True for the backtrace that grouping uses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// The thread's own index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<i64>,
    /// True for the thread that crashed.
    pub crashed: bool,
    /// Its frames.
    pub frames: Vec<ExplainedFrame>,
}

/// The steps from a frame to its answer.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedFrame {
    /// Its position, 0 the innermost.
    pub index: usize,
    /// The address as the report has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_addr: Option<String>,
    /// The address without sign, fraction, instruction-set bits and signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<String>,
    /// True if the address is a float in the report.
    pub imprecise: bool,
    /// True if a pointer's signature was stripped.
    pub pac_stripped: bool,
    /// Number of the rule that chose the look-up address, 1 to 9.
    pub rule: u8,
    /// Name of that rule.
    pub rule_name: &'static str,
    /// True if the look-up address is one lower than the cleaned one.
    pub adjusted: bool,
    /// The address that was looked up, in the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_address: Option<String>,
    /// The image's position in [`Explanation::images`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<u32>,
    /// How the image was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_by: Option<&'static str>,
    /// True if the frame itself names another image.
    pub reattributed: bool,
    /// Load address − preferred address of the image, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slide: Option<String>,
    /// The address that was looked up, from the image's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_relative: Option<String>,
    /// The address that was looked up, in the object's own address space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_file_address: Option<String>,
    /// Status of the frame.
    pub status: FrameStatus,
    /// `dwarf`, `symtab`, `exports` or `device`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    /// True if the answer is a guess.
    pub approximate: bool,
    /// The functions, the innermost first, with their lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// The reason for the status, as a sentence.
    pub reason: String,
    /// The verdicts of grouping on its functions, in the backtrace that counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grouping: Vec<ExplainedFunction>,
}

/// Answers every frame as [`enrich`](crate::enrich) does, and says why. `rules` are the tenant's own grouping
/// rules, and `analyses` those that the tenant uses.
#[must_use]
pub fn explain_report<'s>(
    report: &Report<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    rules: &GroupingRules,
    analyses: &[Analysis],
) -> Explanation {
    explain_with_derived(report, symbols, rules, analyses, &[])
}

/// Does the same as [`explain_report`], with derived objects for the analyses.
#[must_use]
pub fn explain_with_derived<'s>(
    report: &Report<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    rules: &GroupingRules,
    analyses: &[Analysis],
    derived: &[ImageDerivative<'_>],
) -> Explanation {
    let plan = Plan::new(report);
    let judged: Vec<Judged<'s>> = plan.images.iter().map(|image| check_symbols(image, symbols)).collect();
    let mut names = DeviceNames::new(&plan, &judged);
    let mut room = Room { frames: MOST_FRAMES, call_bytes: MOST_CALL_BYTES, cut: false };
    let advisor = Advisor::new(report);
    let findings = analysis::collect_findings(&plan, &judged, analyses, derived);
    let (grouping, mut verdicts, counted) = grouping::explain_grouping(&plan, &judged, &mut names, rules);
    let javascript = javascript::explain_javascript_frames(&plan, &judged, &counted, &mut room);
    let grouped_by = crate::grouping::counted_backtrace(report).filter(|_| plan.javascript.is_none());
    let without_crash = report.part_without_crash();
    let mut planned = plan.frames.iter();
    let mut backtraces = Vec::new();
    for backtrace in &report.backtraces {
        let counts = grouped_by.is_some_and(|counted| std::ptr::eq(counted, backtrace));
        let mut context = ExplainContext { names: &mut names, room: &mut room, advisor: &advisor };
        let mut frames = explain_frames(&plan, &judged, backtrace, &mut planned, &mut context);
        if counts {
            room.cut |= verdicts.move_into_frames(&mut frames, &mut room.call_bytes);
        }
        backtraces.push(ExplainedBacktrace {
            part: backtrace.part,
            origin: origin_name(backtrace.origin),
            counts,
            thread: backtrace.thread.and_then(|thread| thread.index),
            crashed: backtrace.thread.is_some_and(|thread| thread.crashed)
                && !backtrace.is_sample()
                && without_crash != Some(backtrace.part),
            frames,
        });
        // A list without frames uses capacity too.
        if !room.try_reserve_frame() {
            break;
        }
    }
    let images = explain_images(&plan, &judged, symbols);
    Explanation {
        report_id: report.id,
        engine: ENGINE,
        images,
        findings,
        grouping,
        javascript,
        backtraces,
        truncated: room.cut,
    }
}

fn explain_images<'s>(
    plan: &Plan<'_, '_>,
    judged: &[Judged<'s>],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Vec<ExplainedImage> {
    // In the order of first reference, so that the images of the explained frames are included.
    let explained = plan.images.iter().zip(judged).take(MOST_FRAMES).map(|(image, judged)| {
        let object = match image.debug_id.and_then(|id| symbols(&id)) {
            Some(ImageSymbols::Found { object, .. }) => *object,
            _ => None,
        };
        ExplainedImage {
            debug_id: image.debug_id,
            path: image.path.map_or_else(|| image.name(), |path| path.decode().into_owned()),
            system: image.system,
            arch: image.cpu.map(CpuType::name),
            load_address: LoadAddress(image.start).to_string(),
            device_vm_address: image.vmaddr.map(|address| FileAddress(address).to_string()),
            object_vm_address: judged.symbols.map(|symbols| symbols.text_address().to_string()),
            status: judged.status,
            symcache: judged.symbols.map(|symbols| ExplainedSymcache {
                generation: judged.generation,
                object,
                arch: symbols.cpu().name(),
                quality: symbols.quality(),
            }),
        }
    });
    explained.collect()
}

/// Explains the frames of a backtrace, as many as fit. `planned` is positioned at its first frame.
fn explain_frames<'a>(
    plan: &Plan<'_, 'a>,
    judged: &[Judged<'_>],
    backtrace: &Backtrace<'a>,
    planned: &mut Iter<'_, PlannedFrame>,
    context: &mut ExplainContext<'_, 'a>,
) -> Vec<ExplainedFrame> {
    let (mut frames, mut sigtramp_at) = (Vec::new(), None);
    for slot in backtrace.frame_slots() {
        if !context.room.try_reserve_frame() {
            break;
        }
        let frame = match slot {
            FrameSlot::Frame(frame) => frame,
            FrameSlot::Blank(blank) => {
                // The plan does not contain this frame.
                let frame = Frame { index: blank.index(), ..Frame::default() };
                let planned = plan.plan_blank(backtrace, frame.index);
                let answered = answer_frame(plan, judged, &frame, &planned, false);
                frames.push(explain_frame(plan, judged, &frame, &planned, &answered, context));
                continue;
            }
        };
        let Some(planned) = planned.next() else { break };
        let after_sigtramp = sigtramp_at.is_some_and(|at: usize| at + 1 == frame.index);
        let answered = answer_frame(plan, judged, frame, planned, after_sigtramp);
        sigtramp_at = answered.is_sigtramp(frame).then_some(frame.index);
        frames.push(explain_frame(plan, judged, frame, planned, &answered, context));
    }
    frames
}

fn explain_frame<'a>(
    plan: &Plan<'_, 'a>,
    all: &[Judged<'_>],
    frame: &Frame<'a>,
    planned: &PlannedFrame,
    answered: &FrameAnswer<'_, 'a>,
    context: &mut ExplainContext<'_, 'a>,
) -> ExplainedFrame {
    let choice = answered.choice;
    let decrement = u64::from(choice.adjusted);
    let image = answered.place.and_then(|place| plan.images.get(place.image as usize));
    let judged = answered.place.and_then(|place| all.get(place.image as usize));
    let text = judged.and_then(|judged| judged.symbols).map(SymCache::text_address);
    let relative = image.map(|_| RelativeAddress(answered.relative.saturating_sub(decrement)));
    let (source, mut calls) = describe_name(answered, context.names, context.room);
    // The names in it come from the report.
    let advice = find_advice(plan, all, answered, context.advisor)
        .filter(|advice| context.room.try_reserve_text(advice.len()));
    if !context.room.try_reserve_text(calls.iter().map(String::len).sum()) {
        calls.clear();
    }
    ExplainedFrame {
        index: frame.index,
        instruction_addr: frame.instruction_addr.map(format_number),
        cleaned: planned.valid.then(|| LoadAddress(answered.address).to_string()),
        imprecise: planned.imprecise,
        pac_stripped: planned.pac_stripped,
        rule: choice.rule.number(),
        rule_name: choice.rule.name(),
        adjusted: choice.adjusted,
        lookup_address: planned.valid.then(|| LoadAddress(answered.address - decrement).to_string()),
        image: answered.place.map(|place| place.image),
        image_by: answered.place.map(|place| place.join.name()),
        reattributed: answered.place.is_some_and(|place| place.reattributed),
        slide: image.and_then(|image| {
            let preferred = text.or(image.vmaddr.map(FileAddress))?;
            Some(Slide::from_addresses(LoadAddress(image.start), preferred).0.to_string())
        }),
        lookup_relative: relative.map(|relative| relative.to_string()),
        lookup_file_address: relative.and_then(|r| Some(r.in_file(text?)?.to_string())),
        status: answered.status,
        source,
        approximate: answered.approximate,
        calls,
        reason: describe_reason(answered, frame, judged, advice),
        grouping: Vec::new(),
    }
}

fn describe_name<'a>(
    answered: &FrameAnswer<'_, 'a>,
    names: &mut DeviceNames<'a>,
    room: &Room,
) -> (Option<&'static str>, Vec<String>) {
    match &answered.name {
        Name::Nobody => (None, Vec::new()),
        Name::Device(device) => {
            let demangled = names.demangle_name(device).map(str::to_owned);
            (Some("device"), vec![demangled.unwrap_or_else(|| device.name.decode().into_owned())])
        }
        Name::Symbols(found) => {
            let source = match found.source {
                NameSource::Dwarf => "dwarf",
                NameSource::Symtab => "symtab",
                NameSource::Exports => "exports",
            };
            let (mut calls, mut bytes) = (Vec::new(), 0);
            for call in found.calls() {
                let mut text = call.function.decode().into_owned();
                if let Some(file) = call.file {
                    text = format!("{text} in {}", file.decode());
                }
                if let Some(line) = call.line {
                    text = format!("{text}:{line}");
                }
                if call.inlined {
                    text.push_str(" (inlined)");
                }
                bytes += text.len();
                calls.push(text);
                // No call that follows can make this answer fit.
                if bytes > room.call_bytes {
                    break;
                }
            }
            (Some(source), calls)
        }
    }
}

/// Returns which symbols would answer for the frame's image, if it lacks them.
fn find_advice(
    plan: &Plan<'_, '_>,
    judged: &[Judged<'_>],
    answered: &FrameAnswer<'_, '_>,
    advisor: &Advisor,
) -> Option<String> {
    let index = answered.image_index()?;
    let (image, judged) = (plan.images.get(index)?, judged.get(index)?);
    if answered.is_hidden() && !image.system {
        return Some(advisor.advise_hidden(image));
    }
    if answered.lacks_dsym(image, judged) {
        return Some(advisor.advise_stripped(image));
    }
    if !image.system && judged.symbols.is_some_and(|symbols| symbols.quality() < Quality::Dwarf) {
        return Some(advisor.without_lines(image));
    }
    (judged.status == ImageStatus::Missing).then(|| advisor.advise_missing(image))
}

fn describe_reason(
    answered: &FrameAnswer<'_, '_>,
    frame: &Frame<'_>,
    judged: Option<&Judged<'_>>,
    advice: Option<String>,
) -> String {
    let symbols = match judged.map(|judged| judged.status) {
        Some(ImageStatus::Found) => "the symbols name no function at all",
        Some(ImageStatus::Malformed) => "the symbols are broken, or for another CPU",
        Some(ImageStatus::Unsupported) => "the symbols are of a kind that is not read",
        Some(ImageStatus::FetchingFailed) => "the symbols could not be fetched",
        Some(ImageStatus::Missing) | None => "no symbols are known for the image's debug id",
    };
    let device = match (&answered.name, frame.symbol_name) {
        (Name::Device(_), _) => "the device's own name stands in",
        (_, Some(_)) => "the device's own name is a placeholder, or too far from the address",
        (_, None) => "the device gives no name either",
    };
    let and_advice = |text: &str| match &advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text.to_owned(),
    };
    match answered.status {
        FrameStatus::Symbolicated => and_advice("the image's symbols answered"),
        FrameStatus::MissingSymbol if judged.is_some_and(|j| j.symbols.is_some()) => {
            and_advice("the image's symbols have no function at the look-up address")
        }
        FrameStatus::UnknownImage if answered.waits_for.is_some() => and_advice(
            "the look-up address lies in no image of the report's list, and the one that the frame names has \
             no symbols that could confirm it",
        ),
        FrameStatus::UnknownImage => "the look-up address lies in no image of the report's list".to_owned(),
        FrameStatus::InvalidAddress => {
            "the frame has no address that is a number, or one in the page at 0".to_owned()
        }
        _ => format!("{device}; {}", advice.unwrap_or_else(|| symbols.to_owned())),
    }
}

fn format_number(number: Number) -> String {
    match number {
        Number::Int { magnitude, negative: false } => LoadAddress(magnitude).to_string(),
        Number::Int { magnitude, negative: true } => format!("-{magnitude}"),
        Number::Float(float) => float.to_string(),
    }
}

fn origin_name(origin: BacktraceOrigin) -> &'static str {
    match origin {
        BacktraceOrigin::Thread => "thread",
        BacktraceOrigin::CrashedThread => "crashed_thread",
        BacktraceOrigin::LastException => "last_exception_backtrace",
        BacktraceOrigin::DeallocatedException => "last_dealloced_nsexception",
        BacktraceOrigin::Profile => "profile",
        BacktraceOrigin::BlockedThread => "stack_deadlock",
        BacktraceOrigin::AllocationStack => "stack_oom",
        BacktraceOrigin::CallStackTree => "call_stack_tree",
    }
}

#[cfg(test)]
mod tests;
