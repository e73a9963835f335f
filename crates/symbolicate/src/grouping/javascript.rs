//! Grouping of a JavaScript error: by its class and the functions of the app, each with its file's name.
//! Bundles, lines and columns differ between builds, and do not count.

use super::fingerprint::hash_parts;
use super::rules::{RuleAction, Subject};
use super::{CountedFrame, GroupKind, Grouping, GroupingRules, keep_whole_path, title};
use crate::answer::Judged;
use crate::javascript::{self, FunctionSource, JavaScriptAnswer, stable_device_name};
use crate::plan::PlannedJavaScript;
use crate::status::FrameStatus;
use std::collections::{HashMap, HashSet};
use unslide_report::{CrashError, JavaScriptFrame, OurJavaScriptFrame};

/// The most functions that count.
const MOST_COUNTED: usize = 16;
/// Library functions that count if no function of the app does.
const LIBRARY_FUNCTIONS: usize = 3;
/// The most characters of a function's name and of a file's name that count.
const MOST_FUNCTION: usize = 200;
const MOST_FILE: usize = 100;
/// Name of a function without one.
const ANONYMOUS_FUNCTION: &str = "(anonymous)";

/// The data of a frame that grouping uses.
struct NamedCall {
    /// True if the source map may say more later.
    waits: bool,
    in_app: bool,
    function: Option<String>,
    file: Option<String>,
    bundle: String,
    debug_id: Option<String>,
    place: (u32, u32),
}

/// Returns the group according to source maps.
pub(super) fn by_symbols(
    error: &PlannedJavaScript,
    judged: &[Judged<'_>],
    rules: &GroupingRules,
) -> Grouping {
    let answers = javascript::answer_frames(error, judged);
    // Components of React say where the app was, not what it called.
    let counts = |answer: &JavaScriptAnswer<'_>, frame: &JavaScriptFrame| {
        !answer.is_of_engine() && !frame.is_component
    };
    let calls = answers.iter().zip(error.frames()).filter(|(answer, (frame, _))| counts(answer, frame));
    let calls = calls.map(|(answer, (frame, image))| {
        let judged = image.and_then(|image| judged.get(image as usize));
        let function = answer.function.as_ref();
        let function =
            function.and_then(|(name, source)| counted_name(name, *source == FunctionSource::Device));
        NamedCall {
            waits: is_waiting(answer.status),
            in_app: answer.in_app,
            function,
            file: answer.place.as_ref().and_then(|place| place.file).map(|file| file.decode().into_owned()),
            bundle: frame.bundle.clone().unwrap_or_default(),
            debug_id: judged
                .and_then(|judged| judged.debug_id)
                .map(|id| String::from_utf8_lossy(&id).into_owned()),
            place: (frame.line.unwrap_or(0), frame.column.unwrap_or(0).saturating_add(1)),
        }
    });
    let at = answers.iter().zip(error.frames()).enumerate();
    let at = at.filter(|(_, (answer, (frame, _)))| counts(answer, frame)).map(|(at, _)| at);
    group_error(error, at.zip(calls), rules)
}

/// Returns the group according to an enriched report.
pub(super) fn by_report(
    error: &PlannedJavaScript,
    ours: &[OurJavaScriptFrame],
    rules: &GroupingRules,
) -> Grouping {
    let status = |frame: &OurJavaScriptFrame| FrameStatus::parse(&frame.status);
    let calls = ours
        .iter()
        .enumerate()
        .filter(|(_, frame)| status(frame) != Some(FrameStatus::Device) && !frame.is_component);
    let calls = calls.map(|(at, frame)| {
        let function = frame.function.as_deref();
        let function = function.and_then(|name| counted_name(name, frame.is_named_by_device()));
        let call = NamedCall {
            waits: status(frame).is_some_and(is_waiting),
            in_app: frame.in_app,
            function,
            file: frame.file.clone(),
            bundle: frame.bundle.clone().unwrap_or_default(),
            debug_id: frame.debug_id.map(|id| id.to_string()),
            place: (frame.line.unwrap_or(0), frame.column.unwrap_or(0)),
        };
        (at, call)
    });
    group_error(error, calls, rules)
}

fn cut_text(text: &str, chars: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars).collect()
}

/// Returns the part of a function's name that is the same in every build.
fn counted_name(name: &str, by_device: bool) -> Option<String> {
    if by_device { stable_device_name(name) } else { Some(name.to_owned()) }
}

fn is_waiting(status: FrameStatus) -> bool {
    matches!(
        status,
        FrameStatus::Missing
            | FrameStatus::Malformed
            | FrameStatus::Unsupported
            | FrameStatus::FetchingFailed
    )
}

