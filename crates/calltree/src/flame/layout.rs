//! Computes which boxes a graph has, and their positions.

use crate::{CallTree, NodeIndex};

/// A box of the graph.
pub(super) struct FlameBox {
    pub(super) x: f64,
    pub(super) width: f64,
    /// 0 for the root, one more for what is called.
    pub(super) row: usize,
    pub(super) shown: BoxContent,
}

/// The node or the merged functions that a box represents.
pub(super) enum BoxContent {
    Node(NodeIndex),
    /// Functions beside one another that are too narrow for boxes of their own.
    Rest {
        functions: usize,
        weight: u64,
    },
}

/// Returns at most `most` boxes, callers first. Merges functions narrower than `least`, and the narrowest
/// ones if there are too many.
pub(super) fn lay_out(tree: &CallTree, width: f64, least: f64, most: usize) -> Vec<FlameBox> {
    let scale = width / weight_as_width(tree.total().weight.max(1));
    let lightest = find_least_weight(tree, most);
    let mut boxes = Vec::new();
    let mut open = vec![(CallTree::ROOT, 0.0, 0)];
    while let Some((index, x, row)) = open.pop() {
        let width = if row == 0 { width } else { weight_as_width(tree.node(index).total.weight) * scale };
        boxes.push(FlameBox { x, width, row, shown: BoxContent::Node(index) });
        let mut at = x;
        let (mut functions, mut rest) = (0, 0_u64);
        for child in tree.children(index) {
            let weight = tree.node(child).total.weight;
            let width = weight_as_width(weight) * scale;
            if width >= least && weight >= lightest {
                open.push((child, at, row + 1));
                at += width;
            } else {
                functions += 1;
                rest = rest.saturating_add(weight);
            }
        }
        let width = weight_as_width(rest) * scale;
        if width >= least {
            boxes.push(FlameBox {
                x: at,
                width,
                row: row + 1,
                shown: BoxContent::Rest { functions, weight: rest },
            });
        }
    }
    boxes
}

/// Returns the least weight of a function with a box of its own. No function weighs more than its caller, so
/// the boxes are those of the heaviest functions. Each may have one more box for the rest of its callees.
fn find_least_weight(tree: &CallTree, most: usize) -> u64 {
    let mut weights: Vec<u64> = tree.indices().map(|index| tree.node(index).total.weight).collect();
    let most = most / 2;
    if weights.len() <= most {
        return 0;
    }
    let (_, first_without, _) = weights.select_nth_unstable_by_key(most, |weight| std::cmp::Reverse(*weight));
    first_without.saturating_add(1)
}

#[expect(clippy::cast_precision_loss, reason = "widths are rounded to a tenth of a pixel")]
fn weight_as_width(weight: u64) -> f64 {
    weight as f64
}
