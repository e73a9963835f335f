//! The call tree of an enriched report, by the functions that it names itself.

use crate::calltree::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex};
use std::collections::HashMap;
use unslide_model::DebugId;
use unslide_report::device_name::is_a_name;
use unslide_report::{Frame, OurImage, Report, Text};

/// The most nodes of the tree of a report, and of several together. Each takes some hundred bytes.
pub const MOST_REPORT_NODES: usize = 1 << 17;

/// Where the time of a report went.
#[derive(Clone, Debug)]
pub struct ReportTree {
    /// The tree. Its unit is samples.
    pub tree: CallTree,
    /// Samples and frames that were left out.
    pub skipped: u64,
    /// Where each sample ends, in the order of time; empty where that is not known.
    order: Vec<NodeIndex>,
}

/// A part of the time, and what ran most in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSlice {
    /// The first sample of it, from 0.
    pub from: usize,
    /// The first sample after it.
    pub to: usize,
    /// The app's innermost function in most of its samples, or the innermost one where none is the app's.
    pub frame: CallFrame,
    /// How many of its samples.
    pub samples: usize,
}

impl ReportTree {
    /// The samples in the order of time, in so many slices of equal length at most. Slices beside one another in which
    /// the same function ran most are one. None where the order is not known.
    #[must_use]
    pub fn slices(&self, most: usize) -> Vec<TimeSlice> {
        let length = self.order.len().div_ceil(most.max(1)).max(1);
        let mut slices: Vec<TimeSlice> = Vec::new();
        for (number, ends) in self.order.chunks(length).enumerate() {
            let (from, to) = (number * length, number * length + ends.len());
            let Some((frame, samples)) = self.most_frequent(ends) else { continue };
            match slices.last_mut().filter(|last| last.frame == *frame) {
                Some(last) => (last.to, last.samples) = (to, last.samples + samples),
                None => slices.push(TimeSlice { from, to, frame: frame.clone(), samples }),
            }
        }
        slices
    }

    fn most_frequent(&self, ends: &[NodeIndex]) -> Option<(&CallFrame, usize)> {
        let mut counts: HashMap<&CallFrame, usize> = HashMap::new();
        for end in ends {
            let stack = self.tree.stack(*end);
            let own = stack.iter().find(|at| self.tree.frame(**at).origin == FrameOrigin::App);
            if let Some(at) = own.or(stack.first()) {
                *counts.entry(self.tree.frame(*at)).or_default() += 1;
            }
        }
        let by = |(frame, count): &(&CallFrame, usize)| (*count, std::cmp::Reverse(frame.name.clone()));
        counts.into_iter().max_by_key(by)
    }
}

/// The call tree of a report that was sampled, or of the stack of one that hung; `None` for other reports.
#[must_use]
pub fn report_tree(report: &Report<'_>) -> Option<ReportTree> {
    let profile = report.profile_or_hang()?;
    let images = report.ours.iter().flat_map(|ours| &ours.images);
    let images: HashMap<DebugId, &OurImage> =
        images.filter_map(|image| Some((image.debug_id?, image))).collect();
    let mut tree = CallTree::bounded("samples", MOST_REPORT_NODES);
    let mut known: HashMap<u32, Vec<CallFrame>> = HashMap::new();
    let mut places: Vec<NodeIndex> = Vec::with_capacity(profile.nodes.len());
    for node in &profile.nodes {
        let caller = node.parent.and_then(|parent| places.get(parent as usize)).copied();
        let mut at = caller.unwrap_or(CallTree::ROOT);
        let frame = profile.backtrace.frames.get(node.frame as usize);
        let calls = known
            .entry(node.frame)
            .or_insert_with(|| frame.map(|frame| calls(report, frame, &images)).unwrap_or_default());
        for call in calls.iter() {
            at = tree.child(at, call, None);
        }
        if node.samples > 0 {
            tree.add(at, Amount::samples(node.samples));
        }
        places.push(at);
    }
    let order = profile.order.iter().filter_map(|node| places.get(*node as usize)).copied().collect();
    Some(ReportTree { skipped: profile.skipped.saturating_add(tree.cut()), tree, order })
}

/// The functions of a frame, the outermost first: what was inlined follows its caller.
fn calls(report: &Report<'_>, frame: &Frame<'_>, images: &HashMap<DebugId, &OurImage>) -> Vec<CallFrame> {
    let ours = report.our_frame(frame).unwrap_or_default();
    let known = ours.debug_id().or(frame.object_uuid).and_then(|id| images.get(&id));
    let image = known.and_then(|image| image.name.clone()).or_else(|| frame.object_name.map(text));
    let image = image.unwrap_or_default();
    let origin = match known {
        Some(image) if image.system => FrameOrigin::System,
        Some(_) => FrameOrigin::App,
        None => FrameOrigin::Unknown,
    };
    let mut names: Vec<String> = ours.calls().into_iter().filter_map(|(name, _)| name.map(text)).collect();
    names.reverse();
    if names.is_empty() {
        let device = frame.symbol_name.filter(|name| is_a_name(*name));
        let own = ours.symbol().or(device).map(text);
        names.push(own.unwrap_or_else(|| unnamed(frame, &image, ours.relative_address())));
    }
    names.iter().map(|name| CallFrame::function(name, &image, origin)).collect()
}

fn unnamed(frame: &Frame<'_>, image: &str, relative: Option<u64>) -> String {
    match (relative, frame.instruction_addr.and_then(unslide_report::Number::to_bits)) {
        (Some(offset), _) if !image.is_empty() => format!("{image} + {offset:#x}"),
        (_, Some(address)) => format!("{address:#x}"),
        (_, None) => "???".to_owned(),
    }
}

fn text(text: Text<'_>) -> String {
    text.decode().into_owned()
}
