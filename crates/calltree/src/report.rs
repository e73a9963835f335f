//! The call tree of an enriched report, by the functions that it names itself.

use crate::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex};
use std::collections::HashMap;
use unslide_model::DebugId;
use unslide_report::device_name::is_a_name;
use unslide_report::{Frame, OurImage, Report, ReportProfile, Text};

/// The most nodes of the tree of a report, and of several together. Each takes some hundred bytes.
pub const MOST_REPORT_NODES: usize = 1 << 17;
/// Nodes of a tree for each node of its profile, and in any case. Functions inlined into a frame have nodes
/// of their own.
const INLINED_NODES: usize = 8;
const LEAST_NODES: usize = 1 << 12;
/// The most functions of all nodes that are looked at.
const MOST_STEPS: usize = 1 << 22;
/// Characters of an image's name that are shown instead of a function.
const IMAGE_CHARS: usize = 100;

/// A call tree of the samples of a report, with the order of the samples.
#[derive(Clone, Debug)]
pub struct ReportTree {
    /// The tree. Its unit is samples.
    pub tree: CallTree,
    /// Samples and frames that were left out.
    pub skipped: u64,
    /// The node at which each sample ends, in the order of time; empty if the order is not known.
    order: Vec<NodeIndex>,
}

/// A part of the time, and the function that ran most in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSlice {
    /// The first sample of it, from 0.
    pub from: usize,
    /// The first sample after it.
    pub to: usize,
    /// The app's innermost function in most of its samples, or the innermost function if none is the app's.
    pub frame: CallFrame,
    /// How many of its samples.
    pub samples: usize,
}

impl ReportTree {
    /// Returns the samples in the order of time, in at most `most` slices of equal length. Joins neighbouring
    /// slices in which the same function ran most. Returns none if the order is not known.
    #[must_use]
    pub fn time_slices(&self, most: usize) -> Vec<TimeSlice> {
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
        let mut counts: HashMap<u32, (&CallFrame, usize)> = HashMap::new();
        for end in ends {
            let stack = self.tree.find_stack(*end);
            let own = stack.iter().find(|at| self.tree.frame(**at).origin == FrameOrigin::App);
            if let Some(at) = own.or(stack.first()) {
                counts.entry(self.tree.number_at(*at)).or_insert((self.tree.frame(*at), 0)).1 += 1;
            }
        }
        counts.into_values().max_by(|(a, a_count), (b, b_count)| {
            let by_name = || (&b.name, &b.image, b.origin).cmp(&(&a.name, &a.image, a.origin));
            a_count.cmp(b_count).then_with(by_name)
        })
    }
}

/// Returns the most nodes of the tree of a profile.
fn most_nodes(profile: &ReportProfile<'_, '_>) -> usize {
    profile.nodes.len().saturating_mul(INLINED_NODES).clamp(LEAST_NODES, MOST_REPORT_NODES)
}

/// Returns the most bytes of memory that the tree of a report's profile takes, so that callers can reserve
/// them first.
#[must_use]
pub fn report_tree_bytes(report: &Report<'_>, profile: &ReportProfile<'_, '_>) -> u64 {
    // The tree has no more functions than nodes. Names are the report's, except those of images in place of
    // functions.
    let unnamed = profile.backtrace.frames.len() * (4 * IMAGE_CHARS);
    CallTree::most_bytes(most_nodes(profile)).saturating_add((report.input.len() + unnamed) as u64)
}

