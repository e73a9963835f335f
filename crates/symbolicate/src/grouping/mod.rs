//! Finds the bug that a report is about: a fingerprint that is the same for the same bug in every build, slide,
//! device, architecture and optimisation level.
//!
//! For crashes and exceptions, the culprit is the app's innermost function in the crashed thread or the
//! exception's backtrace. If that function is in a header, the function that uses it is the culprit. Functions
//! of the system and the runtime do not count, nor do those that only report a failure. An inlined function
//! counts like any other; a closure, block or lambda counts as the function around it.
//!
//! A fingerprint contains no address, line or path. While the culprit's symbols are missing, its debug id and
//! relative address replace its name, and the group is provisional. `docs/grouping.md` has all rules with
//! examples.

mod candidates;
mod fingerprint;
mod frames;
mod javascript;
mod languages;
mod memory;
mod names;
mod profile;
mod reporters;
pub mod rules;
mod runtime;
mod script;
mod title;
mod verdict;

use crate::answer::{DeviceNames, Judged};
use crate::plan::Plan;
use candidates::{Candidates, FailureFacts};
pub(crate) use fingerprint::write_grouping;
use frames::{NamedBy, find_recursion_cycle, list_planned, name_frames};
pub use rules::GroupingRules;
use unslide_model::{ReportGrouping, words};
use unslide_report::{Backtrace, CrashError, OurJavaScriptFrame, Report, ReportProfile};
pub use verdict::{FunctionVerdict, GroupingVerdict};

/// The version of the rules. A new version gives new fingerprints.
pub const GROUPING_VERSION: u32 = 1;

/// The most frames of a backtrace that are looked at, starting at the innermost.
const MOST_FRAMES: usize = 256;
/// The most characters of a source file's path.
const PATH_CHARS: usize = 1_000;
/// File extensions of C, C++ and Objective-C headers.
const HEADER_EXTENSIONS: [&str; 7] = ["h", "hh", "hpp", "hxx", "inl", "ipp", "tcc"];
/// The most bytes of the member `grouping`.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// The bug that a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// 16 bytes: equal for reports of the same bug.
    pub fingerprint: [u8; 16],
    /// The kind of event.
    pub kind: GroupKind,
    /// True while the symbols of a frame that counts are missing.
    pub provisional: bool,
    /// One line that lists show.
    pub title: String,
    /// The words of an analysis that are in the title in place of the exception's name.
    pub headline: Option<String>,
    /// The function that probably caused it, and its file's name: `Cart.total (Cart.swift)`.
    pub culprit: Option<String>,
    /// The frames that counted.
    pub frames: Vec<CountedFrame>,
    /// The one of them with the culprit.
    pub culprit_frame: Option<CountedFrame>,
    /// Hash of the tenant's rules that were used; empty without rules.
    pub rules: String,
}

impl Grouping {
    /// The fingerprint in hexadecimal digits.
    #[must_use]
    pub fn fingerprint_text(&self) -> String {
        self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Puts the headline of an analysis into the title of a crash, if the title says no more than the name of the
    /// exception and the place.
    pub(crate) fn apply_headline(&mut self, error: &CrashError, headline: &str) {
        if self.kind == GroupKind::Crash
            && let Some(title) = title::replace_crash_name(&self.title, error, headline)
        {
            self.title = title;
            self.headline = Some(headline.to_owned());
        }
    }
}

/// Converts to the type that the store uses.
impl From<Grouping> for ReportGrouping {
    fn from(grouping: Grouping) -> ReportGrouping {
        ReportGrouping {
            fingerprint: grouping.fingerprint,
            kind: grouping.kind.as_str().to_owned(),
            provisional: grouping.provisional,
            title: grouping.title,
            culprit: grouping.culprit.unwrap_or_default(),
        }
    }
}

/// A frame that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedFrame {
    /// Its position in the backtrace.
    pub frame: usize,
    /// The key that is compared: a function's name without types, or a debug id and a relative address.
    pub function: String,
    /// The whole path of the source file, as the symbols have it; `None` if it is not known or longer than 1,000 characters.
    pub path: Option<String>,
    /// The last part of the source file's path.
    file: Option<String>,
    /// The image's name and the address, shown instead of a debug id while symbols are missing.
    label: Option<String>,
}

/// Returns the path of a source file unless it may have been cut.
fn keep_whole_path(path: Option<String>) -> Option<String> {
    path.filter(|path| path.len() < PATH_CHARS || path.chars().count() < PATH_CHARS)
}

