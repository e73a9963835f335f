//! The stacks of one process as MetricKit's call stack tree.

use super::stacks::{ProcessStacks, StackFrame};
use crate::json::JsonBuilder;

/// The maximum depth of a tree. Deeper frames count for the one above.
const TREE_DEPTH_LIMIT: usize = 500;
/// The maximum number of frames of a tree.
const TREE_FRAMES_LIMIT: usize = 60_000;

/// A step in writing nested frames without recursion.
enum Step {
    Open(usize),
    Close(u32),
}

/// Writes a tree, and remembers the lines of its frames.
#[derive(Debug)]
pub struct TreeWriter<'s> {
    stacks: &'s ProcessStacks,
    /// The frames that each frame calls.
    calls: Vec<Vec<usize>>,
    /// The line of each frame that was written, in the order in which frames end.
    pub lines: Vec<u32>,
}

impl<'s> TreeWriter<'s> {
    /// Creates a writer for the stacks of a process.
    pub fn new(stacks: &'s ProcessStacks) -> TreeWriter<'s> {
        let mut calls = vec![Vec::new(); stacks.frames.len()];
        for (at, frame) in stacks.frames.iter().enumerate() {
            if let Some(list) = frame.caller.and_then(|caller| calls.get_mut(caller)) {
                list.push(at);
            }
        }
        TreeWriter { stacks, calls, lines: Vec::new() }
    }

    /// Writes the member `callStackTree`.
    pub fn write_tree(&mut self, json: &mut JsonBuilder) {
        let is_root = |(_, frame): &(usize, &StackFrame)| frame.caller.is_none();
        let roots: Vec<usize> =
            self.stacks.frames.iter().enumerate().filter(is_root).map(|(at, _)| at).collect();
        json.object("callStackTree", |json| {
            json.flag("callStackPerThread", false);
            json.array("callStacks", |json| {
                json.item(|json| {
                    json.array("callStackRootFrames", |json| self.write_frames(&roots, json));
                });
            });
        });
    }

    fn write_frames(&mut self, roots: &[usize], json: &mut JsonBuilder) {
        let mut steps: Vec<Step> = roots.iter().rev().map(|root| Step::Open(*root)).collect();
        let (mut depth, mut written) = (0, 0);
        while let Some(step) = steps.pop() {
            let at = match step {
                Step::Open(at) => at,
                Step::Close(line) => {
                    json.close_nested();
                    self.lines.push(line);
                    depth -= 1;
                    continue;
                }
            };
            let Some(frame) = self.stacks.frames.get(at) else { continue };
            if written == TREE_FRAMES_LIMIT || depth == TREE_DEPTH_LIMIT {
                continue;
            }
            (written, depth) = (written + 1, depth + 1);
            json.open_item();
            self.write_frame(frame, json);
            json.open_array("subFrames");
            steps.push(Step::Close(frame.line));
            let calls = self.calls.get(at).map(Vec::as_slice).unwrap_or_default();
            steps.extend(calls.iter().rev().map(|call| Step::Open(*call)));
        }
    }

    fn write_frame(&self, frame: &StackFrame, json: &mut JsonBuilder) {
        let image = self.stacks.image_of_frame(frame);
        if let Some(address) = frame.address {
            json.number("address", address);
            if let Some(image) = image {
                json.some_string("binaryUUID", image.uuid.as_deref());
                json.number("offsetIntoBinaryTextSegment", address.saturating_sub(image.start));
            }
        }
        let file = image.and_then(|image| image.path.rsplit('/').next()).filter(|file| !file.is_empty());
        json.some_string("binaryName", file.or(Some(&frame.image)));
        json.number("sampleCount", frame.count);
    }
}
