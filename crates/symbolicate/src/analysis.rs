//! Analyses: pure functions of a symbolicated report that add a member to our key.

use crate::answer::{Judged, Name, answer_frame};
use crate::derived::{DerivedObject, ImageDerivative};
use crate::grouping::Grouping;
use crate::plan::{Plan, PlannedFrame};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use unslide_model::DebugId;
use unslide_report::{Backtrace, Frame, Report, Text};

/// The most bytes of the value that an analysis adds to a report. A larger value is left out.
pub const MOST_FINDING_BYTES: usize = 8 << 10;
/// The most functions of a frame that an analysis sees, starting at the innermost.
const MOST_FUNCTIONS: usize = 32;
/// The most bytes of a function's name that an analysis sees. A longer name is left out.
const MOST_NAME_BYTES: usize = 512;

/// A pure function of a symbolicated report that adds a member to our key.
#[derive(Clone, Copy, Debug)]
pub struct Analysis {
    /// Its name, by which a tenant can turn it on or off.
    pub name: &'static str,
    /// The key of its member in `symbolication`. No other analysis and no member of the core may have the same.
    pub member: &'static str,
    /// Returns the value of the member, or `None` if it has nothing to say. The same report and symbols must give the
    /// same value.
    pub run: for<'c, 'a> fn(&'c SymbolicatedCrash<'c, 'a>) -> Option<AnalysisFinding>,
    /// True if a tenant has to turn it on.
    pub is_opt_in: bool,
    /// The derived objects of the innermost frame's image that it reads.
    pub derived: &'static [DerivedObject],
    /// The words of sentences about its findings in a group.
    pub phrases: AnalysisPhrases,
}

/// The words of sentences about the findings of an analysis in the reports of a group.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisPhrases {
    /// What verdicts say of the expression that they name.
    pub verdicts: &'static [VerdictPhrase],
    /// What hints say of a device.
    pub hints: &'static [HintPhrase],
}

impl AnalysisPhrases {
    /// No words: verdicts are shown as they are, and hints are not shown.
    pub const NONE: AnalysisPhrases = AnalysisPhrases { verdicts: &[], hints: &[] };
}

/// What a verdict says of the expression that it names.
#[derive(Clone, Copy, Debug)]
pub struct VerdictPhrase {
    /// The verdict, such as `null_pointer`.
    pub verdict: &'static str,
    /// The rest of the sentence that begins with the expression, such as `is null`.
    pub predicate: &'static str,
}

/// What a hint says of a device whose reports in several groups have it.
#[derive(Clone, Copy, Debug)]
pub struct HintPhrase {
    /// The hint, a word in lower case.
    pub hint: &'static str,
    /// The clause about the device, such as `its pointers are off by one bit`.
    pub clause: &'static str,
    /// The advice, such as `look at its memory`.
    pub advice: &'static str,
}

impl Analysis {
    /// Returns true if the analysis is on for a tenant with these switches. Its default counts if they do not name it.
    #[must_use]
    pub fn is_enabled(&self, switches: &BTreeMap<String, bool>) -> bool {
        switches.get(self.name).copied().unwrap_or(!self.is_opt_in)
    }
}

/// Returns the analyses that are on for a tenant with these switches: names of analyses and whether they are on.
#[must_use]
pub fn enabled_analyses(all: &[Analysis], switches: &BTreeMap<String, bool>) -> Vec<Analysis> {
    all.iter().filter(|analysis| analysis.is_enabled(switches)).copied().collect()
}

/// The result of an analysis.
#[derive(Clone, Debug)]
pub struct AnalysisFinding {
    /// The value of its member: an object with `sentence`, for people, `evidence`, a list of objects, and `abstained`, a
    /// list of objects of which each says in `text` why a statement is missing; or the list `variables`. The object may
    /// have the words `verdict` and `hint`, which groups count.
    pub value: Box<RawValue>,
    /// Words that say more than the name of the exception in the title of the group, such as `Null pointer:
    /// Player.score`. They must come from symbols alone, because reports of one group share a title and users' data must
    /// not be in it.
    pub headline: Option<String>,
}

impl AnalysisFinding {
    /// Writes a value as JSON. Returns `None` if it has no JSON.
    #[must_use]
    pub fn from_value(value: &impl Serialize) -> Option<AnalysisFinding> {
        serde_json::value::to_raw_value(value).ok().map(|value| AnalysisFinding { value, headline: None })
    }
}

/// A finding of an analysis.
#[derive(Clone, Debug, Serialize)]
pub struct NamedFinding {
    /// The key of its member in `symbolication`.
    pub member: &'static str,
    /// The value of the member.
    pub value: Box<RawValue>,
    /// The headline of the finding, for the title of the group.
    #[serde(skip)]
    pub headline: Option<String>,
}

