//! Finds the shortest path from a root to a node, which shows what holds the node.

use super::edges::EdgeLists;
use std::collections::VecDeque;

const NO_EDGE: u32 = u32::MAX;
const ROOT_EDGE: u32 = u32::MAX - 1;

/// The shortest ways from roots to all nodes.
#[derive(Clone, Debug)]
pub struct ShortestPaths {
    /// For each node the edge that its way ends with.
    edges: Vec<u32>,
}

impl ShortestPaths {
    /// Finds the paths over the edges that `keeps_alive` by position.
    #[must_use]
    pub fn from_edges(
        edges: &EdgeLists,
        roots: &[u32],
        keeps_alive: impl Fn(usize) -> bool,
    ) -> ShortestPaths {
        let mut paths = ShortestPaths { edges: vec![NO_EDGE; edges.node_count() as usize] };
        let mut todo = VecDeque::new();
        for root in roots {
            paths.reach_node(*root, ROOT_EDGE, &mut todo);
        }
        while let Some(node) = todo.pop_front() {
            for edge in edges.edge_range(node).filter(|edge| keeps_alive(*edge)) {
                paths.reach_node(edges.target(edge), u32::try_from(edge).unwrap_or(NO_EDGE), &mut todo);
            }
        }
        paths
    }

    fn reach_node(&mut self, node: u32, edge: u32, todo: &mut VecDeque<u32>) {
        if let Some(slot) = self.edges.get_mut(node as usize).filter(|slot| **slot == NO_EDGE) {
            *slot = edge;
            todo.push_back(node);
        }
    }

    /// Returns the nodes of the path, the root first, each with the edge that leads to it. Returns an empty
    /// list if no root reaches the node.
    #[must_use]
    pub fn path_to(&self, node: u32, edges: &EdgeLists) -> Vec<(u32, Option<usize>)> {
        let mut path = Vec::new();
        let mut at = node;
        loop {
            match self.edges.get(at as usize).copied().unwrap_or(NO_EDGE) {
                NO_EDGE => return Vec::new(),
                ROOT_EDGE => break,
                edge => {
                    path.push((at, Some(edge as usize)));
                    at = edges.find_source(edge);
                }
            }
        }
        path.push((at, None));
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_is_found() {
        let edges = EdgeLists::from_pairs(6, &[(0, 1), (1, 2), (2, 3), (4, 3), (5, 5)]);
        let paths = ShortestPaths::from_edges(&edges, &[0, 4], |_| true);
        let nodes = |to| -> Vec<u32> { paths.path_to(to, &edges).iter().map(|(node, _)| *node).collect() };
        assert_eq!((nodes(3), nodes(2), nodes(0)), (vec![4, 3], vec![0, 1, 2], vec![0]));
        assert_eq!((nodes(5), nodes(9)), (vec![], vec![]));
        assert_eq!(paths.path_to(3, &edges), [(4, None), (3, Some(3))]);
    }
}
