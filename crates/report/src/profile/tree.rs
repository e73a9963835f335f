//! MetricKit's call stack tree: which frames call which.

use crate::report::Frame;
use std::cmp::Ordering;

/// What a call stack tree says besides its frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallStackTree {
    /// For each frame, in the order of the backtrace.
    pub(crate) nodes: Vec<TreeNode>,
    /// Each stack is one thread's.
    pub(crate) per_thread: bool,
    /// The roots are the program counters, and what lies in a frame has called it.
    pub(crate) innermost_first: bool,
    /// For each frame, whether another one lies in it.
    pub(crate) inner: Vec<bool>,
}

/// A frame's place in its tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TreeNode {
    /// The frame whose `subFrames` it is in. It stands behind this one.
    pub(crate) above: Option<u32>,
    /// `sampleCount`.
    pub(crate) count: Option<u64>,
}

impl CallStackTree {
    /// Finds the end at which threads begin, in `dyld` or `libsystem_pthread`. Where neither end shows it, trees of
    /// one thread each have the program counter at the root.
    pub(crate) fn find_direction(&mut self, frames: &[Frame<'_>]) {
        self.inner = vec![false; self.nodes.len()];
        for above in self.nodes.iter().filter_map(|node| node.above) {
            if let Some(inner) = self.inner.get_mut(above as usize) {
                *inner = true;
            }
        }
        let (mut at_root, mut at_leaf) = (0_u32, 0_u32);
        for ((frame, node), inner) in frames.iter().zip(&self.nodes).zip(&self.inner) {
            if frame.object_name.is_some_and(|name| begins_threads(name.raw())) {
                // A frame that is both ends of its stack shows nothing.
                at_root += u32::from(node.above.is_none() && *inner);
                at_leaf += u32::from(node.above.is_some() && !inner);
            }
        }
        self.innermost_first = match at_root.cmp(&at_leaf) {
            Ordering::Greater => false,
            Ordering::Less => true,
            Ordering::Equal => self.per_thread,
        };
    }

    /// True for a frame that calls no other: its address is a program counter.
    pub(crate) fn is_innermost(&self, frame: usize) -> bool {
        let at = if self.innermost_first {
            self.nodes.get(frame).map(|node| node.above.is_some())
        } else {
            self.inner.get(frame).copied()
        };
        at == Some(false)
    }

    /// The samples of each frame without those of what lies in it. A frame without a count has those of what lies in
    /// it, or else one.
    pub(crate) fn own_counts(&self) -> Vec<u64> {
        let mut inside = vec![0_u64; self.nodes.len()];
        let mut own = Vec::with_capacity(self.nodes.len());
        // What lies in a frame stands before it.
        for (at, node) in self.nodes.iter().enumerate() {
            let total = node.count.unwrap_or(inside[at].max(1)).max(inside[at]);
            own.push(total - inside[at]);
            if let Some(inside) = node.above.and_then(|above| inside.get_mut(above as usize)) {
                *inside = inside.saturating_add(total);
            }
        }
        own
    }
}

fn begins_threads(image: &[u8]) -> bool {
    matches!(image, b"dyld" | b"libdyld.dylib" | b"libsystem_pthread.dylib")
}
