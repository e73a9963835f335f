//! Which functions of a backtrace count, and why the others do not.

use super::frames::{MOST_CALLS, NamedFrame, NamedFunction};
use super::languages::{is_engine, is_raiser};
use super::names::normalise_name;
use super::reporters::{is_between, is_failure, reporter_verdict};
use super::rules::{GroupingRule, GroupingRules, RuleAction, Subject};
use super::runtime::{is_entry, is_runtime};
use super::{CountedFrame, FunctionVerdict, GroupKind, GroupingVerdict, keep_whole_path};
use crate::compiler_made::is_compiler_made;
use crate::plan::{PlannedFrame, PlannedImage};
use std::collections::BTreeSet;
use unslide_report::{CrashError, Frame, Text};

/// System functions that count if no function of the app does.
const SYSTEM_FUNCTIONS: usize = 3;
/// Functions of the app that count in a hang, starting at the outermost: the functions inside them change from
/// sample to sample.
const HANG_FUNCTIONS: usize = 2;
/// How functions may count that are not the app's own.
pub(super) const NOT_APP: [Standing; 2] = [Standing::System, Standing::Engine];
/// The most functions that count.
const MOST_COUNTED: usize = 16;
/// The most characters of a file's name.
const FILE_CHARS: usize = 100;

/// A function of the backtrace, or a frame without one.
pub(super) struct Candidate<'r> {
    pub(super) counted: CountedFrame,
    pub(super) standing: Standing,
    /// The tenant's rule that decided.
    pub(super) rule: Option<&'r GroupingRule>,
}

/// How a function may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A function of the app.
    App,
    /// A system function, which counts if no function of the app does.
    System,
    /// A function of an engine in an image of the app, which counts like one of the system.
    Engine,
    /// `main`, which counts if no other function does.
    Entry,
    /// A function of the app that never returns, so it only reports an error that its caller in the app found.
    NoReturn(GroupingVerdict),
    /// It does not count.
    Out(GroupingVerdict),
}

/// Swift's reason for a trap, and the frame with it.
pub(super) struct Trap {
    pub(super) frame: usize,
    pub(super) reason: String,
}

/// State of the functions inside the next one.
struct Inside {
    /// The position of the first sentinel.
    sentinel: Option<usize>,
    /// True if the last function ended the process or threw; `None` if the report is not about a failure.
    after_failure: Option<bool>,
    /// The position of a function that never returns, until its caller is known.
    no_return: Option<usize>,
}

/// Facts of the report that decide which functions count.
#[derive(Clone, Copy)]
pub(super) struct FailureFacts<'f> {
    pub(super) kind: GroupKind,
    /// True if the innermost instruction ends a process.
    pub(super) is_trap: bool,
    /// The name of the exception.
    pub(super) exception: Option<&'f str>,
}

impl<'f> FailureFacts<'f> {
    pub(super) fn from_error(kind: GroupKind, error: &'f CrashError) -> FailureFacts<'f> {
        // A profile ends nothing.
        let is_trap = !kind.is_slowness() && error.is_trap();
        FailureFacts { kind, is_trap, exception: error.exception.as_deref() }
    }
}

/// Functions of a backtrace, starting at the innermost.
#[derive(Default)]
pub(super) struct Candidates<'r> {
    pub(super) list: Vec<Candidate<'r>>,
    pub(super) trap: Option<Trap>,
}

