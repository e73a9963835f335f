//! Strongly connected components, by Tarjan: nodes that all reach each other. No step recurses.

use super::edges::EdgeLists;

/// The components of some nodes of a graph.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// The component of each node plus one; 0 if it was not requested.
    of_node: Vec<u32>,
    /// The nodes, component by component. A component comes after all others that it reaches.
    nodes: Vec<u32>,
    /// The end of each component among the nodes.
    ends: Vec<u32>,
}

/// A node on the way, and its next edge.
struct OpenNode {
    node: u32,
    next: usize,
    /// The lowest number of the search that it leads back to.
    low: u32,
}

impl Components {
    /// Returns the components of the nodes for which `is_asked`, over the edges that `keeps_alive` by
    /// position.
    #[must_use]
    pub fn from_edges(
        edges: &EdgeLists,
        is_asked: impl Fn(u32) -> bool,
        keeps_alive: impl Fn(usize) -> bool,
    ) -> Components {
        let mut found = Components { of_node: vec![0; edges.node_count() as usize], ..Components::default() };
        let mut search = Search { numbers: vec![0; edges.node_count() as usize], ..Search::default() };
        for node in 0..edges.node_count() {
            if is_asked(node) && search.numbers[node as usize] == 0 {
                search.open_node(node, edges);
                search.run_search(edges, &mut found, &is_asked, &keeps_alive);
            }
        }
        found
    }

    /// Returns the number of components.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no component.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the component of a node. Returns `None` if it was not requested.
    #[must_use]
    pub fn find_component(&self, node: u32) -> Option<u32> {
        self.of_node.get(node as usize)?.checked_sub(1)
    }

    /// Returns the nodes of a component.
    #[must_use]
    pub fn component_nodes(&self, component: u32) -> &[u32] {
        let at = component as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.nodes.get(start as usize..end as usize).unwrap_or_default()
    }
}

#[derive(Default)]
struct Search {
    /// By node: its number in the search, from 1.
    numbers: Vec<u32>,
    count: u32,
    path: Vec<OpenNode>,
    /// Nodes of components that are not complete.
    waiting: Vec<u32>,
}

impl Search {
    fn open_node(&mut self, node: u32, edges: &EdgeLists) {
        self.count += 1;
        self.numbers[node as usize] = self.count;
        self.waiting.push(node);
        self.path.push(OpenNode { node, next: edges.edge_range(node).start, low: self.count });
    }

    fn run_search(
        &mut self,
        edges: &EdgeLists,
        found: &mut Components,
        is_asked: impl Fn(u32) -> bool,
        keeps_alive: impl Fn(usize) -> bool,
    ) {
        while let Some(open) = self.path.last_mut() {
            if open.next >= edges.edge_range(open.node).end {
                self.close_node(found);
                continue;
            }
            let edge = open.next;
            open.next += 1;
            let target = edges.target(edge);
            if !keeps_alive(edge) || !is_asked(target) {
                continue;
            }
            match self.numbers[target as usize] {
                0 => self.open_node(target, edges),
                // A node of a complete component leads back to nothing.
                number if found.of_node[target as usize] == 0 => open.low = open.low.min(number),
                _ => {}
            }
        }
    }

    fn close_node(&mut self, found: &mut Components) {
        let Some(OpenNode { node, low, .. }) = self.path.pop() else { return };
        if let Some(parent) = self.path.last_mut() {
            parent.low = parent.low.min(low);
        }
        if low != self.numbers[node as usize] {
            return;
        }
        let component = u32::try_from(found.ends.len() + 1).unwrap_or(u32::MAX);
        while let Some(member) = self.waiting.pop() {
            found.of_node[member as usize] = component;
            found.nodes.push(member);
            if member == node {
                break;
            }
        }
        found.ends.push(u32::try_from(found.nodes.len()).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_reach_each_other_are_one_component() {
        let edges = EdgeLists::from_pairs(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 5)]);
        let found = Components::from_edges(&edges, |node| node != 5, |_| true);
        let mut members: Vec<Vec<u32>> =
            (0..2).map(|component| found.component_nodes(component).to_vec()).collect();
        members.iter_mut().for_each(|nodes| nodes.sort_unstable());
        assert_eq!((found.len(), members), (2, vec![vec![3, 4], vec![0, 1, 2]]));
        assert_eq!(
            (found.find_component(4), found.find_component(0), found.find_component(5)),
            (Some(0), Some(1), None)
        );
    }
}
