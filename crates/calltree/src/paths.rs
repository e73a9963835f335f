//! The one path that says most.

use super::{CallTree, FrameOrigin, NodeIndex};

impl CallTree {
    /// Returns the path from the root's heaviest child to a node that calls nothing, always to the heaviest
    /// child.
    #[must_use]
    pub fn heaviest_path(&self) -> Vec<NodeIndex> {
        let heaviest = |index: &NodeIndex| self.children(*index).first().copied();
        std::iter::successors(heaviest(&CallTree::ROOT), heaviest).collect()
    }

    /// Returns a node and its callers up to below the root, the innermost first.
    #[must_use]
    pub fn find_stack(&self, index: NodeIndex) -> Vec<NodeIndex> {
        let callers = std::iter::successors(Some(index), |at| self.node(*at).parent);
        callers.take_while(|at| *at != CallTree::ROOT).collect()
    }

    /// Describes a function in a line: its name, image and place.
    pub fn describe(&self, index: NodeIndex) -> String {
        let frame = self.frame(index);
        let place = &self.node(index).place;
        let place =
            place.as_ref().map_or_else(String::new, |place| format!(" {}:{}", place.file, place.line));
        let image = if frame.image.is_empty() { String::new() } else { format!(" ({})", frame.image) };
        format!("{}{image}{place}", frame.name)
    }

    /// Describes the innermost function of the app in a line, or of all if none is the app's. Returns an
    /// empty text for an empty stack.
    pub fn describe_app_function(&self, stack: &[NodeIndex]) -> String {
        let own = stack.iter().find(|at| self.frame(**at).origin == FrameOrigin::App);
        own.or(stack.first()).map_or_else(String::new, |at| self.describe(*at))
    }

    /// Returns the tree of the app's own functions. Callees in the system count for the app's function above
    /// them.
    #[must_use]
    pub fn to_app_tree(&self) -> CallTree {
        let mut tree = CallTree::new(self.unit);
        let mut places = vec![CallTree::ROOT; self.nodes.len()];
        for index in self.indices() {
            let node = self.node(index);
            let Some(parent) = node.parent else {
                tree.add_inclusive(CallTree::ROOT, node.total);
                continue;
            };
            let above = places[parent.as_usize()];
            let frame = self.frame(index);
            let at = match frame.origin {
                FrameOrigin::App => tree.find_or_add_child(above, frame, node.place.as_ref()),
                _ => above,
            };
            places[index.as_usize()] = at;
            // The amount of a callee without a node is in that of its caller.
            if at != above {
                tree.add_inclusive(at, node.total);
            }
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;

    #[test]
    fn the_heaviest_path_goes_by_what_is_called_and_not_by_single_stacks() {
        let tree = tree(&[("main;a;x", 4), ("main;b;y", 3), ("main;b;z", 2), ("other", 4)]);
        let names: Vec<&str> = tree.heaviest_path().into_iter().map(|at| &*tree.frame(at).name).collect();
        assert_eq!(names, ["main", "b", "y"]);
        let path = tree.heaviest_path();
        assert!(path[2..].iter().all(|at| tree.find_stack(*at).into_iter().rev().eq(path.iter().copied())));
    }

    #[test]
    fn the_apps_tree_keeps_every_amount() {
        let tree = tree(&[("s_start;main;s_loop;draw;s_copy", 4), ("s_start;main;s_wait", 3), ("s_idle", 2)]);
        let own = tree.to_app_tree();
        assert_eq!(own.total(), tree.total());
        assert_eq!(own.to_folded(), "all 2\nmain 3\nmain;draw 4\n");
    }
}
