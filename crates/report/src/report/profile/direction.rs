//! Direction of a call stack tree: the program counters are at the roots or at the leaves.

use super::tree::{CallStackTree, TreeEnds};
use crate::report::Frame;

impl CallStackTree {
    /// Finds the end of the tree at which threads begin.
    pub(crate) fn find_direction(&mut self, frames: &[Frame<'_>]) {
        let mut ends = TreeEnds::default();
        for ((frame, node), inner) in frames.iter().zip(&self.nodes).zip(&self.inner) {
            let image = frame.object_name.map_or(&b""[..], |name| name.raw());
            ends.count_frame(image, node.above.is_some(), *inner);
        }
        self.innermost_first = ends.is_innermost_first(self.per_thread);
    }
}
