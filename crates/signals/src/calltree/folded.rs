//! Folded stacks: a line for each stack, its frames from the outermost on with `;` between them, and how
//! much it stands for.

use super::{CallTree, FrameOrigin, NodeIndex};
use std::fmt::Write as _;

/// The most bytes of folded stacks: each repeats the names of all its callers.
const MOST_BYTES: usize = 256 << 20;

/// What other tools put behind the names of the kernel's functions.
const KERNEL_MARK: &str = "_[k]";

/// A name without the kernel's mark, and whether it had one.
pub(crate) fn folded_kernel_name(name: &str) -> (&str, bool) {
    name.strip_suffix(KERNEL_MARK).map_or((name, false), |name| (name, true))
}

impl CallTree {
    /// The tree as folded stacks with their own weights, in the order of the nodes. What no frame stands
    /// for is the root's. What exceeds 256 MiB is left out: the number says how many stacks.
    #[must_use]
    pub fn folded(&self) -> (String, u64) {
        self.folded_within(MOST_BYTES)
    }

    /// The same within other bytes.
    #[must_use]
    pub fn folded_within(&self, most_bytes: usize) -> (String, u64) {
        let mut left_out = 0;
        let mut lines = String::new();
        let mut path: Vec<NodeIndex> = Vec::new();
        let mut open = vec![(CallTree::ROOT, 0)];
        while let Some((index, depth)) = open.pop() {
            path.truncate(depth);
            path.push(index);
            let own = self.own(index).weight;
            if own > 0 {
                let frames = if path.len() > 1 { &path[1..] } else { &path[..] };
                let names: Vec<String> = frames.iter().map(|at| self.folded_name(*at)).collect();
                let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
                if lines.len().saturating_add(bytes) > most_bytes {
                    left_out += 1;
                } else {
                    // Writing to a string has no error.
                    let _ = writeln!(lines, "{} {own}", names.join(";"));
                }
            }
            open.extend(self.children(index).into_iter().rev().map(|child| (child, depth + 1)));
        }
        (lines, left_out)
    }

    /// The name of a frame without what separates frames and lines.
    fn folded_name(&self, index: NodeIndex) -> String {
        let frame = self.frame(index);
        let clean = |c: char| if c == ';' || c.is_control() { ':' } else { c };
        let mut name: String = frame.name.chars().map(clean).collect();
        if frame.origin == FrameOrigin::Kernel {
            name.push_str(KERNEL_MARK);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::super::{Amount, CallFrame, CallTree, FrameOrigin};

    #[test]
    fn each_stack_is_a_line_with_its_own_weight() {
        let tree = tree(&[("main;a", 2), ("main", 1), ("main;b;c", 3)]);
        assert_eq!(tree.folded(), ("main 1\nmain;b;c 3\nmain;a 2\n".to_owned(), 0));
        assert_eq!(tree.folded_within(18), ("main 1\nmain;b;c 3\n".to_owned(), 1));
    }

    #[test]
    fn names_do_not_break_lines_or_stacks() {
        let mut tree = CallTree::new("samples");
        let frame = CallFrame::function("a;b\nc", "kernel", FrameOrigin::Kernel);
        tree.add_stack([&frame], Amount::samples(1));
        assert_eq!(tree.folded().0, "a:b:c_[k] 1\n");
    }
}
