//! MetricKit's call stack tree: which frames call which.

use std::cmp::Ordering;

/// The ends of the stacks in a call stack tree. Threads begin in `dyld` or `libsystem_pthread`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeEnds {
    roots: StackEnds,
    leaves: StackEnds,
}

/// The roots of a tree, or its leaves.
#[derive(Clone, Copy, Debug, Default)]
struct StackEnds {
    all: u64,
    beginnings: u64,
}

impl TreeEnds {
    /// Counts a frame. `is_inside` says that it lies in another frame, `has_inner` that others lie in it.
    pub fn count_frame(&mut self, image: &[u8], is_inside: bool, has_inner: bool) {
        let ends = match (is_inside, has_inner) {
            (false, true) => &mut self.roots,
            (true, false) => &mut self.leaves,
            // A frame that is both ends of its stack shows nothing.
            _ => return,
        };
        ends.all += 1;
        ends.beginnings += u64::from(begins_threads(image));
    }

    /// Returns true if the roots are the program counters: fewer of them than of the leaves begin threads, as a share.
    /// If neither end shows it, trees with one thread each have the program counter at the root.
    #[must_use]
    pub fn is_innermost_first(&self, per_thread: bool) -> bool {
        let (roots, leaves) = (self.roots, self.leaves);
        match (roots.beginnings * leaves.all.max(1)).cmp(&(leaves.beginnings * roots.all.max(1))) {
            Ordering::Greater => false,
            Ordering::Less => true,
            Ordering::Equal => per_thread,
        }
    }
}

/// Facts of a call stack tree other than its frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallStackTree {
    /// The node of each frame, in the order of the backtrace.
    pub(crate) nodes: Vec<TreeNode>,
    /// True if each stack belongs to one thread.
    pub(crate) per_thread: bool,
    /// True if the roots are the program counters, and inner frames are callers.
    pub(crate) innermost_first: bool,
    /// For each frame, true if another one lies in it.
    pub(crate) inner: Vec<bool>,
}

/// A frame's place in its tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TreeNode {
    /// The frame that has this one in its `subFrames`. It comes later in the list.
    pub(crate) above: Option<u32>,
    /// `sampleCount`.
    pub(crate) count: Option<u64>,
    /// The samples of its blank frames.
    pub(crate) blank: u64,
}

impl CallStackTree {
    /// Returns true for a frame without callees: its address is a program counter.
    pub(crate) fn is_innermost(&self, frame: usize) -> bool {
        let at = if self.innermost_first {
            self.nodes.get(frame).map(|node| node.above.is_some())
        } else {
            self.inner.get(frame).copied()
        };
        at == Some(false)
    }

    /// Returns the samples of each frame without those of its inner frames.
    pub(crate) fn own_counts(&self) -> Vec<u64> {
        let mut inside = vec![0_u64; self.nodes.len()];
        let mut own = Vec::with_capacity(self.nodes.len());
        // Inner frames come before the frame that contains them.
        for (at, node) in self.nodes.iter().enumerate() {
            let total = tree_samples(node.count, inside[at].saturating_add(node.blank));
            own.push(total - inside[at]);
            if let Some(inside) = node.above.and_then(|above| inside.get_mut(above as usize)) {
                *inside = inside.saturating_add(total);
            }
        }
        own
    }
}

/// Returns the samples of a frame including its inner frames, if the frame states `count`. Without a count, returns
/// those of the inner frames, or one if they have none.
#[must_use]
pub fn tree_samples(count: Option<u64>, inside: u64) -> u64 {
    count.unwrap_or(inside.max(1)).max(inside)
}

fn begins_threads(image: &[u8]) -> bool {
    matches!(image, b"dyld" | b"libdyld.dylib" | b"libsystem_pthread.dylib")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of a tree with one root and leaves of these images.
    fn ends(root: &str, leaves: &[&str]) -> TreeEnds {
        let mut ends = TreeEnds::default();
        ends.count_frame(root.as_bytes(), false, true);
        leaves.iter().for_each(|leaf| ends.count_frame(leaf.as_bytes(), true, false));
        ends
    }

    #[test]
    fn threads_begin_at_the_end_with_the_larger_share_of_their_beginnings() {
        // The leaves wait for locks.
        let waits = ["libsystem_pthread.dylib", "libsystem_pthread.dylib", "dyld", "Shop"];
        assert!(!ends("dyld", &waits).is_innermost_first(true));
        assert!(ends("Shop", &waits).is_innermost_first(false));
        assert!(ends("Shop", &["Shop"]).is_innermost_first(true));
        assert!(!ends("Shop", &["Shop"]).is_innermost_first(false));
    }
}
