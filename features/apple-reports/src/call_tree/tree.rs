//! The stacks of one process as MetricKit's call stack tree.

use crate::json::JsonBuilder;
use unslide_signals::profile::{Profile, ProfileFrame};

/// The maximum depth of a tree. Deeper frames count for the one above.
const TREE_DEPTH_LIMIT: usize = 500;
/// The maximum number of frames of a tree.
const TREE_FRAMES_LIMIT: usize = 60_000;

/// The frames of a process.
#[derive(Debug)]
pub struct ProcessTree<'p> {
    profile: &'p Profile,
    /// The positions of the frames that each frame calls.
    calls: Vec<Vec<u32>>,
    /// The outermost frames of each thread.
    threads: Vec<Vec<u32>>,
}

/// A step in writing nested frames without recursion.
enum Step {
    Open(u32),
    Close,
}

impl<'p> ProcessTree<'p> {
    /// Finds the stacks of the process with this name, or else of the first one that has any.
    pub fn for_process(profile: &'p Profile, process: Option<&str>) -> ProcessTree<'p> {
        let mut calls: Vec<Vec<u32>> = vec![Vec::new(); profile.frames.len()];
        // Frames outside of the app's own processes, such as the kernel's, count for their caller.
        let above = |frame: &ProfileFrame| frame.parent;
        for (at, frame) in profile.frames.iter().enumerate().filter(|(_, frame)| !frame.kernel) {
            let Some(list) = above(frame).and_then(|caller| calls.get_mut(caller as usize)) else { continue };
            list.extend(u32::try_from(at));
        }
        let is_root = |frame: &ProfileFrame| frame.parent.is_none();
        let roots: Vec<usize> =
            profile.frames.iter().enumerate().filter(|(_, frame)| is_root(frame)).map(|(at, _)| at).collect();
        let is_named = |root: &&usize| {
            let symbol =
                profile.frames.get(**root).and_then(|frame| frame.symbol.as_deref()).unwrap_or_default();
            process.is_some_and(|process| symbol.split(" [").next() == Some(process))
        };
        // The text of `sample` has threads at the root, and no processes.
        let has_processes = profile.frames.iter().any(|frame| frame.label && frame.parent.is_some());
        let chosen: Vec<usize> = match roots.iter().find(is_named) {
            Some(root) => vec![*root],
            None if has_processes => roots.into_iter().take(1).collect(),
            None => roots,
        };
        let mut tree = ProcessTree { profile, calls, threads: Vec::new() };
        for root in chosen {
            tree.add_threads(root);
        }
        tree
    }

    /// Adds the stacks below a label: its threads, or its own frames.
    fn add_threads(&mut self, root: usize) {
        let is_label = |at: &u32| self.profile.frames.get(*at as usize).is_some_and(|frame| frame.label);
        let below = self.calls.get(root).cloned().unwrap_or_default();
        let (labels, frames): (Vec<u32>, Vec<u32>) = below.into_iter().partition(is_label);
        for thread in labels {
            self.threads.push(self.calls.get(thread as usize).cloned().unwrap_or_default());
        }
        let own = self.profile.frames.get(root).is_some_and(|frame| !frame.label);
        match own {
            true => self.threads.extend(u32::try_from(root).ok().map(|root| vec![root])),
            false if !frames.is_empty() => self.threads.push(frames),
            false => {}
        }
    }

    /// Writes the member `callStackTree`. Returns the number of frames.
    pub fn write_tree(&self, json: &mut JsonBuilder) -> usize {
        let mut written = 0;
        json.object("callStackTree", |json| {
            json.flag("callStackPerThread", false);
            json.array("callStacks", |json| {
                for roots in self.threads.iter().filter(|roots| !roots.is_empty()) {
                    json.item(|json| {
                        json.array("callStackRootFrames", |json| {
                            self.write_frames(roots, &mut written, json)
                        });
                    });
                }
            });
        });
        written
    }

    fn write_frames(&self, roots: &[u32], written: &mut usize, json: &mut JsonBuilder) {
        let mut steps: Vec<Step> = roots.iter().rev().map(|root| Step::Open(*root)).collect();
        let mut depth = 0;
        while let Some(step) = steps.pop() {
            let Step::Open(at) = step else {
                json.close_nested();
                depth -= 1;
                continue;
            };
            let Some(frame) = self.profile.frames.get(at as usize) else { continue };
            if *written == TREE_FRAMES_LIMIT || depth == TREE_DEPTH_LIMIT {
                continue;
            }
            *written += 1;
            depth += 1;
            json.open_item();
            self.write_frame(frame, json);
            json.open_array("subFrames");
            steps.push(Step::Close);
            let below = self.calls.get(at as usize).map(Vec::as_slice).unwrap_or_default();
            steps.extend(below.iter().rev().map(|call| Step::Open(*call)));
        }
    }

    fn write_frame(&self, frame: &ProfileFrame, json: &mut JsonBuilder) {
        let image = frame.image.and_then(|at| self.profile.images.get(at as usize));
        let address = frame.addresses.first();
        if let Some(address) = address {
            json.number("address", *address);
        }
        if let (Some(image), Some(address)) = (image, address) {
            json.some_string("binaryUUID", image.debug_id.map(|id| id.to_string()).as_deref());
            json.number("offsetIntoBinaryTextSegment", address.saturating_sub(image.start));
        }
        let name = image.map(|image| image.name.as_str()).filter(|name| !name.is_empty());
        json.some_string("binaryName", name.or(Some(&frame.image_name)));
        json.number("sampleCount", frame.count);
    }
}
