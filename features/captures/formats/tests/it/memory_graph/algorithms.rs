//! Dominators, components and shortest ways of random graphs, beside `petgraph` and beside counting.

use petgraph::algo::dominators::simple_fast;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeSet, HashMap, VecDeque};
use unslide_captures_formats::memory_graph::{Components, Dominators, EdgeLists, ShortestPaths};

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

struct RandomGraph {
    nodes: u32,
    edges: Vec<(u32, u32)>,
    roots: Vec<u32>,
}

impl RandomGraph {
    /// Edges anywhere, or mostly to neighbours: long ways with many cycles.
    fn new(seed: u64, nodes: u32, edges: u32) -> RandomGraph {
        let mut numbers = Numbers(seed);
        let near = seed.is_multiple_of(2);
        let edge = |_| {
            let source = numbers.below(nodes);
            let target = match near && numbers.below(8) > 0 {
                true => (source + numbers.below(5)).saturating_sub(2).min(nodes - 1),
                false => numbers.below(nodes),
            };
            (source, target)
        };
        let mut edges: Vec<(u32, u32)> = (0..edges).map(edge).collect();
        edges.sort_unstable();
        let roots = (0..1 + seed % 3).map(|_| numbers.below(nodes)).collect();
        RandomGraph { nodes, edges, roots }
    }

    fn lists(&self) -> EdgeLists {
        EdgeLists::from_pairs(self.nodes, &self.edges)
    }

    /// The same with a node of its own above the roots.
    fn petgraph(&self) -> (DiGraph<(), ()>, NodeIndex) {
        let mut graph = DiGraph::from_edges(&self.edges);
        while graph.node_count() < self.nodes as usize {
            graph.add_node(());
        }
        let above = graph.add_node(());
        for root in &self.roots {
            graph.add_edge(above, NodeIndex::new(*root as usize), ());
        }
        (graph, above)
    }
}

fn graphs() -> impl Iterator<Item = RandomGraph> {
    let small = (0..600).map(|seed| RandomGraph::new(seed, 1 + (seed % 12) as u32, (seed % 31) as u32));
    let middle = (600..660).map(|seed| RandomGraph::new(seed, 300, 200 + 10 * (seed % 60) as u32));
    let large = [(700, 50_000), (701, 50_000), (702, 20_000), (703, 90_000)];
    small.chain(middle).chain(large.map(|(seed, nodes)| RandomGraph::new(seed, nodes, 100_000)))
}

#[test]
fn dominators_are_those_of_petgraph() {
    for random in graphs() {
        let tree = Dominators::from_edges(&random.lists(), &random.roots, |_| true);
        let (graph, above) = random.petgraph();
        let expected = simple_fast(&graph, above);
        for node in 0..random.nodes {
            let at = NodeIndex::new(node as usize);
            let immediate = expected.immediate_dominator(at).filter(|at| *at != above);
            assert_eq!(tree.immediate_dominator(node).map(|node| NodeIndex::new(node as usize)), immediate);
            assert_eq!(tree.is_reached(node), expected.dominators(at).is_some());
        }
    }
}

#[test]
fn components_are_those_of_petgraph() {
    // petgraph recurses along the longest path, which takes more than the stack of a test without optimisation.
    let compared = std::thread::Builder::new().stack_size(256 << 20).spawn(compare_components).unwrap();
    compared.join().unwrap();
}

fn compare_components() {
    for random in graphs() {
        let found = Components::from_edges(&random.lists(), |_| true, |_| true);
        let (graph, above) = random.petgraph();
        let of_petgraph = tarjan_scc(&graph).into_iter().filter(|members| members[0] != above);
        let expected: BTreeSet<BTreeSet<u32>> =
            of_petgraph.map(|members| members.iter().map(|at| at.index() as u32).collect()).collect();
        let members = |component| found.component_nodes(component).iter().copied().collect();
        assert_eq!((0..found.len() as u32).map(members).collect::<BTreeSet<BTreeSet<u32>>>(), expected);
    }
}

#[test]
fn shortest_ways_are_as_long_as_those_of_a_plain_search() {
    for random in graphs() {
        let lists = random.lists();
        let paths = ShortestPaths::from_edges(&lists, &random.roots, |_| true);
        let mut targets: HashMap<u32, Vec<u32>> = HashMap::new();
        for (source, target) in &random.edges {
            targets.entry(*source).or_default().push(*target);
        }
        let mut lengths: HashMap<u32, usize> = random.roots.iter().map(|root| (*root, 1)).collect();
        let mut todo: VecDeque<u32> = random.roots.iter().copied().collect();
        while let Some(node) = todo.pop_front() {
            for target in targets.get(&node).into_iter().flatten() {
                if !lengths.contains_key(target) {
                    lengths.insert(*target, lengths[&node] + 1);
                    todo.push_back(*target);
                }
            }
        }
        // Long ways to each of many nodes would take long.
        for node in (0..random.nodes).step_by(1 + random.nodes as usize / 500) {
            let path = paths.path_to(node, &lists);
            assert_eq!(path.len(), lengths.get(&node).copied().unwrap_or(0));
            for pair in path.windows(2) {
                let edge = pair[1].1.unwrap();
                assert!(lists.edge_range(pair[0].0).contains(&edge) && lists.target(edge) == pair[1].0);
            }
            assert!(path.first().is_none_or(|(root, _)| random.roots.contains(root)));
        }
    }
}

/// The nodes that the roots reach without one of them.
fn reached(random: &RandomGraph, without: Option<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<u32> = random.roots.clone();
    while let Some(node) = todo.pop() {
        if Some(node) != without && found.insert(node) {
            todo.extend(random.edges.iter().filter(|(source, _)| *source == node).map(|(_, target)| *target));
        }
    }
    found
}

#[test]
fn retained_sizes_are_what_is_lost_without_a_node() {
    for seed in 0..400 {
        let random = RandomGraph::new(seed, 2 + (seed % 10) as u32, (seed % 37) as u32);
        let tree = Dominators::from_edges(&random.lists(), &random.roots, |_| true);
        let retained = tree.retained_sizes(|node| 1 << node);
        let all = reached(&random, None);
        for node in 0..random.nodes {
            let kept = reached(&random, Some(node));
            let lost: u64 = all.difference(&kept).map(|node| 1_u64 << node).sum();
            assert_eq!(retained[node as usize], lost, "seed {seed}, node {node}");
        }
        // A group without its other half is a lower bound of what is lost without all of it, and exact for one node.
        let groups = tree.retained_by_group(random.nodes as usize, |node| node, &retained);
        assert_eq!(groups, retained);
    }
}

#[test]
fn edges_that_keep_nothing_alive_are_not_there() {
    let edges = EdgeLists::from_pairs(3, &[(0, 1), (0, 2), (1, 2)]);
    let tree = Dominators::from_edges(&edges, &[0], |edge| edge != 1);
    assert_eq!((tree.immediate_dominator(2), tree.immediate_dominator(1)), (Some(1), Some(0)));
    let paths = ShortestPaths::from_edges(&edges, &[0], |edge| edge != 1);
    assert_eq!(paths.path_to(2, &edges).len(), 3);
}