fn group_error(
    error: &PlannedJavaScript,
    calls: impl Iterator<Item = (usize, NamedCall)>,
    rules: &GroupingRules,
) -> Grouping {
    let (mut app, mut library) = (Vec::new(), Vec::new());
    let mut sentinel_met = false;
    for (at, call) in calls {
        let subject =
            Subject { function: call.function.as_deref(), file: call.file.as_deref(), image: &call.bundle };
        let action = rules.find_match(subject).map(|rule| rule.action);
        if action == Some(RuleAction::Sentinel) && !sentinel_met {
            // Functions that the sentinel called do not count.
            sentinel_met = true;
            app.clear();
            library.clear();
        }
        let in_app = match action {
            Some(RuleAction::Ignore) => continue,
            Some(RuleAction::NotApp) => false,
            Some(RuleAction::App) => true,
            Some(RuleAction::Sentinel) | None => call.in_app,
        };
        if in_app { &mut app } else { &mut library }.push(call.to_counted_frame(at));
    }
    let (counted, most) = if app.is_empty() { (library, LIBRARY_FUNCTIONS) } else { (app, MOST_COUNTED) };
    let mut counted = if is_stack_overflow(error) { find_recursion(counted) } else { keep_first(counted) };
    counted.truncate(most);
    build_grouping(error, counted, rules)
}

/// True for an unbounded recursion, by the messages of V8, Hermes and JavaScriptCore.
fn is_stack_overflow(error: &PlannedJavaScript) -> bool {
    let message = error.error.message.as_deref().unwrap_or_default();
    error.error.name.as_deref() == Some("RangeError")
        && message.starts_with("Maximum call stack size exceeded")
}

/// Returns the functions of a recursion that repeat, sorted, so that they are the same wherever it stopped. The
/// innermost frames may belong to a function that the last cycle called.
fn find_recursion(counted: Vec<CountedFrame>) -> Vec<CountedFrame> {
    let mut times: HashMap<String, usize> = HashMap::new();
    for frame in &counted {
        *times.entry(frame.function.clone()).or_default() += 1;
    }
    let least = if times.values().any(|times| *times > 1) { 2 } else { 1 };
    let mut turn = keep_first(counted);
    turn.retain(|frame| times.get(&frame.function).is_some_and(|times| *times >= least));
    turn.sort_by(|a, b| a.function.cmp(&b.function));
    turn
}

/// Keeps only the first occurrence of each function.
fn keep_first(mut counted: Vec<CountedFrame>) -> Vec<CountedFrame> {
    let mut seen = HashSet::new();
    counted.retain(|frame| seen.insert(frame.function.clone()));
    counted
}

fn build_grouping(error: &PlannedJavaScript, counted: Vec<CountedFrame>, rules: &GroupingRules) -> Grouping {
    let kind = GroupKind::JavaScript;
    let error = CrashError {
        exception: Some(error.error.name.clone().unwrap_or_else(|| "Error".to_owned())),
        reason: error.error.message.clone(),
        ..CrashError::default()
    };
    let masked = title::mask_text(error.reason.as_deref().unwrap_or_default());
    let mut parts = vec![kind.as_str(), error.exception.as_deref().unwrap_or_default()];
    parts.extend(counted.iter().map(|frame| frame.function.as_str()));
    if counted.is_empty() {
        parts.push(&masked);
    }
    let culprit = counted.first().map(|frame| frame.label.as_ref().unwrap_or(&frame.function).clone());
    let missing =
        |frame: &CountedFrame| frame.label.as_ref().map(|label| format!("{label}, source map missing"));
    let place = counted.first().map(|frame| missing(frame).unwrap_or_else(|| frame.function.clone()));
    Grouping {
        fingerprint: hash_parts(&parts),
        kind,
        provisional: counted.iter().any(|frame| frame.label.is_some()),
        title: title::build_title(kind, &error, None, place.as_deref()),
        headline: None,
        culprit,
        culprit_frame: counted.first().cloned(),
        frames: counted,
        rules: rules.hash().to_owned(),
    }
}

impl NamedCall {
    fn to_counted_frame(&self, frame: usize) -> CountedFrame {
        if self.waits {
            let (line, column) = self.place;
            let bundle = cut_text(&self.bundle, MOST_FILE);
            let id = self.debug_id.as_ref().unwrap_or(&bundle);
            let function = format!("{id}:{line}:{column}");
            let label = Some(format!("{bundle}:{line}:{column}"));
            return CountedFrame { frame, function, path: None, file: None, label };
        }
        let path = self.file.as_deref().unwrap_or(&self.bundle);
        let file = cut_text(path.rsplit(['/', '\\']).next().unwrap_or_default(), MOST_FILE);
        let function = cut_text(self.function.as_deref().unwrap_or(ANONYMOUS_FUNCTION), MOST_FUNCTION);
        let function = format!("{function} ({file})");
        let path = keep_whole_path(self.file.clone());
        CountedFrame { frame, function, path, file: None, label: None }
    }
}
