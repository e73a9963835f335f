//! Leaks: blocks that no root reaches. Each belongs to a node or a cycle that no other leaked node refers to.
//! Leaks of the same shape are one group.

use super::algorithms::{Components, Dominators};
use super::graph::MemoryGraph;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Classes that are named of a cycle.
const SHOWN_CLASSES: usize = 8;

/// Leaks of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakGroup {
    /// The same for leaks of the same shape in any snapshot: a hash of class names, counts and references.
    pub signature: String,
    /// True for a cycle: objects that keep each other alive.
    pub is_cycle: bool,
    /// The classes at the top, with the number of objects of each, in one leak of the group.
    pub classes: Vec<(String, u64)>,
    /// Leaks of this shape.
    pub leaks: u64,
    /// Their blocks, with all that hangs on them.
    pub blocks: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// A node at the top of the first of them.
    pub example: u32,
}

/// Returns the leaks of a snapshot, the largest group first.
#[must_use]
pub fn leak_groups(graph: &MemoryGraph, dominators: &Dominators) -> Vec<LeakGroup> {
    let is_leaked = |node: u32| !dominators.is_reached(node);
    let components = Components::from_edges(&graph.edges, is_leaked, |edge| graph.keeps_alive(edge));
    let tops = find_tops(graph, &components);
    let mut owners: Vec<bool> = vec![false; graph.node_count()];
    let mut groups: HashMap<String, LeakGroup> = HashMap::new();
    for top in tops {
        let leak = Leak::from_component(graph, &components, top, &mut owners);
        let signature = leak.hash_signature(graph);
        let group = groups.entry(signature).or_insert_with_key(|signature| leak.to_group(graph, signature));
        group.leaks += 1;
        group.blocks += leak.blocks;
        group.bytes = group.bytes.saturating_add(leak.bytes);
        group.example = group.example.min(leak.first);
    }
    let mut groups: Vec<LeakGroup> = groups.into_values().collect();
    groups.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.signature.cmp(&b.signature)));
    groups
}

/// Returns the components that no other one refers to, in the order of their lowest addresses.
fn find_tops(graph: &MemoryGraph, components: &Components) -> Vec<u32> {
    let mut is_top = vec![true; components.len()];
    let mut first = vec![u32::MAX; components.len()];
    for node in 0..graph.edges.node_count() {
        let Some(own) = components.find_component(node) else { continue };
        first[own as usize] = first[own as usize].min(node);
        for edge in graph.edges.edge_range(node).filter(|edge| graph.keeps_alive(*edge)) {
            if let Some(other) =
                components.find_component(graph.edges.target(edge)).filter(|other| *other != own)
            {
                is_top[other as usize] = false;
            }
        }
    }
    let mut tops: Vec<u32> =
        (0_u32..).zip(&is_top).filter(|(_, is_top)| **is_top).map(|(top, _)| top).collect();
    tops.sort_unstable_by_key(|top| first[*top as usize]);
    tops
}

/// A leak: its component at the top, and the components that it reaches and no leak before it does.
struct Leak {
    first: u32,
    is_cycle: bool,
    blocks: u64,
    bytes: u64,
    /// Objects of the component by class, and the references between these.
    classes: BTreeMap<Option<u32>, u64>,
    references: BTreeSet<(Option<u32>, Option<u32>)>,
    /// Blocks below by class.
    below: BTreeMap<Option<u32>, u64>,
}

impl Leak {
    fn from_component(graph: &MemoryGraph, components: &Components, top: u32, owners: &mut [bool]) -> Leak {
        let members = components.component_nodes(top);
        let mut leak = Leak {
            first: members.iter().copied().min().unwrap_or(0),
            is_cycle: members.len() > 1,
            blocks: 0,
            bytes: 0,
            classes: BTreeMap::new(),
            references: BTreeSet::new(),
            below: BTreeMap::new(),
        };
        let mut todo: Vec<u32> = members.to_vec();
        members.iter().for_each(|member| owners[*member as usize] = true);
        while let Some(node) = todo.pop() {
            leak.blocks += 1;
            leak.bytes = leak.bytes.saturating_add(graph.node_size(node));
            let is_member = components.find_component(node) == Some(top);
            let class = graph.node_class(node);
            let counts = if is_member { &mut leak.classes } else { &mut leak.below };
            *counts.entry(class).or_default() += 1;
            for edge in graph.edges.edge_range(node).filter(|edge| graph.keeps_alive(*edge)) {
                let target = graph.edges.target(edge);
                // A node that a root reaches belongs to no leak.
                let Some(component) = components.find_component(target) else { continue };
                if is_member && component == top {
                    leak.is_cycle = true;
                    leak.references.insert((class, graph.node_class(target)));
                }
                if !std::mem::replace(&mut owners[target as usize], true) {
                    todo.push(target);
                }
            }
        }
        leak
    }

    /// Returns a hash of names, so that leaks of two snapshots can be compared.
    fn hash_signature(&self, graph: &MemoryGraph) -> String {
        let name = |class: Option<u32>| class.map_or_else(String::new, |class| graph.name_of_class(class));
        let references: BTreeSet<(String, String)> =
            self.references.iter().map(|(from, to)| (name(*from), name(*to))).collect();
        let mut hash = Sha256::new();
        for counts in [&self.classes, &self.below] {
            for (name, count) in &counted_by_name(counts, name) {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name);
                hash.update(count.to_le_bytes());
            }
            hash.update(u64::MAX.to_le_bytes());
        }
        for name in references.iter().flat_map(|(from, to)| [from, to]) {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the group of this leak, without one in it.
    fn to_group(&self, graph: &MemoryGraph, signature: &str) -> LeakGroup {
        let name = |class: Option<u32>| {
            class.map_or_else(|| super::graph::NO_CLASS.to_owned(), |class| graph.name_of_class(class))
        };
        let mut classes: Vec<(String, u64)> = counted_by_name(&self.classes, name).into_iter().collect();
        classes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        classes.truncate(SHOWN_CLASSES);
        LeakGroup {
            signature: signature.to_owned(),
            is_cycle: self.is_cycle,
            classes,
            leaks: 0,
            blocks: 0,
            bytes: 0,
            example: self.first,
        }
    }
}

/// Returns blocks by the name of their class. Classes of one name are one, for any kinds, as in the list of
/// classes.
fn counted_by_name(
    counts: &BTreeMap<Option<u32>, u64>,
    name: impl Fn(Option<u32>) -> String,
) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    for (class, count) in counts {
        *names.entry(name(*class)).or_insert(0) += count;
    }
    names
}
