//! Folded stacks: one line for each stack, with its frames from the outermost on, `;` between them, and its
//! weight.

use super::{CallTree, FrameOrigin, NodeIndex};
use std::fmt::Write as _;
use unslide_report::text::is_obeyed;

/// The most bytes of folded stacks: each repeats the names of all its callers.
const MOST_BYTES: usize = 256 << 20;

/// The name of the last line, which sums all stacks that are left out.
const LEFT_OUT: &str = "(left out)";

/// The suffix that other tools add to the names of the kernel's functions.
const KERNEL_MARK: &str = "_[k]";

/// Returns a name without the kernel's mark, and whether it had one.
#[must_use]
pub fn folded_kernel_name(name: &str) -> (&str, bool) {
    name.strip_suffix(KERNEL_MARK).map_or((name, false), |name| (name, true))
}

impl CallTree {
    /// Returns the tree as folded stacks with their own weights, in the order of the nodes. Weight without a
    /// frame belongs to the root. Stacks beyond 256 MiB are one last line, `(left out) N`.
    #[must_use]
    pub fn to_folded(&self) -> String {
        self.folded_within(MOST_BYTES)
    }

    /// Returns the same with another limit in bytes, in which the last line does not count.
    #[must_use]
    pub fn folded_within(&self, most_bytes: usize) -> String {
        let mut left_out: u64 = 0;
        let mut lines = String::new();
        let mut path: Vec<NodeIndex> = Vec::new();
        let mut open = vec![(CallTree::ROOT, 0)];
        while let Some((index, depth)) = open.pop() {
            path.truncate(depth);
            path.push(index);
            let own = self.own_amount(index).weight;
            if own > 0 {
                let frames = if path.len() > 1 { &path[1..] } else { &path[..] };
                // Of a stack that is left out no name is copied.
                let most: usize = frames.iter().map(|at| self.most_folded_bytes(*at) + 1).sum();
                if lines.len().saturating_add(most) > most_bytes {
                    left_out = left_out.saturating_add(own);
                } else {
                    let names: Vec<String> = frames.iter().map(|at| self.folded_name(*at)).collect();
                    // Writing to a string has no error.
                    let _ = writeln!(lines, "{} {own}", names.join(";"));
                }
            }
            open.extend(self.children(index).into_iter().rev().map(|child| (child, depth + 1)));
        }
        if left_out > 0 {
            let _ = writeln!(lines, "{LEFT_OUT} {left_out}");
        }
        lines
    }

    /// Returns the most bytes of [`CallTree::folded_name`], which makes a name longer only by the mark.
    fn most_folded_bytes(&self, index: NodeIndex) -> usize {
        let frame = self.frame(index);
        let mark = if frame.origin == FrameOrigin::Kernel { KERNEL_MARK.len() } else { 0 };
        frame.name.len() + mark
    }

    /// Returns the name of a frame. A colon replaces each character that separates frames or lines, or that a terminal
    /// obeys.
    fn folded_name(&self, index: NodeIndex) -> String {
        let frame = self.frame(index);
        let clean = |c: char| if c == ';' || is_obeyed(c) { ':' } else { c };
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
        assert_eq!(tree.to_folded(), "main 1\nmain;b;c 3\nmain;a 2\n");
        assert_eq!(tree.folded_within(18), "main 1\nmain;b;c 3\n(left out) 2\n");
        assert_eq!(tree.folded_within(0), "(left out) 6\n");
    }

    #[test]
    fn names_do_not_break_lines_or_stacks() {
        let mut tree = CallTree::new("samples");
        let frame = CallFrame::for_function("a;b\nc\u{202e}d", "kernel", FrameOrigin::Kernel);
        tree.add_stack([&frame], Amount::from_samples(1));
        assert_eq!(tree.to_folded(), "a:b:c:d_[k] 1\n");
    }
}
