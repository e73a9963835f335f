//! Two trees in one: the amounts of each function before and after.

use super::{Amount, CallTree, NodeIndex};
use unslide_model::figures::{Share, round_growth};

/// The nodes of two trees, each with both amounts.
#[derive(Clone, Debug)]
pub struct TreeDifference {
    /// The nodes of both; amounts are the sums.
    tree: CallTree,
    before: Vec<Amount>,
}

impl TreeDifference {
    /// Returns the difference between two trees of the same unit.
    #[must_use]
    pub fn from_trees(before: &CallTree, after: &CallTree) -> TreeDifference {
        let mut tree = CallTree::new(after.unit);
        tree.merge(before);
        let mut earlier: Vec<Amount> = tree.nodes.iter().map(|node| node.total).collect();
        tree.merge(after);
        // Nodes keep their positions when others are added.
        earlier.resize(tree.nodes.len(), Amount::default());
        TreeDifference { tree, before: earlier }
    }

    /// Returns the nodes of both trees. Their amounts are the sums of both.
    #[must_use]
    pub fn tree(&self) -> &CallTree {
        &self.tree
    }

    /// Returns the amount of a node in the first tree.
    #[must_use]
    pub fn amount_before(&self, index: NodeIndex) -> Amount {
        self.before[index.as_usize()]
    }

    /// Returns the amount of a node in the second tree.
    #[must_use]
    pub fn amount_after(&self, index: NodeIndex) -> Amount {
        self.tree.node(index).total.saturating_sub(self.amount_before(index))
    }

    /// Returns the amounts of a node in the first and in the second tree, without the functions that it
    /// calls.
    #[must_use]
    pub fn own_amounts(&self, index: NodeIndex) -> (Amount, Amount) {
        let (mut before, mut after) = (Amount::default(), Amount::default());
        for child in &self.tree.node(index).children {
            before += self.amount_before(*child);
            after += self.amount_after(*child);
        }
        (self.amount_before(index).saturating_sub(before), self.amount_after(index).saturating_sub(after))
    }

    /// Returns by how many thousandths a node's share of its tree has grown: the trees may be of different sizes.
    #[must_use]
    pub fn share_growth(&self, index: NodeIndex) -> i64 {
        let share = |part: Amount, whole: Amount| Share { part: part.weight, whole: whole.weight };
        round_growth(
            share(self.amount_before(index), self.amount_before(CallTree::ROOT)),
            share(self.amount_after(index), self.amount_after(CallTree::ROOT)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn each_node_has_both_amounts_and_shares_are_of_its_own_tree() {
        let before = tree(&[("main;a", 6), ("main;gone", 4)]);
        let after = tree(&[("main;a", 15), ("main;new", 5)]);
        let difference = TreeDifference::from_trees(&before, &after);
        let found = |name: &str| {
            let tree = difference.tree();
            let index = tree.indices().find(|index| &*tree.frame(*index).name == name).unwrap();
            (
                difference.amount_before(index).weight,
                difference.amount_after(index).weight,
                difference.share_growth(index),
            )
        };
        assert_eq!(found("main"), (10, 20, 0));
        assert_eq!(found("a"), (6, 15, 150));
        assert_eq!(found("gone"), (4, 0, -400));
        assert_eq!(found("new"), (0, 5, 250));
        let root = difference.tree().children(CallTree::ROOT)[0];
        assert_eq!(difference.own_amounts(root), (Amount::default(), Amount::default()));
        let own: u64 = difference.tree().indices().map(|index| difference.own_amounts(index).1.weight).sum();
        assert_eq!(own, 20);
    }

    #[test]
    fn growth_is_rounded_and_not_cut() {
        let (before, after) = (tree(&[("a", 30), ("b", 70)]), tree(&[("a", 60), ("b", 80)]));
        let difference = TreeDifference::from_trees(&before, &after);
        let growth: Vec<i64> =
            difference.tree().indices().skip(1).map(|at| difference.share_growth(at)).collect();
        assert_eq!(growth, [129, -129]);
    }

    #[test]
    fn a_difference_to_nothing_is_the_tree() {
        let after = tree(&[("main;a", 3)]);
        let difference = TreeDifference::from_trees(&CallTree::new("samples"), &after);
        assert_eq!(difference.tree().to_folded(), after.to_folded());
        assert_eq!(difference.share_growth(CallTree::ROOT), 1000);
    }
}
