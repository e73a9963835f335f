//! Call trees: which functions ran, by their callers, and how much. Flame graphs of them, and the trees of reports with
//! samples.

#![warn(missing_docs)]

mod cut;
mod difference;
mod flame;
mod folded;
mod functions;
mod paths;
mod report;

pub use cut::{CutNode, CutTree};
pub use difference::TreeDifference;
pub use flame::{GraphPlace, difference_graph, flame_graph};
pub use folded::folded_kernel_name;
pub use functions::FunctionTotals;
pub use report::{MOST_REPORT_NODES, ReportTree, TimeSlice, report_tree, report_tree_bytes};

use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;
use std::sync::Arc;
use unslide_model::first_bytes;

/// The most nodes of a tree. Later ones are counted for their callers that are in the tree.
pub const MOST_NODES: usize = 1 << 20;
/// The most callers above a node.
pub const MOST_DEPTH: usize = 1024;
/// The most bytes of a function's name.
const MOST_NAME: usize = 1024;
/// Bytes that a node takes, and what finds it.
const NODE_BYTES: u64 = 256;

/// The amount of a node: how often, and how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How often: samples, or allocations.
    pub count: u64,
    /// How much, in the tree's unit: the basis of shares and widths.
    pub weight: u64,
}

impl Amount {
    /// Returns an amount that is counted once for each unit of its weight, as samples are.
    #[must_use]
    pub fn from_samples(count: u64) -> Amount {
        Amount { count, weight: count }
    }

    /// Returns the rest without `other`, or 0 if `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Amount) -> Amount {
        Amount {
            count: self.count.saturating_sub(other.count),
            weight: self.weight.saturating_sub(other.weight),
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.count = self.count.saturating_add(other.count);
        self.weight = self.weight.saturating_add(other.weight);
    }
}

/// Who wrote the code of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameOrigin {
    /// Not code: a process, a thread or a kind of diagnostic.
    Label,
    /// The app.
    App,
    /// The operating system.
    System,
    /// The kernel.
    Kernel,
    /// Not known.
    Unknown,
}

impl FrameOrigin {
    /// Returns the origin in a word, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FrameOrigin::Label => "label",
            FrameOrigin::App => "app",
            FrameOrigin::System => "system",
            FrameOrigin::Kernel => "kernel",
            FrameOrigin::Unknown => "unknown",
        }
    }
}

/// A function, or a label, of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallFrame {
    /// The function's name, or the image and an offset if the name is not known.
    pub name: Arc<str>,
    /// The file name of its image; empty if that is not known.
    pub image: Arc<str>,
    /// Who wrote it.
    pub origin: FrameOrigin,
}

impl CallFrame {
    /// Returns a label: a frame without code.
    #[must_use]
    pub fn for_label(name: &str) -> CallFrame {
        CallFrame { name: shorten_name(name).into(), image: "".into(), origin: FrameOrigin::Label }
    }