impl CountedFrame {
    /// True for a function in a header: a container or a helper. The function that uses it says more.
    fn is_of_header(&self) -> bool {
        let extension = self.file.as_deref().and_then(|file| file.rsplit_once('.')).map(|(_, after)| after);
        extension.is_some_and(|extension| HEADER_EXTENSIONS.contains(&extension))
    }
}

words! {
    /// Kind of event, for each kind that has its own grouping rules.
    pub enum GroupKind {
        /// A Mach exception or a signal.
        Crash = "crash",
        /// An Objective-C or C++ exception.
        Exception = "exception",
        /// An unbounded recursion.
        StackOverflow = "stack_overflow",
        /// A hang.
        Hang = "hang",
        /// High CPU usage.
        Cpu = "cpu",
        /// Excessive disk writes.
        DiskWrite = "disk_write",
        /// A slow start.
        Launch = "launch",
        /// A profile that the app sampled itself.
        Profile = "profile",
        /// The system ended the process because of its memory usage.
        OutOfMemory = "out_of_memory",
        /// The system ended the process for another reason.
        Termination = "termination",
        /// The app uses much memory but keeps running.
        MemoryWarning = "memory_warning",
        /// An error that the app reported itself.
        User = "user",
        /// A JavaScript error.
        JavaScript = "javascript",
    }
}

impl GroupKind {
    /// True if the app did not stop, but took long or used too much of a resource.
    fn is_slowness(self) -> bool {
        use GroupKind::{Cpu, DiskWrite, Hang, Launch, Profile};
        matches!(self, Hang | Cpu | DiskWrite | Launch | Profile)
    }

    /// Returns the kind of an error. A crash that is the system's end of the process has the kind of its cause.
    fn from_error(error: &CrashError) -> GroupKind {
        match GroupKind::from_type(error) {
            GroupKind::Crash | GroupKind::Termination if error.is_out_of_memory() => GroupKind::OutOfMemory,
            GroupKind::Crash | GroupKind::Termination if error.is_fatal_hang() => GroupKind::Hang,
            kind => kind,
        }
    }

    fn from_type(error: &CrashError) -> GroupKind {
        match error.kind.as_deref().unwrap_or_default() {
            "cpu" => GroupKind::Cpu,
            "disk_write" => GroupKind::DiskWrite,
            "launch" => GroupKind::Launch,
            "nsexception" | "cpp_exception" => GroupKind::Exception,
            "hang" | "deadlock" => GroupKind::Hang,
            "profile" if error.is_sampled_hang() => GroupKind::Hang,
            "profile" => GroupKind::Profile,
            "user" => GroupKind::User,
            "memory_termination" => GroupKind::OutOfMemory,
            "termination" | "resource_termination" => GroupKind::Termination,
            _ => GroupKind::Crash,
        }
    }
}

/// Returns the group of a planned report; `None` if it says neither what happened nor where.
pub(crate) fn group_report<'a>(
    plan: &Plan<'_, 'a>,
    judged: &[Judged<'_>],
    names: &mut DeviceNames<'a>,
    rules: &GroupingRules,
) -> Option<Grouping> {
    let by = NamedBy::Symbols(judged, names);
    group_with_verdicts(plan, find_profile(plan.report), by, rules, false).map(|(grouping, _)| grouping)
}

/// Returns the group, and the verdict on each function.
pub(crate) fn explain_grouping<'a>(
    plan: &Plan<'_, 'a>,
    judged: &[Judged<'_>],
    names: &mut DeviceNames<'a>,
    rules: &GroupingRules,
) -> Option<(Grouping, Vec<FunctionVerdict>)> {
    group_with_verdicts(plan, find_profile(plan.report), NamedBy::Symbols(judged, names), rules, true)
}

/// The report's enrichment was shortened to its size limit, so it cannot be grouped again by its own content.
#[derive(Debug, thiserror::Error)]
#[error("the report was shortened: its frames do not say where their functions come from")]
pub struct Shortened;

