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
    Some(ReportTree { skipped: profile.skipped.saturating_add(tree.cut()), tree })
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
