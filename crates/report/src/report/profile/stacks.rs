//! Merges stacks into a tree.

use super::{MOST_DEPTH, MOST_NODES, MOST_STEPS, ProfileNode, ReportProfile};
use crate::report::Backtrace;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Stacks {
    nodes: Vec<ProfileNode>,
    known: HashMap<(Option<u32>, u32), u32>,
    steps: usize,
    order: Vec<u32>,
    skipped: u64,
}

impl Stacks {
    /// Adds a stack of frames, the innermost first. If it is too deep, only the outermost frames count.
    pub(super) fn add_stack(
        &mut self,
        frames: impl IntoIterator<Item = u32, IntoIter: DoubleEndedIterator + ExactSizeIterator>,
        samples: u64,
    ) {
        let frames = frames.into_iter();
        self.steps = self.steps.saturating_add(frames.len());
        if self.steps > MOST_STEPS || frames.len() == 0 {
            return self.record_skipped(samples);
        }
        self.record_skipped(frames.len().saturating_sub(MOST_DEPTH) as u64);
        let mut caller = None;
        for frame in frames.rev().take(MOST_DEPTH) {
            let Some(node) = self.find_or_add_node(caller, frame) else {
                self.skipped += 1;
                break;
            };
            caller = Some(node);
        }
        if let Some(at) = caller
            && let Some(node) = self.nodes.get_mut(at as usize)
        {
            node.samples = node.samples.saturating_add(samples);
            self.order.push(at);
        }
    }

    fn find_or_add_node(&mut self, parent: Option<u32>, frame: u32) -> Option<u32> {
        if let Some(known) = self.known.get(&(parent, frame)) {
            return Some(*known);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let at = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(ProfileNode { parent, frame, samples: 0 });
        self.known.insert((parent, frame), at);
        Some(at)
    }

    pub(super) fn record_skipped(&mut self, number: u64) {
        self.skipped = self.skipped.saturating_add(number);
    }

    pub(super) fn into_profile<'r, 'a>(
        self,
        backtrace: &'r Backtrace<'a>,
        name: Option<String>,
    ) -> ReportProfile<'r, 'a> {
        let Stacks { nodes, order, skipped, .. } = self;
        ReportProfile { backtrace, nodes, order, name, millis: None, skipped }
    }
}