/// Returns the findings of analyses that fit [`MOST_FINDING_BYTES`].
pub(crate) fn collect_findings<'a>(
    plan: &Plan<'_, 'a>,
    judged: &[Judged<'_>],
    analyses: &[Analysis],
    derived: &[ImageDerivative<'_>],
) -> Vec<NamedFinding> {
    if analyses.is_empty() {
        return Vec::new();
    }
    let backtrace = plan.report.crashed_backtrace();
    let first = backtrace.map_or(0, |crashed| frames_before(plan.report, crashed));
    let frame = |index: usize| {
        let frame = backtrace?.frames.get(index)?;
        let planned = plan.frames.get(first.checked_add(index)?)?;
        Some(CrashFrame::answer(plan, judged, frame, planned))
    };
    let count = backtrace.map_or(0, |crashed| crashed.frames.len());
    let crash = SymbolicatedCrash { derived, ..SymbolicatedCrash::new(plan.report, count, &frame) };
    let found = analyses.iter().filter_map(|analysis| {
        let AnalysisFinding { value, headline } = (analysis.run)(&crash)?;
        let fits = value.get().len() <= MOST_FINDING_BYTES;
        fits.then_some(NamedFinding { member: analysis.member, value, headline })
    });
    found.collect()
}

/// Puts the headline of a finding into the title of the report's group.
pub(crate) fn apply_headline(grouping: &mut Grouping, report: &Report<'_>, findings: &[NamedFinding]) {
    if let Some(headline) = findings.iter().find_map(|finding| finding.headline.as_deref()) {
        grouping.apply_headline(report.crash_error(), headline);
    }
}

/// Returns the number of frames before those of a backtrace, in the order of the plan.
fn frames_before(report: &Report<'_>, backtrace: &Backtrace<'_>) -> usize {
    let before = report.backtraces.iter().take_while(|other| !std::ptr::eq(*other, backtrace));
    before.map(|other| other.frames.len()).sum()
}

/// Looks up a frame of a crashed backtrace by its position among the frames with content.
type FindFrame<'c> = dyn Fn(usize) -> Option<CrashFrame> + 'c;

/// The main crash of a report, with the functions of its frames.
#[derive(Clone, Copy)]
pub struct SymbolicatedCrash<'c, 'a> {
    report: &'c Report<'a>,
    frames: usize,
    find: &'c FindFrame<'c>,
    derived: &'c [ImageDerivative<'c>],
}

impl fmt::Debug for SymbolicatedCrash<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolicatedCrash").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl<'c, 'a> SymbolicatedCrash<'c, 'a> {
    /// Makes the crash of a report with `frames` frames, which `find` looks up.
    #[must_use]
    pub fn new(report: &'c Report<'a>, frames: usize, find: &'c FindFrame<'c>) -> SymbolicatedCrash<'c, 'a> {
        SymbolicatedCrash { report, frames, find, derived: &[] }
    }

    /// Returns the report.
    #[must_use]
    pub fn report(&self) -> &'c Report<'a> {
        self.report
    }

    /// Returns the number of frames of the crashed backtrace.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Looks up a frame of the crashed backtrace, 0 the innermost.
    #[must_use]
    pub fn frame(&self, index: usize) -> Option<CrashFrame> {
        (self.find)(index)
    }

    /// Returns the derived object of an image.
    #[must_use]
    pub fn derived_object(&self, debug_id: DebugId, name: &str) -> Option<&'c [u8]> {
        let found = self.derived.iter().find(|own| own.debug_id == debug_id && own.name == name);
        found.map(|own| own.bytes)
    }
}

impl Plan<'_, '_> {
    /// Returns the debug id of the image that the innermost frame of the crashed backtrace lies in, if the report has
    /// registers: analyses may read derived objects of it.
    #[must_use]
    pub fn find_crashed_image(&self) -> Option<DebugId> {
        let backtrace = self.report.crashed_backtrace()?;
        let planned = self.frames.get(frames_before(self.report, backtrace))?;
        let has_registers = backtrace.frames.first()?.index == 0
            && self.report.crash_state().is_some_and(|state| !state.registers.is_empty());
        let image = self.images.get(planned.place?.image as usize)?;
        image.debug_id.filter(|_| has_registers)
    }
}

/// A frame of a crashed backtrace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashFrame {
    /// Its cleaned address, not decremented.
    pub address: u64,
    /// The address relative to the start of its image, unless that is a guess.
    pub image_offset: Option<u64>,
    /// The debug id of its image.
    pub debug_id: Option<DebugId>,
    /// The name of its image's file; empty if it lies in no image.
    pub image: String,
    /// True if its image belongs to the operating system.
    pub system: bool,
    /// The type and subtype of its image's CPU, in the report's words.
    pub cpu: Option<unslide_model::CpuType>,
    /// Its functions by symbols, the innermost inlined one first. Empty without symbols.
    pub functions: Vec<String>,
    /// The name of the symbol that owns the code, by symbols or else by the device, without the leading `_`.
    pub symbol: Option<String>,
}

impl CrashFrame {
    fn answer<'a>(
        plan: &Plan<'_, 'a>,
        judged: &[Judged<'_>],
        frame: &Frame<'a>,
        planned: &PlannedFrame,
    ) -> CrashFrame {
        let answer = answer_frame(plan, judged, frame, planned, false);
        let image = answer.place.and_then(|place| plan.images.get(place.image as usize));
        let (functions, symbol) = match answer.name {
            Name::Nobody => (Vec::new(), None),
            Name::Device(device) => (Vec::new(), short_name(device.name)),
            Name::Symbols(found) => {
                let calls = found.calls().take(MOST_FUNCTIONS);
                let names = calls.map(|call| short_name(call.function).unwrap_or_default()).collect();
                (names, found.symbol.and_then(short_name))
            }
        };
        CrashFrame {
            address: answer.address,
            image_offset: image
                .filter(|image| !image.approximate)
                .and_then(|image| answer.address.checked_sub(image.start)),
            debug_id: image.and_then(|image| image.debug_id),
            image: image.map(super::plan::PlannedImage::name).unwrap_or_default(),
            system: image.is_some_and(|image| image.system),
            cpu: image.and_then(|image| image.cpu),
            functions,
            symbol: symbol.map(|name| name.strip_prefix('_').map_or_else(|| name.clone(), str::to_owned)),
        }
    }
}

fn short_name(name: Text<'_>) -> Option<String> {
    let is_short = !name.is_empty() && name.raw().len() <= MOST_NAME_BYTES;
    is_short.then(|| name.decode().into_owned())
}
