//! The edges of a graph by their sources: one list of targets, and the position at which each source's
//! targets begin.

use std::ops::Range;

/// Edges by source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeLists {
    /// The position at which the targets of each node begin; one more than there are nodes.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl EdgeLists {
    /// Creates the edges of a number of nodes, in any order. Leaves out edges of nodes beyond that number.
    #[must_use]
    pub fn from_pairs(nodes: u32, edges: &[(u32, u32)]) -> EdgeLists {
        let there = |(source, target): &&(u32, u32)| *source < nodes && *target < nodes;
        let mut sorted: Vec<(u32, u32)> = edges.iter().filter(there).copied().collect();
        sorted.sort_by_key(|(source, _)| *source);
        let mut lists = EdgeLists::default();
        for (source, target) in sorted {
            lists.push(source, target);
        }
        lists.finish(nodes);
        lists
    }

    /// Adds an edge. Its source is that of the edge before, or one after it.
    pub(crate) fn push(&mut self, source: u32, target: u32) {
        self.begin_sources(source as usize + 1);
        self.targets.push(target);
    }

    /// Ends the lists at the last node.
    pub(crate) fn finish(&mut self, nodes: u32) {
        self.begin_sources(nodes as usize + 1);
        self.starts.shrink_to_fit();
        self.targets.shrink_to_fit();
    }

    fn begin_sources(&mut self, count: usize) {
        let at = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
        if self.starts.len() < count {
            self.starts.resize(count, at);
        }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> u32 {
        u32::try_from(self.starts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns the number of edges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns true if there is no edge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Returns the positions of the edges of a node.
    #[inline]
    #[must_use]
    pub fn edge_range(&self, node: u32) -> Range<usize> {
        let bounds = self.starts.get(node as usize..node as usize + 2);
        bounds.map_or(0..0, |bounds| bounds[0] as usize..bounds[1] as usize)
    }

    /// Returns the target of an edge.
    #[inline]
    #[must_use]
    pub fn target(&self, edge: usize) -> u32 {
        self.targets.get(edge).copied().unwrap_or(u32::MAX)
    }

    /// Returns the source of an edge.
    pub(super) fn find_source(&self, edge: u32) -> u32 {
        let after = self.starts.partition_point(|start| *start <= edge);
        u32::try_from(after.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns the same edges by target, those that `is_wanted` by position. Nodes are renamed by `number`.
    /// Leaves out edges of nodes without a number. Sources with one are all below `count`.
    pub(super) fn to_reversed(
        &self,
        count: u32,
        number: impl Fn(u32) -> Option<u32>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> EdgeLists {
        let mut starts = vec![0_u32; count as usize + 1];
        self.each_edge(&number, &is_wanted, |_, target| starts[target as usize] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut targets = vec![0; sum as usize];
        // Each list is filled from its end, so that its start is right afterwards.
        self.each_edge(&number, &is_wanted, |source, target| {
            starts[target as usize] -= 1;
            targets[starts[target as usize] as usize] = source;
        });
        EdgeLists { starts, targets }
    }

    fn each_edge(
        &self,
        number: impl Fn(u32) -> Option<u32>,
        is_wanted: impl Fn(usize) -> bool,
        mut tell: impl FnMut(u32, u32),
    ) {
        for node in 0..self.node_count() {
            let Some(source) = number(node) else { continue };
            for edge in self.edge_range(node) {
                if !is_wanted(edge) {
                    continue;
                }
                if let Some(target) = number(self.target(edge)) {
                    tell(source, target);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_by_source_and_by_target() {
        let edges = EdgeLists::from_pairs(4, &[(2, 0), (0, 1), (2, 3), (9, 1), (1, 9)]);
        assert_eq!((edges.node_count(), edges.len()), (4, 3));
        let targets = |lists: &EdgeLists, node| -> Vec<u32> {
            lists.edge_range(node).map(|edge| lists.target(edge)).collect()
        };
        assert_eq!(
            [0, 1, 2, 3, 4].map(|node| targets(&edges, node)),
            [vec![1], vec![], vec![0, 3], vec![], vec![]]
        );
        let back = edges.to_reversed(4, Some, |_| true);
        assert_eq!([0, 1, 2, 3].map(|node| targets(&back, node)), [vec![2], vec![0], vec![], vec![2]]);
    }
}
