//! Computes which node keeps which alive: the dominator tree, by Lengauer and Tarjan with path compression.
//! No step recurses. The time is bounded by edges times the logarithm of nodes, for every graph.

use super::edges::EdgeLists;

/// In the place of a node: none.
const NO_NODE: u32 = u32::MAX;

/// The dominator tree of the nodes that roots reach. A virtual node is above the roots.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// The nodes in the order of a depth-first search.
    order: Vec<u32>,
    /// The position of each node in the order plus one; 0 if no root reaches it.
    numbers: Vec<u32>,
    /// By number: the number of the node right above in the tree. Number 0 is the virtual node.
    above: Vec<u32>,
}

impl Dominators {
    /// Returns the tree of the nodes that the roots reach over the edges that `keeps_alive` by position.
    #[must_use]
    pub fn from_edges(edges: &EdgeLists, roots: &[u32], keeps_alive: impl Fn(usize) -> bool) -> Dominators {
        let search = DepthFirst::from_edges(edges, roots, &keeps_alive);
        let count = u32::try_from(search.parents.len()).unwrap_or(NO_NODE);
        let number = |node: u32| search.numbers.get(node as usize).copied().filter(|number| *number > 0);
        let sources = edges.to_reversed(count, number, &keeps_alive);
        let mut is_root = vec![false; search.parents.len()];
        for number in roots.iter().filter_map(|root| number(*root)) {
            is_root[number as usize] = true;
        }
        let above = immediate_dominators(&search.parents, &sources, &is_root);
        Dominators { order: search.order, numbers: search.numbers, above }
    }

    /// Returns true if a root reaches the node.
    #[must_use]
    pub fn is_reached(&self, node: u32) -> bool {
        self.numbers.get(node as usize).is_some_and(|number| *number > 0)
    }

    /// Returns the number of nodes that roots reach.
    #[must_use]
    pub fn reached_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the node that would free this one with its own end. Returns `None` if that is only the virtual
    /// root, or if no root reaches the node.
    #[must_use]
    pub fn immediate_dominator(&self, node: u32) -> Option<u32> {
        let number = *self.numbers.get(node as usize)?;
        let above = self.above.get(number as usize)?.checked_sub(1)?;
        self.order.get(above as usize).copied()
    }

    /// Returns the nodes that roots reach, each after its immediate dominator.
    pub fn order(&self) -> impl Iterator<Item = u32> {
        self.order.iter().copied()
    }

    /// Returns the bytes that would be free without each node: its own, and those of all below it in the
    /// tree. By node.
    #[must_use]
    pub fn retained_sizes(&self, size: impl Fn(u32) -> u64) -> Vec<u64> {
        let mut retained = vec![0; self.numbers.len()];
        // A node comes after the one above it.
        for (position, node) in self.order.iter().enumerate().rev() {
            let sum = size(*node).saturating_add(retained[*node as usize]);
            retained[*node as usize] = sum;
            let above = self.above[position + 1] as usize;
            if let Some(above) = above.checked_sub(1) {
                let above = self.order[above] as usize;
                retained[above] = sum.saturating_add(retained[above]);
            }
        }
        retained
    }

    /// Returns for each group of nodes the sum of the retained sizes of those that no other of the group
    /// keeps alive. This is a lower bound of the bytes that would be free without all of them. `group` is
    /// below `groups`.
    #[must_use]
    pub fn retained_by_group(&self, groups: usize, group: impl Fn(u32) -> u32, retained: &[u64]) -> Vec<u64> {
        let mut sums = vec![0_u64; groups];
        let mut depths = vec![0_u32; groups];
        let below = self.child_lists();
        // A number is gone to, or, behind the marker, left.
        let mut todo: Vec<(u32, bool)> =
            below.edge_range(0).map(|edge| (below.target(edge), false)).collect();
        while let Some((number, is_left)) = todo.pop() {
            let node = self.order[number as usize - 1];
            let own = group(node) as usize;
            if is_left {
                depths[own] -= 1;
                continue;
            }
            if depths[own] == 0 {
                sums[own] = sums[own].saturating_add(retained[node as usize]);
            }
            depths[own] += 1;
            todo.push((number, true));
            todo.extend(below.edge_range(number).map(|edge| (below.target(edge), false)));
        }
        sums
    }

