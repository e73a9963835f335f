//! From MetricKit's frames to frames below their callers.

use crate::profile::{MOST_IMAGES, Profile, ProfileFrame, ProfileImage};
use std::collections::HashMap;
use unslide_calltree::MOST_DEPTH;
use unslide_model::DebugId;
use unslide_report::{TreeEnds, load_address, tree_samples};

/// The most steps that turning a tree takes.
const MOST_STEPS: usize = 1 << 24;

/// A frame as the document has it.
#[derive(Clone, Debug, Default)]
pub(super) struct RawFrame {
    /// The frame that has it in its `subFrames`.
    pub(super) above: Option<u32>,
    pub(super) name: String,
    pub(super) debug_id: Option<DebugId>,
    pub(super) address: Option<u64>,
    /// `offsetIntoBinaryTextSegment`: an offset, or a load address.
    pub(super) offset: Option<u64>,
    pub(super) count: Option<u64>,
}

/// The end of a stack that is at the root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The beginning of a thread.
    OutermostFirst,
    InnermostFirst,
}

impl Direction {
    /// Finds the direction by the frames at which threads begin.
    pub(super) fn from_stacks<'f>(
        stacks: impl Iterator<Item = &'f [RawFrame]>,
        per_thread: bool,
    ) -> Direction {
        let mut ends = TreeEnds::default();
        for frames in stacks {
            let mut calls = vec![false; frames.len()];
            for above in frames.iter().filter_map(|frame| frame.above) {
                if let Some(calls) = calls.get_mut(above as usize) {
                    *calls = true;
                }
            }
            for (frame, calls) in frames.iter().zip(calls) {
                ends.count_frame(frame.name.as_bytes(), frame.above.is_some(), calls);
            }
        }
        match ends.is_innermost_first(per_thread) {
            true => Direction::InnermostFirst,
            false => Direction::OutermostFirst,
        }
    }
}

/// Adds the stacks of a tree to a profile, below the label if there is one.
pub(super) fn append_stacks(
    profile: &mut Profile,
    label: Option<String>,
    stacks: &[(bool, Vec<RawFrame>)],
    direction: Direction,
) {
    let mut images = Images::default();
    let top = label.and_then(|name| push_label(profile, None, name));
    for (attributed, frames) in stacks {
        let parent = match (stacks.len(), attributed) {
            (1, _) => top,
            (_, true) => push_label(profile, top, "attributed thread".to_owned()),
            (_, false) => push_label(profile, top, "another thread".to_owned()),
        };
        let counted = Counted::from_frames(frames);
        let total = (0..frames.len()).filter(|at| frames[*at].above.is_none());
        let total = total.fold(0_u64, |sum, root| sum.saturating_add(counted.total[root]));
        let labels = if parent == top { [top, None] } else { [top, parent] };
        for label in labels.into_iter().flatten() {
            let count = &mut profile.frames[label as usize].count;
            *count = count.saturating_add(total);
        }
        match direction {
            Direction::OutermostFirst => append_down(profile, &mut images, parent, frames, &counted),
            Direction::InnermostFirst => append_turned(profile, &mut images, parent, frames, &counted),
        }
    }
}

fn push_label(profile: &mut Profile, parent: Option<u32>, name: String) -> Option<u32> {
    profile.push(ProfileFrame { parent, label: true, symbol: Some(name), ..ProfileFrame::default() })
}

/// The samples of each frame.
struct Counted {
    total: Vec<u64>,
    own: Vec<u64>,
    depth: Vec<usize>,
}

impl Counted {
    fn from_frames(frames: &[RawFrame]) -> Counted {
        let mut below = vec![0_u64; frames.len()];
        let mut total = vec![0; frames.len()];
        for (at, frame) in frames.iter().enumerate().rev() {
            total[at] = tree_samples(frame.count, below[at]);
            if let Some(above) = frame.above {
                below[above as usize] = below[above as usize].saturating_add(total[at]);
            }
        }
        let own = total.iter().zip(&below).map(|(total, below)| total - below).collect();
        let mut depth = vec![0; frames.len()];
        for (at, frame) in frames.iter().enumerate() {
            depth[at] = frame.above.map_or(0, |above| depth[above as usize] + 1);
        }
        Counted { total, own, depth }
    }
}

