//! Profiles: the sampled stacks of a report, with their times.

mod diagnostic;
pub(crate) mod diagnostic_kind;
mod direction;
pub(crate) mod load_address;
mod stacks;
pub(crate) mod tree;

use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{Backtrace, BacktraceOrigin, ErrorKind, Report, ReportPart};
pub use diagnostic_kind::DiagnosticKind;
use stacks::Stacks;
use std::collections::{HashSet, VecDeque};
pub use tree::{TreeEnds, tree_samples};
use unslide_model::figures::round_share;

/// The maximum number of nodes in a profile.
const MOST_NODES: usize = 1 << 18;
/// The maximum number of frames in a stack.
const MOST_DEPTH: usize = 1024;
/// The longest plausible duration.
const MOST_MILLIS: u64 = 366 * 86_400_000;
/// The maximum number of frames in all stacks together.
const MOST_STEPS: usize = 1 << 22;

/// The stacks of a report's profile, as a tree over the frames of one backtrace.
#[derive(Clone, Debug)]
pub struct ReportProfile<'r, 'a> {
    /// The backtrace with its frames.
    pub backtrace: &'r Backtrace<'a>,
    /// The nodes. Each caller comes before the nodes that it calls.
    pub nodes: Vec<ProfileNode>,
    /// The position of the last node of each sample, in the order of time. Empty if that order is not known.
    pub order: Vec<u32>,
    /// The app's name for the profile.
    pub name: Option<String>,
    /// The duration of sampling in milliseconds, if the profile states it.
    pub millis: Option<u64>,
    /// The number of frames and samples left out because there are too many or they refer to nothing.
    pub skipped: u64,
}

/// A frame under certain callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileNode {
    /// The position of the caller among the nodes.
    pub parent: Option<u32>,
    /// The position of the frame in [`Backtrace::frames`].
    pub frame: u32,
    /// The samples that end here.
    pub samples: u64,
}

impl<'a> Report<'a> {
    /// Returns the stacks that were sampled while the app was slow, or `None` if the report has none.
    #[must_use]
    pub fn build_profile(&self) -> Option<ReportProfile<'_, 'a>> {
        let part = self.main_part();
        let find = |origin| {
            self.backtraces.iter().find(|b| b.part == part && b.origin == origin && !b.frames.is_empty())
        };
        let profile = match find(BacktraceOrigin::CallStackTree) {
            Some(backtrace) => profile_from_tree(backtrace)?,
            None => {
                let samples = self.find_samples()?;
                read_samples(find(BacktraceOrigin::Profile)?, &samples)
            }
        };
        Some(profile).filter(|profile| !profile.nodes.is_empty())
    }

    /// Works as [`Report::build_profile`]. For a hang without a profile, returns the only stack of the hang.
    #[must_use]
    pub fn profile_or_hang(&self) -> Option<ReportProfile<'_, 'a>> {
        self.build_profile().or_else(|| {
            let kind = self.parts.get(self.main_part())?.error_kind();
            let hung = matches!(kind, ErrorKind::Hang | ErrorKind::Deadlock) || self.is_ended_by_watchdog();
            let backtrace = self.crashed_backtrace().filter(|_| hung)?;
            let mut stacks = Stacks::default();
            stacks.add_stack(0..u32::try_from(backtrace.frames.len()).ok()?, 1);
            Some(stacks.into_profile(backtrace, None))
        })
    }

    /// Returns true for a crash that is the system's end of an app that did not answer.
    fn is_ended_by_watchdog(&self) -> bool {
        let kind = self.parts.get(self.main_part()).map(ReportPart::error_kind);
        matches!(kind, Some(ErrorKind::Mach | ErrorKind::Signal)) && self.crash_error().is_fatal_hang()
    }

    /// Returns `crash.error.profile` and its samples: those of the main thread for a hang, or else of all threads.
    fn find_samples(&self) -> Option<ProfileSamples<'a>> {
        let profile = PartFacts::for_part(self, self.main_part()).error_member(&["profile"])?;
        let threads = profile.get("threads").map(Value::items).unwrap_or_default();
        let is_main = |thread: &Value<'a>| thread.get("primary").and_then(Value::as_boolean) == Some(true);
        let main: Vec<Value<'a>> = threads.iter().copied().filter(is_main).collect();
        let chosen = if self.crash_error().is_sampled_hang() && !main.is_empty() { main } else { threads };
        let lists: Vec<Value<'a>> = chosen.into_iter().filter_map(|thread| thread.get("samples")).collect();
        if lists.is_empty() {
            return Some(ProfileSamples { profile, lists: vec![profile.get("samples")?], is_ordered: true });
        }
        Some(ProfileSamples { profile, lists, is_ordered: false })
    }

    /// Returns the [`Frame::index`](crate::Frame::index) of each frame at which a sample of `crash.error.profile` ends: their
    /// addresses are program counters. Reads at most as many samples as there are items in a report.
    #[must_use]
    pub fn innermost_sampled_frames(&self) -> HashSet<usize> {
        let profile = PartFacts::for_part(self, self.main_part()).error_member(&["profile"]);
        let threads =
            profile.and_then(|profile| profile.get("threads")).map(Value::items).unwrap_or_default();
        let own = profile.and_then(|profile| profile.get("samples"));
        let lists = threads.into_iter().filter_map(|thread| thread.get("samples")).chain(own);
        let mut innermost = HashSet::new();
        for list in lists {
            list.each_item(|sample| {
                let first = sample.get("frames").and_then(Value::first_item).and_then(Value::as_unsigned);
                innermost.extend(first.and_then(|index| usize::try_from(index).ok()));
            });
        }
        innermost
    }

    /// Returns the duration of the hang or of sampling in milliseconds, if the report states it.
    #[must_use]
    pub fn duration_millis(&self) -> Option<u64> {
        self.measured_millis().filter(|millis| *millis <= MOST_MILLIS)
    }

    /// Returns the duration of the hang or of sampling in nanoseconds, if the report states it.
    #[must_use]
    pub fn duration_nanos(&self) -> Option<u64> {
        let nanos = match self.diagnostic() {
            Some(_) => self.diagnostic_millis()?.checked_mul(1_000_000),
            None => self.measured_nanos(),
        };
        nanos.filter(|nanos| round_millis(*nanos) <= MOST_MILLIS)
    }

    fn measured_millis(&self) -> Option<u64> {
        match self.diagnostic() {
            Some(_) => self.diagnostic_millis(),
            None => self.measured_nanos().map(round_millis),
        }
    }

    fn measured_nanos(&self) -> Option<u64> {
        let facts = PartFacts::for_part(self, self.main_part());
        let kind = facts.part()?.error_kind();
        let of = |path: [&str; 2]| facts.error_member(&path).and_then(Value::as_unsigned);
        // Every report of a run that had a hang contains it.
        let hang = || of(["hang", "hang_end_nanos"])?.checked_sub(of(["hang", "hang_start_nanos"])?);
        match kind {
            ErrorKind::Hang => hang().or_else(|| of(["profile", "duration"])),
            _ if self.is_ended_by_watchdog() => hang(),
            _ => of(["profile", "duration"]),
        }
    }
}