/// Groups a report that was enriched before by the functions that it names; no symbols are needed. Returns
/// `None` if it says neither what happened nor where.
///
/// # Errors
/// Returns [`Shortened`] if the enrichment was shortened.
pub fn regroup_report(report: &Report<'_>, rules: &GroupingRules) -> Result<Option<Grouping>, Shortened> {
    let plan = Plan::new(report);
    let profile = find_profile(report);
    let counted = find_grouping_backtrace(report, profile.as_ref());
    let frames = counted.map(|backtrace| backtrace.frames.as_slice()).unwrap_or_default();
    let frames = if plan.javascript.is_some() { &[] } else { frames };
    let mut ours = report.ours.iter().flat_map(|ours| &ours.javascript);
    if ours.any(OurJavaScriptFrame::is_shortened) {
        return Err(Shortened);
    }
    let is_shortened = |frame| report.our_frame(frame).is_some_and(|ours| ours.is_shortened());
    // Any frame of a profile may be on its heaviest path.
    let most = if profile.is_some() { usize::MAX } else { MOST_FRAMES };
    if frames.iter().take(most).any(is_shortened) {
        return Err(Shortened);
    }
    let grouped = group_with_verdicts(&plan, profile, NamedBy::Report, rules, false);
    Ok(grouped.map(|(mut grouping, _)| {
        if let Some(headline) = report.ours.as_ref().and_then(|ours| ours.headline.as_deref()) {
            grouping.apply_headline(report.crash_error(), headline);
        }
        grouping
    }))
}

/// Returns the profile that a report is grouped by.
fn find_profile<'r, 'a>(report: &'r Report<'a>) -> Option<ReportProfile<'r, 'a>> {
    if GroupKind::from_error(report.crash_error()).is_slowness() { report.build_profile() } else { None }
}

/// Returns the backtrace that groups a native report by its functions; `None` for a report about memory.
pub(crate) fn counted_backtrace<'r, 'a>(report: &'r Report<'a>) -> Option<&'r Backtrace<'a>> {
    find_grouping_backtrace(report, find_profile(report).as_ref())
}

fn find_grouping_backtrace<'r, 'a>(
    report: &'r Report<'a>,
    profile: Option<&ReportProfile<'r, 'a>>,
) -> Option<&'r Backtrace<'a>> {
    if report.memory_event().is_some() {
        return None;
    }
    profile.map(|profile| profile.backtrace).or_else(|| report.crashed_backtrace())
}

fn group_with_verdicts<'a>(
    plan: &Plan<'_, 'a>,
    profile: Option<ReportProfile<'_, 'a>>,
    by: NamedBy<'_, '_, 'a>,
    rules: &GroupingRules,
    all: bool,
) -> Option<(Grouping, Vec<FunctionVerdict>)> {
    if let Some(error) = &plan.javascript {
        let ours = plan.report.ours.as_ref().map(|ours| ours.javascript.as_slice()).unwrap_or_default();
        let grouping = match by {
            NamedBy::Symbols(judged, _) => javascript::by_symbols(error, judged, rules),
            NamedBy::Report => javascript::by_report(error, ours, rules),
        };
        return Some((grouping, Vec::new()));
    }
    if let Some(event) = plan.report.memory_event() {
        return Some((memory::group_event(event, rules), Vec::new()));
    }
    let error = plan.report.crash_error();
    if let Some(profile) = profile {
        return Some(profile::group_profile(plan, &profile, by, rules));
    }
    let backtrace = plan.report.crashed_backtrace();
    if backtrace.is_none() && *error == CrashError::default() {
        return None;
    }
    let mut kind = GroupKind::from_error(error);
    if kind == GroupKind::User {
        let lines = plan.report.script_stack();
        if !lines.is_empty() {
            return Some((script::group_script(error, &lines, rules), Vec::new()));
        }
    }
    let frames = backtrace.map(|backtrace| list_planned(plan, backtrace)).unwrap_or_default();
    let may_overflow = kind == GroupKind::Crash && error.is_bad_access();
    let turn = if may_overflow { find_recursion_cycle(plan.report, &frames) } else { None };
    let looked_at = match &turn {
        Some(turn) => {
            kind = GroupKind::StackOverflow;
            turn.as_slice()
        }
        None => &frames[..frames.len().min(MOST_FRAMES)],
    };
    let facts = FailureFacts::from_error(kind, error);
    let candidates = Candidates::from_frames(name_frames(plan, by, looked_at), facts, rules, all);
    let chosen = candidates.choose_counted(kind);
    let verdicts = if all { candidates.list_verdicts(kind, &chosen, &frames) } else { Vec::new() };
    let mut by_depth = chosen.clone();
    if kind == GroupKind::Hang {
        // The fingerprint begins at the outermost function, but the inner one is closer to the cause.
        by_depth.sort_unstable();
    }
    Some((fingerprint::build_grouping(kind, error, rules, &candidates, &chosen, &by_depth), verdicts))
}