    /// Returns the children of each node of the tree, by number.
    fn child_lists(&self) -> EdgeLists {
        let mut upward = EdgeLists::default();
        for (number, above) in (0_u32..).zip(&self.above).skip(1) {
            upward.push(number, *above);
        }
        let count = u32::try_from(self.above.len()).unwrap_or(NO_NODE);
        upward.finish(count);
        upward.to_reversed(count, Some, |_| true)
    }
}

/// A search from a virtual node with number 0.
struct DepthFirst {
    order: Vec<u32>,
    /// By node.
    numbers: Vec<u32>,
    /// By number.
    parents: Vec<u32>,
}

impl DepthFirst {
    fn from_edges(edges: &EdgeLists, roots: &[u32], keeps_alive: impl Fn(usize) -> bool) -> DepthFirst {
        let mut search =
            DepthFirst { order: Vec::new(), numbers: vec![0; edges.node_count() as usize], parents: vec![0] };
        // The number of each node on the way, and its next edge.
        let mut path: Vec<(u32, u32)> = Vec::new();
        for root in roots {
            search.visit_node(*root, 0, edges, &mut path);
            while let Some((number, next)) = path.last_mut() {
                let range = edges.edge_range(search.order[*number as usize - 1]);
                let edge = *next as usize;
                if edge >= range.end {
                    path.pop();
                    continue;
                }
                *next += 1;
                let parent = *number;
                if keeps_alive(edge) {
                    search.visit_node(edges.target(edge), parent, edges, &mut path);
                }
            }
        }
        search
    }

    fn visit_node(&mut self, node: u32, parent: u32, edges: &EdgeLists, path: &mut Vec<(u32, u32)>) {
        let Some(number) = self.numbers.get_mut(node as usize).filter(|number| **number == 0) else { return };
        self.order.push(node);
        *number = u32::try_from(self.order.len()).unwrap_or(NO_NODE);
        self.parents.push(parent);
        path.push((*number, u32::try_from(edges.edge_range(node).start).unwrap_or(NO_NODE)));
    }
}

/// Returns the immediate dominators by number. `parents` come before their children. `sources` are the edges
/// by target, without those of the virtual node, which leads to each root.
fn immediate_dominators(parents: &[u32], sources: &EdgeLists, is_root: &[bool]) -> Vec<u32> {
    let count = u32::try_from(parents.len()).unwrap_or(NO_NODE);
    let mut forest = Forest::from_parents(parents);
    let mut above = parents.to_vec();
    // Nodes by their semidominator, as linked lists.
    let mut first = vec![NO_NODE; parents.len()];
    let mut next = vec![NO_NODE; parents.len()];
    for number in (1..count).rev() {
        let at = number as usize;
        let mut semi = if is_root[at] { 0 } else { number };
        for edge in sources.edge_range(number) {
            let source = sources.target(edge);
            semi = semi.min(if source > number { forest.least_semi(source, number) } else { source });
        }
        forest.set_semi(number, semi);
        next[at] = std::mem::replace(&mut first[semi as usize], number);
        let parent = parents[at];
        let mut waiting = std::mem::replace(&mut first[parent as usize], NO_NODE);
        while waiting != NO_NODE {
            let best = forest.find_best(waiting, number - 1);
            // If its dominator is not known yet, it is that of `best`.
            above[waiting as usize] =
                if forest.semidominator_number(best) < forest.semidominator_number(waiting) {
                    best
                } else {
                    parent
                };
            waiting = next[waiting as usize];
        }
    }
    for number in 1..parents.len() {
        if above[number] != forest.semidominator_number(u32::try_from(number).unwrap_or(NO_NODE)) {
            above[number] = above[above[number] as usize];
        }
    }
    above
}

