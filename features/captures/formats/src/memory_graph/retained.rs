//! Who keeps how much memory alive, as a tree by class that a flame graph can show.

use super::analysis::GraphAnalysis;
use super::graph::{MemoryGraph, NO_CLASS};
use super::tables::MemoryTables;
use std::collections::HashMap;
use unslide_calltree::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex};

/// The unit of weights.
const BYTES: &str = "bytes";
/// The node above nodes that no root reaches.
const LEAKED: &str = "leaked";

impl GraphAnalysis<'_> {
    /// Returns the dominator tree by class. Below a class are the blocks that each of its blocks keeps alive
    /// alone. Blocks that only several blocks together keep alive are below the node that keeps all of these
    /// alive. Blocks of one class that keep each other alive, such as a list, are one node. Leaked blocks are
    /// grouped by class below a label.
    #[must_use]
    pub fn retained_tree(&self) -> CallTree {
        let graph = self.graph();
        let frames = ClassFrames::from_graph(graph);
        let mut tree = RetainedTree::new();
        let mut places = vec![CallTree::ROOT; graph.node_count()];
        for node in self.dominators().order() {
            let above = self.dominators().immediate_dominator(node);
            let same = above.filter(|above| graph.node_class(*above) == graph.node_class(node));
            let place = match same {
                Some(above) => places[above as usize],
                None => {
                    let parent = above.map_or(CallTree::ROOT, |above| places[above as usize]);
                    tree.tree.find_or_add_child(parent, frames.frame_for_node(graph, node), None)
                }
            };
            places[node as usize] = place;
            tree.add_own(place, 1, graph.node_size(node));
        }
        let mut leaked = None;
        let nodes = u32::try_from(graph.node_count()).unwrap_or(u32::MAX);
        for node in (0..nodes).filter(|node| !self.dominators().is_reached(*node)) {
            let label = || CallFrame::for_label(LEAKED);
            let top =
                *leaked.get_or_insert_with(|| tree.tree.find_or_add_child(CallTree::ROOT, &label(), None));
            let place = tree.tree.find_or_add_child(top, frames.frame_for_node(graph, node), None);
            tree.add_own(place, 1, graph.node_size(node));
        }
        tree.into_tree()
    }
}

impl MemoryTables {
    /// Returns the classes of a tool's text, each with its bytes, or else the kinds of its regions.
    #[must_use]
    pub fn build_tree(&self) -> CallTree {
        let mut tree = RetainedTree::new();
        for class in &self.classes {
            let frame = CallFrame::for_function(&class.name, &class.image, FrameOrigin::Unknown);
            let place = tree.tree.find_or_add_child(CallTree::ROOT, &frame, None);
            tree.add_own(place, class.blocks, class.bytes);
        }
        if self.classes.is_empty() {
            for region in &self.regions {
                let place =
                    tree.tree.find_or_add_child(CallTree::ROOT, &CallFrame::for_label(&region.name), None);
                tree.add_own(place, region.regions, region.dirty.saturating_add(region.swapped.unwrap_or(0)));
            }
        }
        tree.into_tree()
    }
}

/// A tree. Its nodes get their own amounts first.
struct RetainedTree {
    tree: CallTree,
    own: HashMap<NodeIndex, Amount>,
}

impl RetainedTree {
    fn new() -> RetainedTree {
        RetainedTree { tree: CallTree::new(BYTES), own: HashMap::new() }
    }

    fn add_own(&mut self, place: NodeIndex, count: u64, weight: u64) {
        *self.own.entry(place).or_default() += Amount { count, weight };
    }

    fn into_tree(mut self) -> CallTree {
        for (place, amount) in self.own {
            self.tree.add_amount(place, amount);
        }
        self.tree
    }
}

/// The frames that represent classes.
struct ClassFrames {
    classes: Vec<CallFrame>,
    none: CallFrame,
}

impl ClassFrames {
    fn from_graph(graph: &MemoryGraph) -> ClassFrames {
        let numbers = 0..u32::try_from(graph.classes.len()).unwrap_or(u32::MAX);
        let classes = numbers.zip(&graph.classes).map(|(number, class)| {
            let image = class.image.and_then(|image| graph.images.get(image as usize));
            let origin = image.map_or(FrameOrigin::Unknown, crate::profile::ProfileImage::origin);
            let name = image.map_or("", |image| &image.name);
            CallFrame::for_function(&graph.name_of_class(number), name, origin)
        });
        let classes = classes.collect();
        ClassFrames { classes, none: CallFrame::for_function(NO_CLASS, "", FrameOrigin::Unknown) }
    }

    fn frame_for_node(&self, graph: &MemoryGraph, node: u32) -> &CallFrame {
        graph.node_class(node).and_then(|class| self.classes.get(class as usize)).unwrap_or(&self.none)
    }
}