/// Returns the call tree of a report's samples: of its profile, or of the one stack of a hang.
#[must_use]
pub fn report_tree(report: &Report<'_>, profile: &ReportProfile<'_, '_>) -> ReportTree {
    let images = report.ours.iter().flat_map(|ours| &ours.images);
    let images: HashMap<DebugId, &OurImage> =
        images.filter_map(|image| Some((image.debug_id?, image))).collect();
    let mut tree = CallTree::with_node_limit("samples", most_nodes(profile));
    let mut known: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut places: Vec<NodeIndex> = Vec::with_capacity(profile.nodes.len());
    let totals = sum_totals(profile);
    let (mut steps, mut left_out) = (0, 0_u64);
    for (node, total) in profile.nodes.iter().zip(totals) {
        let caller = node.parent.and_then(|parent| places.get(parent as usize)).copied();
        let mut at = caller.unwrap_or(CallTree::ROOT);
        if node.parent.is_none() {
            tree.add_inclusive(at, Amount::from_samples(total));
        }
        let calls = known.entry(node.frame).or_insert_with(|| {
            let frame = profile.backtrace.frames.get(node.frame as usize);
            let calls = frame.map(|frame| list_calls(report, frame, &images)).unwrap_or_default();
            let numbers: Vec<u32> = calls.iter().map_while(|call| tree.frame_number(call)).collect();
            left_out += u64::from(numbers.len() < calls.len());
            numbers
        });
        steps += calls.len();
        let looked_at = if steps <= MOST_STEPS { calls.as_slice() } else { &[] };
        left_out += u64::from(looked_at.len() < calls.len());
        for call in looked_at {
            let below = tree.child_of_number(at, *call, None);
            // A cut function counts for its caller.
            if below == at {
                break;
            }
            at = below;
            tree.add_inclusive(at, Amount::from_samples(total));
        }
        places.push(at);
    }
    let order = profile.order.iter().filter_map(|node| places.get(*node as usize)).copied().collect();
    let skipped = profile.skipped.saturating_add(tree.cut_frames()).saturating_add(left_out);
    ReportTree { skipped, tree, order }
}

/// Returns the samples of each node with those of its callees.
fn sum_totals(profile: &ReportProfile<'_, '_>) -> Vec<u64> {
    let mut totals: Vec<u64> = profile.nodes.iter().map(|node| node.samples).collect();
    for (at, node) in profile.nodes.iter().enumerate().rev() {
        let total = totals[at];
        if let Some(parent) = node.parent.and_then(|parent| totals.get_mut(parent as usize)) {
            *parent = parent.saturating_add(total);
        }
    }
    totals
}

/// Returns the functions of a frame, the outermost first: inlined functions follow their callers.
fn list_calls(
    report: &Report<'_>,
    frame: &Frame<'_>,
    images: &HashMap<DebugId, &OurImage>,
) -> Vec<CallFrame> {
    let ours = report.our_frame(frame).unwrap_or_default();
    let known = ours.debug_id().or(frame.object_uuid).and_then(|id| images.get(&id));
    let image = known.and_then(|image| image.name.clone()).or_else(|| frame.object_name.map(decode_text));
    let image = image.unwrap_or_default();
    let origin = match known {
        Some(image) if image.system => FrameOrigin::System,
        Some(_) => FrameOrigin::App,
        None => FrameOrigin::Unknown,
    };
    let mut names: Vec<String> =
        ours.read_calls().into_iter().filter_map(|call| call.function.map(decode_text)).collect();
    names.reverse();
    if names.is_empty() {
        let device = frame.symbol_name.filter(|name| is_a_name(*name));
        let own = ours.symbol().or(device).map(decode_text);
        names.push(own.unwrap_or_else(|| format_unnamed(frame, &image, ours.relative_address())));
    }
    names.iter().map(|name| CallFrame::for_function(name, &image, origin)).collect()
}

fn format_unnamed(frame: &Frame<'_>, image: &str, relative: Option<u64>) -> String {
    match (relative, frame.instruction_addr.and_then(unslide_report::Number::to_bits)) {
        (Some(offset), _) if !image.is_empty() => {
            let short: String = image.chars().take(IMAGE_CHARS).collect();
            format!("{short} + {offset:#x}")
        }
        (_, Some(address)) => format!("{address:#x}"),
        (_, None) => "???".to_owned(),
    }
}

fn decode_text(text: Text<'_>) -> String {
    text.decode().into_owned()
}