    /// Returns the frame of a function.
    #[must_use]
    pub fn for_function(name: &str, image: &str, origin: FrameOrigin) -> CallFrame {
        CallFrame { name: shorten_name(name).into(), image: shorten_name(image).into(), origin }
    }
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourcePlace {
    /// The file's path.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// A node's position in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(u32);

impl NodeIndex {
    fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// A frame under certain callers.
#[derive(Clone, Debug)]
pub struct CallNode {
    frame: u32,
    /// Who called it; `None` for the root.
    pub parent: Option<NodeIndex>,
    /// The amount of the node and all below it.
    pub total: Amount,
    /// The line that is running or calls. `None` if it is not known, or if several are merged.
    pub place: Option<SourcePlace>,
    depth: u32,
    children: Vec<NodeIndex>,
}

/// A call tree. The root's frame is a label. Below it, callers stand above the functions that they call.
#[derive(Clone, Debug)]
pub struct CallTree {
    unit: &'static str,
    frames: Vec<CallFrame>,
    frame_ids: HashMap<CallFrame, u32>,
    /// The names of images, which their frames share.
    images: HashSet<Arc<str>>,
    /// Bytes of all names.
    name_bytes: u64,
    nodes: Vec<CallNode>,
    by_frame: HashMap<(NodeIndex, u32), NodeIndex>,
    most_nodes: usize,
    /// Frames that found no place.
    cut: u64,
}

impl CallTree {
    /// The position of the root.
    pub const ROOT: NodeIndex = NodeIndex(0);

    /// Creates a tree of the root alone. `unit` is the unit of weights, such as `samples`.
    #[must_use]
    pub fn new(unit: &'static str) -> CallTree {
        CallTree::with_node_limit(unit, MOST_NODES)
    }

    /// Creates a tree with at most `most_nodes` nodes, and never more than [`MOST_NODES`].
    #[must_use]
    pub fn with_node_limit(unit: &'static str, most_nodes: usize) -> CallTree {
        let mut tree = CallTree {
            unit,
            frames: Vec::new(),
            frame_ids: HashMap::new(),
            images: HashSet::new(),
            name_bytes: 0,
            nodes: Vec::new(),
            by_frame: HashMap::new(),
            most_nodes: most_nodes.min(MOST_NODES),
            cut: 0,
        };
        let frame = tree.intern_frame(&CallFrame::for_label("all"));
        tree.nodes.push(CallNode {
            frame,
            parent: None,
            total: Amount::default(),
            place: None,
            depth: 0,
            children: Vec::new(),
        });
        tree
    }

    /// Returns the unit of weights.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Returns the number of frames that were left out because the tree is too large or too deep. Their
    /// amounts are those of their callers.
    #[must_use]
    pub fn cut_frames(&self) -> u64 {
        self.cut
    }

    /// Returns the number of nodes, including the root.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns about how many bytes of memory the tree takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        CallTree::most_bytes(self.nodes.len()).saturating_add(self.name_bytes)
    }

    /// Returns about how many bytes of memory a tree of `nodes` nodes takes without the names of its
    /// functions.
    #[must_use]
    pub fn most_bytes(nodes: usize) -> u64 {
        (nodes as u64).saturating_mul(NODE_BYTES)
    }

    /// Returns the positions of all nodes, callers before the functions that they call.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = NodeIndex> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeIndex)
    }

    /// Returns a node of this tree.
    #[must_use]
    pub fn node(&self, index: NodeIndex) -> &CallNode {
        &self.nodes[index.as_usize()]
    }

    /// Returns the frame of a node of this tree.
    #[must_use]
    pub fn frame(&self, index: NodeIndex) -> &CallFrame {
        &self.frames[self.node(index).frame as usize]
    }

    /// Returns the amount of the whole tree.
    #[must_use]
    pub fn total(&self) -> Amount {
        self.node(CallTree::ROOT).total
    }

    /// Returns the amount of a node without the functions that it calls.
    #[must_use]
    pub fn own_amount(&self, index: NodeIndex) -> Amount {
        self.node(index).total.saturating_sub(self.children_amount(index))
    }

    /// Returns the sum of the amounts of a node's children.
    fn children_amount(&self, index: NodeIndex) -> Amount {
        let mut sum = Amount::default();
        for child in &self.node(index).children {
            sum += self.node(*child).total;
        }
        sum
    }

    /// Returns the nodes that a node calls, the heaviest first, those of equal weight by name.
    #[must_use]
    pub fn children(&self, index: NodeIndex) -> Vec<NodeIndex> {
        let mut children = self.node(index).children.clone();
        children.sort_by(|a, b| {
            let weights = self.node(*b).total.weight.cmp(&self.node(*a).total.weight);
            weights.then_with(|| self.frame(*a).name.cmp(&self.frame(*b).name)).then(a.cmp(b))
        });
        children
    }

    /// Returns the node of a frame under `parent`, and creates it if there is none. If the tree is full or
    /// too deep, returns `parent`.
    pub fn find_or_add_child(
        &mut self,
        parent: NodeIndex,
        frame: &CallFrame,
        place: Option<&SourcePlace>,
    ) -> NodeIndex {
        match self.frame_ids.get(frame).copied() {
            Some(number) => self.child_of_number(parent, number, place),
            None if self.has_no_room_below(parent) => {
                self.cut += 1;
                parent
            }
            None => {
                let number = self.intern_frame(frame);
                self.child_of_number(parent, number, place)
            }
        }
    }

    /// Does the same as `child` by the number of the frame.
    pub(crate) fn child_of_number(
        &mut self,
        parent: NodeIndex,
        frame: u32,
        place: Option<&SourcePlace>,
    ) -> NodeIndex {
        if let Some(known) = self.by_frame.get(&(parent, frame)).copied() {
            let node = &mut self.nodes[known.as_usize()];
            if node.place.as_ref() != place {
                node.place = None;
            }
            return known;
        }
        if self.has_no_room_below(parent) {
            self.cut += 1;
            return parent;
        }
        let depth = self.node(parent).depth + 1;
        let index = NodeIndex(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(CallNode {
            frame,
            parent: Some(parent),
            total: Amount::default(),
            place: place.cloned(),
            depth,
            children: Vec::new(),
        });
        self.nodes[parent.as_usize()].children.push(index);
        self.by_frame.insert((parent, frame), index);
        index
    }

    fn has_no_room_below(&self, parent: NodeIndex) -> bool {
        self.nodes.len() >= self.most_nodes || self.node(parent).depth as usize >= MOST_DEPTH
    }

    /// Returns the number of a frame, and assigns one if it has none. Returns `None` if the tree has as many
    /// frames as it may have nodes, so that no node is left for it.
    pub(crate) fn frame_number(&mut self, frame: &CallFrame) -> Option<u32> {
        let known = self.frame_ids.get(frame).copied();
        known.or_else(|| (self.frames.len() < self.most_nodes).then(|| self.intern_frame(frame)))
    }

    /// Returns the number of a node's frame.
    pub(crate) fn number_at(&self, index: NodeIndex) -> u32 {
        self.node(index).frame
    }

    fn intern_frame(&mut self, frame: &CallFrame) -> u32 {
        let id = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        let mut frame = frame.clone();
        self.name_bytes += frame.name.len() as u64;
        if let Some(image) = self.images.get(&frame.image) {
            frame.image = image.clone();
        } else {
            self.name_bytes += frame.image.len() as u64;
            self.images.insert(frame.image.clone());
        }
        self.frames.push(frame.clone());
        self.frame_ids.insert(frame, id);
        id
    }

    /// Adds an amount to a node and to all its callers.
    pub fn add_amount(&mut self, index: NodeIndex, amount: Amount) {
        let mut next = Some(index);
        while let Some(at) = next {
            let node = &mut self.nodes[at.as_usize()];
            node.total += amount;
            next = node.parent;
        }
    }

    /// Adds an amount to a node alone, for trees with amounts that already include callees. Call
    /// [`CallTree::raise_to_children`] afterwards.
    pub fn add_inclusive(&mut self, index: NodeIndex, amount: Amount) {
        self.nodes[index.as_usize()].total += amount;
    }

    /// Raises each node to at least the amount of the nodes that it calls.
    pub fn raise_to_children(&mut self) {
        for index in self.indices().rev() {
            let below = self.children_amount(index);
            let total = &mut self.nodes[index.as_usize()].total;
            total.count = total.count.max(below.count);
            total.weight = total.weight.max(below.weight);
        }
    }

    /// Adds all nodes of another tree of the same unit.
    pub fn merge(&mut self, other: &CallTree) {
        let mut places = vec![CallTree::ROOT; other.nodes.len()];
        for index in other.indices() {
            let node = other.node(index);
            if let Some(parent) = node.parent {
                let above = places[parent.as_usize()];
                let at = self.find_or_add_child(above, other.frame(index), node.place.as_ref());
                places[index.as_usize()] = at;
                // The amount of a cut node is in that of its caller.
                if at == above {
                    continue;
                }
            }
            self.add_inclusive(places[index.as_usize()], node.total);
        }
        self.cut += other.cut;
    }
}

/// Returns at most [`MOST_NAME`] bytes of a name.
fn shorten_name(name: &str) -> &str {
    first_bytes(name, MOST_NAME)
}

#[cfg(test)]
pub(crate) mod tests;