fn append_down(
    profile: &mut Profile,
    images: &mut Images,
    parent: Option<u32>,
    frames: &[RawFrame],
    counted: &Counted,
) {
    let first = profile.frames.len();
    let mut places: Vec<Option<u32>> = Vec::with_capacity(frames.len());
    for (at, frame) in frames.iter().enumerate() {
        let above = frame.above.map(|above| places[above as usize]);
        let place = match above {
            _ if counted.depth[at] >= MOST_DEPTH => None,
            Some(None) => None,
            Some(above) => images.push(profile, above, frame, counted.total[at], false),
            None => images.push(profile, parent, frame, counted.total[at], false),
        };
        profile.skipped += u64::from(place.is_none());
        places.push(place);
    }
    profile.mark_leaves(first);
}

/// Adds stacks in the other direction. Each ends at a frame with samples of its own, and is added from there
/// up to the root.
fn append_turned(
    profile: &mut Profile,
    images: &mut Images,
    parent: Option<u32>,
    frames: &[RawFrame],
    counted: &Counted,
) {
    type Key = (Option<u32>, Option<u64>, Option<DebugId>, bool);
    let mut known: HashMap<Key, u32> = HashMap::new();
    let mut steps = 0;
    for (at, own) in counted.own.iter().enumerate().filter(|(_, own)| **own > 0) {
        steps += counted.depth[at];
        if steps > MOST_STEPS {
            profile.skipped += 1;
            continue;
        }
        let path = std::iter::successors(Some(at), |at| frames[*at].above.map(|above| above as usize));
        let mut caller = parent;
        for (depth, at) in path.enumerate() {
            if depth >= MOST_DEPTH {
                profile.skipped += 1;
                break;
            }
            let frame = &frames[at];
            let exact = frame.above.is_none();
            let key = (caller, frame.address.or(frame.offset), frame.debug_id, exact);
            let place = known.get(&key).copied().or_else(|| images.push(profile, caller, frame, 0, exact));
            let Some(place) = place else { break };
            known.insert(key, place);
            let count = &mut profile.frames[place as usize].count;
            *count = count.saturating_add(*own);
            caller = Some(place);
        }
    }
}

/// The images that frames name: there is no list of them.
#[derive(Default)]
struct Images(HashMap<(Option<DebugId>, u64), u32>);

impl Images {
    fn push(
        &mut self,
        profile: &mut Profile,
        parent: Option<u32>,
        frame: &RawFrame,
        count: u64,
        exact: bool,
    ) -> Option<u32> {
        // Without an address the image may lie anywhere.
        let address = frame.address.or(frame.offset);
        let start = address.zip(frame.offset).and_then(|(address, field)| load_address(address, field));
        let image = start.and_then(|start| self.find_or_add_image(profile, frame, start));
        profile.push(ProfileFrame {
            parent,
            count,
            image,
            image_name: frame.name.clone(),
            addresses: address.into_iter().collect(),
            exact,
            ..ProfileFrame::default()
        })
    }

    fn find_or_add_image(&mut self, profile: &mut Profile, frame: &RawFrame, start: u64) -> Option<u32> {
        let key = (frame.debug_id, start);
        if let Some(known) = self.0.get(&key) {
            return Some(*known);
        }
        if profile.images.len() >= MOST_IMAGES {
            return None;
        }
        profile.images.push(ProfileImage {
            name: frame.name.clone(),
            debug_id: frame.debug_id,
            start,
            ..ProfileImage::default()
        });
        let position = u32::try_from(profile.images.len() - 1).ok()?;
        self.0.insert(key, position);
        Some(position)
    }
}