/// The part of the search tree that was gone through, with shortened ways up.
struct Forest {
    ancestors: Vec<u32>,
    /// The node with the least semidominator on the way up to the ancestor, without that.
    labels: Vec<u32>,
    semis: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn from_parents(parents: &[u32]) -> Forest {
        let own: Vec<u32> = (0..u32::try_from(parents.len()).unwrap_or(NO_NODE)).collect();
        Forest { ancestors: parents.to_vec(), labels: own.clone(), semis: own, path: Vec::new() }
    }

    fn semidominator_number(&self, number: u32) -> u32 {
        self.semis[number as usize]
    }

    fn set_semi(&mut self, number: u32, semi: u32) {
        self.semis[number as usize] = semi;
    }

    /// Returns the least semidominator on the way up from a node, among those with numbers above `last`.
    fn least_semi(&mut self, number: u32, last: u32) -> u32 {
        let best = self.find_best(number, last);
        self.semidominator_number(best)
    }

    /// Returns the node with the least semidominator on the way up from a node, among those with numbers
    /// above `last`.
    fn find_best(&mut self, number: u32, last: u32) -> u32 {
        let mut at = number;
        loop {
            let ancestor = self.ancestors[at as usize];
            if ancestor <= last {
                break;
            }
            self.path.push(at);
            at = ancestor;
        }
        // From the top: each node gets the ancestor and the label of the one above it.
        while let Some(below) = self.path.pop() {
            let upper = self.ancestors[below as usize];
            let (label, own) = (self.labels[upper as usize], self.labels[below as usize]);
            if self.semidominator_number(label) < self.semidominator_number(own) {
                self.labels[below as usize] = label;
            }
            self.ancestors[below as usize] = self.ancestors[upper as usize];
        }
        self.labels[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: u32, roots: &[u32], edges: &[(u32, u32)]) -> Dominators {
        Dominators::from_edges(&EdgeLists::from_pairs(nodes, edges), roots, |_| true)
    }

    #[test]
    fn what_two_ways_lead_to_belongs_to_where_they_part() {
        let tree = of(7, &[0], &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 3), (5, 6)]);
        let above: Vec<_> = (0..7).map(|node| tree.immediate_dominator(node)).collect();
        assert_eq!(above, [None, Some(0), Some(0), Some(0), Some(3), None, None]);
        assert!(tree.is_reached(0) && !tree.is_reached(5) && tree.reached_count() == 5);
        assert_eq!(tree.retained_sizes(|node| 1 << node), [31, 2, 4, 24, 16, 0, 0]);
    }

    #[test]
    fn a_root_is_kept_alive_from_outside_whatever_refers_to_it() {
        let tree = of(3, &[1, 0, 1, 9], &[(0, 1), (1, 2)]);
        assert_eq!([0, 1, 2].map(|node| tree.immediate_dominator(node)), [None, None, Some(1)]);
    }

    #[test]
    fn a_group_counts_what_it_keeps_alive_once() {
        // A list of three nodes of group 0, the second of which has one of group 1.
        let tree = of(4, &[0], &[(0, 1), (1, 2), (1, 3)]);
        let retained = tree.retained_sizes(|_| 10);
        let groups = tree.retained_by_group(2, |node| u32::from(node == 3), &retained);
        assert_eq!(groups, [40, 10]);
    }

    #[test]
    fn a_long_list_takes_no_stack() {
        let edges: Vec<(u32, u32)> = (0..300_000).map(|node| (node, node + 1)).collect();
        let tree = of(300_001, &[0], &edges);
        assert_eq!(tree.retained_sizes(|_| 1)[0], 300_001);
    }
}
