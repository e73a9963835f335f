//! A call tree that is small enough to be sent: its heaviest nodes, and the sums of the others.

use crate::{Amount, CallFrame, CallTree, FrameOrigin, NodeIndex, SourcePlace};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// The most nodes of a cut tree, without those that represent others.
const MOST_NODES: usize = 4_000;
/// The most bytes of its names and paths.
const MOST_TEXT: usize = 1 << 20;

/// The heaviest nodes of a call tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutTree {
    /// The unit of weights: `samples` or `bytes`.
    pub unit: String,
    /// How often, of the whole tree.
    pub count: u64,
    /// How much, of the whole tree.
    pub weight: u64,
    /// Nodes that were summed.
    pub summed: u64,
    /// The nodes, callers before the functions that they call.
    pub nodes: Vec<CutNode>,
}

/// A node of a cut tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutNode {
    /// The position of its caller; absent for an outermost one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// The function's name. If the node represents several others, their number.
    pub name: String,
    /// The file name of its image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// `app`, `system`, `kernel`, `unknown`, or `label` if it is no function.
    pub origin: String,
    /// How often, with all that it calls.
    pub count: u64,
    /// How much, with all that it calls.
    pub weight: u64,
    /// The path of its source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// True if the node represents several others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

impl CutTree {
    /// Returns the heaviest nodes of a tree in which callers have at least the weight of the functions that
    /// they call.
    #[must_use]
    pub fn from_tree(tree: &CallTree) -> CutTree {
        let mut heaviest: Vec<NodeIndex> = tree.indices().skip(1).collect();
        // A caller comes before what it calls, by weight or else by position.
        heaviest.sort_by_key(|index| (Reverse(tree.node(*index).total.weight), *index));
        let mut text = 0;
        heaviest.truncate(MOST_NODES);
        let fits = heaviest.iter().take_while(|index| {
            text += text_bytes(tree, **index);
            text <= MOST_TEXT
        });
        let fitting = fits.count();
        heaviest.truncate(fitting);
        heaviest.sort();
        let mut cut = CutTree {
            unit: tree.unit().to_owned(),
            count: tree.total().count,
            weight: tree.total().weight,
            summed: (tree.node_count() - 1 - fitting) as u64,
            nodes: Vec::with_capacity(fitting),
        };
        let position = |index: NodeIndex| heaviest.binary_search(&index).ok();
        for index in &heaviest {
            let parent = tree.node(*index).parent.and_then(position);
            cut.nodes.push(cut_node(tree, *index, parent));
        }
        for (at, index) in heaviest.iter().enumerate() {
            cut.sum_rest(tree, *index, Some(at), &position);
        }
        cut.sum_rest(tree, CallTree::ROOT, None, &position);
        cut
    }

    /// Adds a node for those that `index` calls and that were left out.
    fn sum_rest(
        &mut self,
        tree: &CallTree,
        index: NodeIndex,
        parent: Option<usize>,
        position: &impl Fn(NodeIndex) -> Option<usize>,
    ) {
        let (mut rest, mut number) = (Amount::default(), 0_u64);
        for child in tree.children(index).into_iter().filter(|child| position(*child).is_none()) {
            rest += tree.node(child).total;
            number += 1;
        }
        if number > 0 {
            self.nodes.push(CutNode {
                parent,
                name: format!("{number} smaller"),
                image: String::new(),
                origin: FrameOrigin::Label.as_str().to_owned(),
                count: rest.count,
                weight: rest.weight,
                file: None,
                line: None,
                rest: true,
            });
        }
    }

    /// Returns the tree again.
    #[must_use]
    pub fn to_tree(&self) -> CallTree {
        self.tree_of(&|_| true)
    }

    /// Returns the tree without the nodes that represent others. Their amounts are those of their callers. So
    /// it can be compared with a tree that was cut elsewhere.
    #[must_use]
    pub fn tree_without_rests(&self) -> CallTree {
        self.tree_of(&|node| !node.rest)
    }

    fn tree_of(&self, is_in_it: &dyn Fn(&CutNode) -> bool) -> CallTree {
        let mut tree = CallTree::new(if self.unit == "bytes" { "bytes" } else { "samples" });
        let mut places: Vec<NodeIndex> = Vec::with_capacity(self.nodes.len());
        // Nodes that represent others come last and call nothing.
        for node in self.nodes.iter().filter(|node| is_in_it(node)) {
            let above = node.parent.and_then(|parent| places.get(parent)).copied().unwrap_or(CallTree::ROOT);
            let place = node.file.as_deref().zip(node.line);
            let place = place.map(|(file, line)| SourcePlace { file: file.into(), line });
            let at = tree.find_or_add_child(above, &node.to_frame(), place.as_ref());
            if at != above {
                tree.add_inclusive(at, Amount { count: node.count, weight: node.weight });
            }
            places.push(at);
        }
        tree.add_inclusive(CallTree::ROOT, Amount { count: self.count, weight: self.weight });
        tree
    }
}

impl CutNode {
    fn to_frame(&self) -> CallFrame {
        let origins = [FrameOrigin::App, FrameOrigin::System, FrameOrigin::Kernel, FrameOrigin::Unknown];
        match origins.into_iter().find(|origin| origin.as_str() == self.origin) {
            Some(origin) => CallFrame::for_function(&self.name, &self.image, origin),
            None => CallFrame::for_label(&self.name),
        }
    }
}

fn cut_node(tree: &CallTree, index: NodeIndex, parent: Option<usize>) -> CutNode {
    let (node, frame) = (tree.node(index), tree.frame(index));
    CutNode {
        parent,
        name: frame.name.to_string(),
        image: frame.image.to_string(),
        origin: frame.origin.as_str().to_owned(),
        count: node.total.count,
        weight: node.total.weight,
        file: node.place.as_ref().map(|place| place.file.to_string()),
        line: node.place.as_ref().map(|place| place.line),
        rest: false,
    }
}

fn text_bytes(tree: &CallTree, index: NodeIndex) -> usize {
    let (node, frame) = (tree.node(index), tree.frame(index));
    frame.name.len() + frame.image.len() + node.place.as_ref().map_or(0, |place| place.file.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::tree;

    #[test]
    fn a_small_tree_stays_as_it_is() {
        let tree = tree(&[("main;s_loop;draw", 4), ("main;load", 3), ("other", 2)]);
        let cut = CutTree::from_tree(&tree);
        assert_eq!((cut.weight, cut.summed, cut.nodes.len()), (9, 0, 5));
        assert_eq!(cut.to_tree().to_folded(), tree.to_folded());
    }

    #[test]
    fn what_is_left_out_is_summed_under_its_caller() {
        let stacks: Vec<(String, u64)> =
            (0..6_000).map(|at| (format!("main;f{at:04}"), 6_000 - at)).collect();
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, count)| (stack.as_str(), *count)).collect();
        let tree = tree(&stacks);
        let cut = CutTree::from_tree(&tree);
        assert_eq!((cut.nodes.len(), cut.summed), (MOST_NODES + 1, 2_001));
        let last = cut.nodes.last().unwrap();
        assert_eq!((last.name.as_str(), last.weight), ("2001 smaller", (1..=2_001).sum::<u64>()));
        assert_eq!(cut.to_tree().total(), tree.total());
        let without = cut.tree_without_rests();
        assert_eq!((without.node_count(), without.total()), (MOST_NODES + 1, tree.total()));
        let own = cut.to_tree().list_functions(1).remove(0);
        assert_eq!((&*own.frame.name, own.own), ("f0000", 6_000));
    }
}