/// Returns nanoseconds in milliseconds, rounded half up.
fn round_millis(nanos: u64) -> u64 {
    round_share(nanos, 1_000_000, 1)
}

/// `crash.error.profile` and the lists of samples that are read.
struct ProfileSamples<'a> {
    profile: Value<'a>,
    lists: Vec<Value<'a>>,
    /// True if the samples are of one thread, in the order of time.
    is_ordered: bool,
}

/// Reads KSCrash's profile. Each sample lists frames by their index, the innermost first. Samples that are equal may be
/// one with their `count`.
fn read_samples<'r, 'a>(backtrace: &'r Backtrace<'a>, samples: &ProfileSamples<'_>) -> ReportProfile<'r, 'a> {
    let ProfileSamples { profile, lists, is_ordered } = samples;
    let mut stacks = Stacks::default();
    let mut has_counts = false;
    // Samples that did not fit the device's buffer.
    stacks.record_skipped(profile.get("truncated_count").and_then(Value::as_unsigned).unwrap_or(0));
    let position = |index: u64| {
        let index = usize::try_from(index).ok()?;
        let at = backtrace.frames.binary_search_by_key(&index, |frame| frame.index).ok()?;
        u32::try_from(at).ok()
    };
    let mut read_sample = |sample: Value<'_>| {
        let [frames, count] = sample.find_members(["frames", "count"]);
        let count = count.and_then(Value::as_unsigned).unwrap_or(1);
        has_counts |= count != 1;
        let Some(frames) = frames else { return stacks.record_skipped(count) };
        let (mut stack, mut left_out) = (VecDeque::new(), 0);
        frames.each_item(|index| match index.as_unsigned().and_then(position) {
            Some(at) => {
                stack.push_back(at);
                // Keeps the outermost frames.
                left_out += u64::from(stack.len() > MOST_DEPTH && stack.pop_front().is_some());
            }
            None => left_out += 1,
        });
        stacks.record_skipped(left_out);
        stacks.add_stack(stack, count);
    };
    lists.iter().for_each(|list| list.each_item(&mut read_sample));
    let millis = profile.get("duration").and_then(Value::as_unsigned).map(round_millis);
    let found = stacks.into_profile(backtrace, profile.get("name").and_then(Value::decode_string));
    let found = ReportProfile { millis: millis.filter(|millis| *millis <= MOST_MILLIS), ..found };
    match *is_ordered && !has_counts {
        true => found,
        false => ReportProfile { order: Vec::new(), ..found },
    }
}

fn profile_from_tree<'r, 'a>(backtrace: &'r Backtrace<'a>) -> Option<ReportProfile<'r, 'a>> {
    let tree = backtrace.tree.as_deref()?;
    let mut stacks = Stacks::default();
    stacks.record_skipped(backtrace.blank_frames.len() as u64);
    for (at, own) in tree.own_counts().into_iter().enumerate().filter(|(_, own)| *own > 0) {
        // From the end of the samples up to the root.
        let above = |at: &u32| tree.nodes.get(*at as usize)?.above;
        let mut stack: Vec<u32> = std::iter::successors(u32::try_from(at).ok(), above).collect();
        if tree.innermost_first {
            stack.reverse();
        }
        stacks.add_stack(stack, own);
    }
    let profile = stacks.into_profile(backtrace, None);
    Some(ReportProfile { order: Vec::new(), ..profile })
}

impl Backtrace<'_> {
    /// Returns false for the frames of a profile: they do not form a stack.
    pub(crate) fn is_stack(&self) -> bool {
        !matches!(self.origin, BacktraceOrigin::Profile | BacktraceOrigin::CallStackTree)
    }

    /// Returns true for a frame without callees, by its position in [`Backtrace::frames`].
    #[must_use]
    pub fn is_innermost(&self, position: usize) -> bool {
        match &self.tree {
            Some(tree) => tree.is_innermost(position),
            None => self.frames.get(position).is_some_and(|frame| frame.index == 0),
        }
    }
}