impl<'r> Candidates<'r> {
    /// Reads frames, starting at the innermost. Unless `all` are wanted, stops at the function that counts.
    pub(super) fn from_frames<'p, 'a: 'p>(
        frames: impl Iterator<Item = NamedFrame<'p, 'a>>,
        facts: FailureFacts<'_>,
        rules: &'r GroupingRules,
        all: bool,
    ) -> Candidates<'r> {
        let FailureFacts { kind, is_trap, exception } = facts;
        let all = all || rules.have_sentinel() || matches!(kind, GroupKind::Hang | GroupKind::StackOverflow);
        let mut candidates = Candidates::default();
        let is_failure = !kind.is_slowness() && kind != GroupKind::StackOverflow;
        let mut inside =
            Inside { sentinel: None, after_failure: is_failure.then_some(is_trap), no_return: None };
        for frame in frames {
            let before = inside.no_return.unwrap_or(candidates.list.len());
            candidates.add_frame(&frame, exception, rules, &mut inside);
            let is_enough = |c: &Candidate<'_>| c.standing == Standing::App && !c.counted.is_of_header();
            let found = !all && candidates.list[before..].iter().any(is_enough);
            if found || candidates.list.len() >= MOST_CALLS {
                break;
            }
        }
        candidates.settle_no_return(&mut inside);
        // In a recursion, no function is inside another.
        if let Some(at) = inside.sentinel.filter(|_| kind != GroupKind::StackOverflow) {
            candidates.leave_out_inside(at);
        }
        candidates
    }

    /// Excludes all functions that the function at this position called.
    fn leave_out_inside(&mut self, sentinel: usize) {
        let rule = self.list.get(sentinel).and_then(|candidate| candidate.rule);
        for inside in self.list.iter_mut().take(sentinel) {
            inside.standing = Standing::Out(GroupingVerdict::InsideSentinel);
            inside.rule = rule;
        }
    }

    /// Adds a function. One that never returns counts itself if the system called it, not the app.
    fn push(&mut self, candidate: Candidate<'r>, inside: &mut Inside) {
        use GroupingVerdict::{CompilerMade, Ignored, Reporter, Runtime};
        match candidate.standing {
            Standing::App | Standing::Entry => inside.no_return = None,
            Standing::NoReturn(_) => inside.no_return = Some(self.list.len()),
            Standing::Out(CompilerMade | Ignored | Reporter) => {}
            Standing::Out(Runtime) if is_between(&candidate.counted.function) => {}
            Standing::System | Standing::Engine | Standing::Out(_) => self.settle_no_return(inside),
        }
        self.list.push(candidate);
    }

    /// Makes a function that never returns count, because no function of the app called it.
    fn settle_no_return(&mut self, inside: &mut Inside) {
        if let Some(candidate) = inside.no_return.take().and_then(|at| self.list.get_mut(at)) {
            candidate.standing = Standing::App;
        }
    }

    /// Adds the functions of one frame.
    fn add_frame(
        &mut self,
        frame: &NamedFrame<'_, '_>,
        exception: Option<&str>,
        rules: &'r GroupingRules,
        inside: &mut Inside,
    ) {
        let is_sentinel =
            |rule: Option<&GroupingRule>| rule.is_some_and(|rule| rule.action == RuleAction::Sentinel);
        let Some(image) = frame.image else {
            return self.push(Candidate::without_name(frame.index, GroupingVerdict::NoImage), inside);
        };
        let path = image.path.map(Text::decode);
        let path = path.as_deref().unwrap_or_default();
        // Names from the device in an image of the app, and hidden names, are replaced by better symbols later.
        let is_hidden = frame.functions.are_hidden();
        if (frame.waits || is_hidden) && !image.system {
            let rule = rules.find_match(Subject { image: path, ..Subject::default() });
            if is_sentinel(rule) {
                inside.sentinel.get_or_insert(self.list.len());
            }
            inside.set_after_failure(false);
            return self.push(Candidate::without_symbols(frame, rule), inside);
        }
        if is_hidden || frame.functions.are_unknown() {
            // System functions have no names in MetricKit reports.
            inside.set_after_failure(image.system);
            return self.push(Candidate::without_name(frame.index, GroupingVerdict::Unnamed), inside);
        }
        frame.functions.for_each(|function| {
            if let Some(reason) = function.name.strip_prefix("Swift runtime failure: ") {
                self.trap.get_or_insert_with(|| Trap { frame: frame.index, reason: reason.to_owned() });
            }
            let name = normalise_name(&function.name);
            let subject = Subject {
                function: Some(&name).filter(|name| !name.is_empty()).map(String::as_str),
                file: function.path.as_deref(),
                image: path,
            };
            let rule = rules.find_match(subject);
            if is_sentinel(rule) {
                inside.sentinel.get_or_insert(self.list.len());
            }
            let in_app = !image.system;
            let is_raiser = is_raiser(&name, exception);
            let is_failure = is_raiser || is_failure(&name, in_app);
            let mut named =
                Candidate::from_function(frame.index, function, name, in_app, inside.after_failure, rule);
            if is_raiser
                && matches!(named.standing, Standing::App | Standing::System | Standing::Engine)
                && rule.is_none()
            {
                named.standing = Standing::Out(GroupingVerdict::Reporter);
            }
            // The complete-object and base-object destructors are one function, whichever of them returns.
            let inner = inside.no_return.and_then(|at| self.list.get(at));
            if let Some(inner) = inner.filter(|inner| inner.counted.function == named.counted.function)
                && named.standing == Standing::App
            {
                named.standing = inner.standing;
            }
            // A compiler-made part of a function, or one between two functions, failed if the function that it
            // called did.
            if named.standing != Standing::Out(GroupingVerdict::CompilerMade) {
                inside.set_after_failure(is_failure || named.only_reports());
            }
            self.push(named, inside);
        });
    }

    /// Returns the positions of the functions that count, in the order of the fingerprint. A function that
    /// repeats counts once.
    pub(super) fn choose_counted(&self, kind: GroupKind) -> Vec<usize> {
        if matches!(kind, GroupKind::OutOfMemory | GroupKind::Termination) {
            return Vec::new();
        }
        let app = match kind {
            GroupKind::Hang => self.outermost_of_app(),
            GroupKind::StackOverflow => self.list_recursion(&[Standing::App], MOST_COUNTED),
            _ => self.innermost_of_app(),
        };
        if !app.is_empty() {
            return app;
        }
        let system = match kind {
            GroupKind::StackOverflow => self.list_recursion(&NOT_APP, SYSTEM_FUNCTIONS),
            _ => self.first_positions(&NOT_APP).take(SYSTEM_FUNCTIONS).collect(),
        };
        if system.is_empty() {
            self.positions_with_standing(&[Standing::Entry]).take(1).collect()
        } else {
            system
        }
    }

    fn outermost_of_app(&self) -> Vec<usize> {
        let mut outermost: Vec<usize> = self.positions_with_standing(&[Standing::App]).collect();
        outermost.reverse();
        outermost.dedup_by(|a, b| self.function_at(*a) == self.function_at(*b));
        outermost.truncate(HANG_FUNCTIONS);
        outermost
    }

    fn innermost_of_app(&self) -> Vec<usize> {
        let app: Vec<usize> = self.first_positions(&[Standing::App]).take(MOST_COUNTED).collect();
        let outside = app.iter().position(|at| !self.list[*at].counted.is_of_header());
        let counted = outside.map_or(app.len(), |at| at + 1);
        app.into_iter().take(counted).collect()
    }

    /// Returns the functions of a recursion. They are sorted before they are cut, so that the same ones count
    /// wherever it stopped.
    fn list_recursion(&self, standing: &[Standing], most: usize) -> Vec<usize> {
        let mut turn: Vec<usize> = self.first_positions(standing).collect();
        turn.sort_by_key(|at| self.function_at(*at));
        turn.truncate(most);
        turn
    }

    fn function_at(&self, at: usize) -> &str {
        &self.list[at].counted.function
    }

    /// Returns the first position of each function with this standing.
    fn first_positions(&self, standing: &[Standing]) -> impl Iterator<Item = usize> {
        let mut seen = BTreeSet::new();
        self.positions_with_standing(standing).filter(move |at| seen.insert(self.function_at(*at)))
    }

    fn positions_with_standing(&self, standing: &[Standing]) -> impl Iterator<Item = usize> {
        let list = self.list.iter().enumerate();
        list.filter(move |(_, candidate)| standing.contains(&candidate.standing)).map(|(at, _)| at)
    }

    /// Returns Swift's reason for a trap. Ignores a trap outside the outermost counted function of the app.
    pub(super) fn trap_inside(&self, chosen: &[usize]) -> Option<&str> {
        let last = chosen.last().and_then(|at| self.list.get(*at)).filter(|c| c.standing == Standing::App);
        let trap = self.trap.as_ref().filter(|trap| last.is_none_or(|last| trap.frame <= last.counted.frame));
        trap.map(|trap| trap.reason.as_str())
    }

    /// Returns the verdict on one function, if `counted` are the functions that count.
    pub(super) fn verdict_at(&self, kind: GroupKind, counted: &[usize], at: usize) -> GroupingVerdict {
        let candidate = &self.list[at];
        match candidate.standing {
            _ if counted.contains(&at) => GroupingVerdict::Counted,
            Standing::Out(verdict) | Standing::NoReturn(verdict) => verdict,
            _ if matches!(kind, GroupKind::OutOfMemory | GroupKind::Termination) => {
                GroupingVerdict::KindAlone
            }
            Standing::System if candidate.is_by(RuleAction::NotApp) => GroupingVerdict::NotApp,
            Standing::System => GroupingVerdict::System,
            Standing::Engine => GroupingVerdict::Engine,
            Standing::Entry => GroupingVerdict::Entry,
            Standing::App => match kind {
                GroupKind::Hang => GroupingVerdict::InsideHang,
                GroupKind::StackOverflow => GroupingVerdict::Repeated,
                _ if counted.last().is_some_and(|last| at < *last) => GroupingVerdict::Repeated,
                _ => GroupingVerdict::Beyond,
            },
        }
    }

    /// Returns the verdict on each function of a backtrace, in the order of its frames. `chosen` are the
    /// functions that count.
    pub(super) fn list_verdicts(
        &self,
        kind: GroupKind,
        chosen: &[usize],
        frames: &[(&Frame<'_>, &PlannedFrame)],
    ) -> Vec<FunctionVerdict> {
        let read = self.list.iter().enumerate().map(|(at, candidate)| FunctionVerdict {
            frame: candidate.counted.frame,
            function: candidate.counted.label.clone().unwrap_or_else(|| candidate.counted.function.clone()),
            verdict: self.verdict_at(kind, chosen, at),
            rule: candidate.rule.map(ToString::to_string),
        });
        let mut verdicts: Vec<FunctionVerdict> = read.collect();
        let known: BTreeSet<usize> = verdicts.iter().map(|verdict| verdict.frame).collect();
        // Frames outside the cycle of a recursion, or past the limit of frames.
        let verdict = if kind == GroupKind::StackOverflow {
            GroupingVerdict::Repeated
        } else {
            GroupingVerdict::Beyond
        };
        let others = frames.iter().map(|(frame, _)| frame.index).filter(|index| !known.contains(index));
        let others =
            others.map(|frame| FunctionVerdict { frame, function: String::new(), verdict, rule: None });
        verdicts.extend(others);
        verdicts
    }
}

impl Inside {
    /// Records whether the last function ended the process or threw, if the report is about a failure.
    fn set_after_failure(&mut self, after_failure: bool) {
        self.after_failure = self.after_failure.map(|_| after_failure);
    }
}

impl<'r> Candidate<'r> {
    /// True for a function that only reports an error that its caller found.
    fn only_reports(&self) -> bool {
        use GroupingVerdict::{Reporter, ReporterByCode, ReporterByDeclaration};
        let is_reporter = |verdict| matches!(verdict, Reporter | ReporterByCode | ReporterByDeclaration);
        match self.standing {
            Standing::NoReturn(_) => true,
            Standing::Out(verdict) => is_reporter(verdict),
            _ => false,
        }
    }

    fn without_name(frame: usize, verdict: GroupingVerdict) -> Candidate<'r> {
        let counted = CountedFrame { frame, function: String::new(), path: None, file: None, label: None };
        Candidate { counted, standing: Standing::Out(verdict), rule: None }
    }

    fn is_by(&self, action: RuleAction) -> bool {
        self.rule.is_some_and(|rule| rule.action == action)
    }

    /// Returns the candidate for a frame of the app without symbols.
    fn without_symbols(frame: &NamedFrame<'_, '_>, rule: Option<&'r GroupingRule>) -> Candidate<'r> {
        let name = frame.image.map(PlannedImage::name).unwrap_or_default();
        let id = frame.image.and_then(|image| image.debug_id);
        let function =
            format!("{}+{:#x}", id.map_or_else(|| name.clone(), |id| id.to_string()), frame.relative);
        let short: String = name.chars().take(FILE_CHARS).collect();
        let short = if short.is_empty() { "unknown image" } else { &short };
        let label = Some(format!("{short} + {:#x}", frame.relative));
        let standing = match rule.map(|rule| rule.action) {
            Some(RuleAction::NotApp) => Standing::Out(GroupingVerdict::NotApp),
            Some(RuleAction::Ignore) => Standing::Out(GroupingVerdict::Ignored),
            Some(RuleAction::App | RuleAction::Sentinel) | None => Standing::App,
        };
        let counted = CountedFrame { frame: frame.index, function, path: None, file: None, label };
        Candidate { counted, standing, rule }
    }

    fn from_function(
        frame: usize,
        function: NamedFunction,
        name: String,
        in_app: bool,
        after_failure: Option<bool>,
        rule: Option<&'r GroupingRule>,
    ) -> Candidate<'r> {
        let standing = match rule.map(|rule| rule.action) {
            Some(RuleAction::App) if !name.is_empty() => Standing::App,
            Some(RuleAction::Ignore) => Standing::Out(GroupingVerdict::Ignored),
            Some(RuleAction::NotApp) => determine_standing(&function, &name, false, after_failure),
            Some(RuleAction::App | RuleAction::Sentinel) | None => {
                determine_standing(&function, &name, in_app, after_failure)
            }
        };
        let file = function.path.as_deref().and_then(|path| path.rsplit(['/', '\\']).next());
        let file = file.map(|file| file.chars().take(FILE_CHARS).collect());
        let path = keep_whole_path(function.path);
        let counted = CountedFrame { frame, function: name, path, file, label: None };
        Candidate { counted, standing, rule }
    }
}

/// Returns how a function counts, by its name and its code.
fn determine_standing(
    function: &NamedFunction,
    name: &str,
    in_app: bool,
    after_failure: Option<bool>,
) -> Standing {
    if name.is_empty() {
        Standing::Out(GroupingVerdict::Unnamed)
    } else if is_compiler_made(name) {
        Standing::Out(GroupingVerdict::CompilerMade)
    } else if is_runtime(function, name, in_app) {
        Standing::Out(GroupingVerdict::Runtime)
    } else if is_entry(name) {
        Standing::Entry
    } else if let Some(verdict) = reporter_verdict(function, name, after_failure) {
        let is_evident = in_app && verdict != GroupingVerdict::Reporter;
        if is_evident { Standing::NoReturn(verdict) } else { Standing::Out(verdict) }
    } else if in_app && is_engine(name) {
        Standing::Engine
    } else if in_app {
        Standing::App
    } else {
        Standing::System
    }
}

#[cfg(test)]
mod tests;
