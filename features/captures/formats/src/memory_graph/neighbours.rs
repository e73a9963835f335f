//! One block with its neighbours: what keeps it alive, what refers to it, and what it keeps alive.

use super::analysis::{GraphAnalysis, format_address, snake_case};
use super::graph::NO_CLASS;
use super::tables::{BlockRow, MemberLabel, shorten_list_name};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// The most rows of each list of a block.
const MOST_NEIGHBOURS: usize = 100;

/// A block with its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDetail {
    #[serde(flatten)]
    pub block: BlockRow,
    /// References to it, at most 100: those from outside of the heap first, then by address.
    pub referrers: Vec<NeighbourRow>,
    /// All references to it.
    pub referrer_count: u64,
    /// References from it to other blocks, at most 100, in the order of the file.
    pub references: Vec<NeighbourRow>,
    /// All references from it.
    pub reference_count: u64,
    /// Blocks that only it keeps alive directly, at most 100, those that retain most first.
    pub keeps: Vec<BlockSummary>,
    /// How many these are.
    pub keeps_count: u64,
}

/// A reference between a block and another, or from outside of the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourRow {
    /// The address of the other block, or of the reference if that is outside of the heap.
    pub address: String,
    /// The class of the other block; empty outside of the heap.
    pub class: String,
    /// The kind of the reference, or the place outside of the heap.
    pub by: String,
    /// The offset of the reference in the block that refers, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
    /// The member of the block that refers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberLabel>,
    /// False for a reference that keeps nothing alive.
    pub keeps_alive: bool,
}

/// A block in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSummary {
    pub address: String,
    pub class: String,
    pub bytes: u64,
    /// The bytes that would be free without it.
    pub retained: u64,
}

/// The blocks of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBlocks {
    pub class: String,
    /// How many blocks it has.
    pub count: u64,
    /// At most 100 of them, those that retain most first.
    pub blocks: Vec<BlockSummary>,
}

impl BlockDetail {
    /// Cuts long names, which files may have.
    pub fn shorten_names(&mut self) {
        self.block.shorten_names();
        for row in self.referrers.iter_mut().chain(&mut self.references) {
            row.member.iter_mut().for_each(MemberLabel::shorten_names);
            shorten_list_name(&mut row.class);
            shorten_list_name(&mut row.by);
        }
        self.keeps.iter_mut().for_each(|row| shorten_list_name(&mut row.class));
    }
}

impl ClassBlocks {
    /// Cuts long names, which files may have.
    pub fn shorten_names(&mut self) {
        shorten_list_name(&mut self.class);
        self.blocks.iter_mut().for_each(|row| shorten_list_name(&mut row.class));
    }
}

impl GraphAnalysis<'_> {
    /// Returns a block with its neighbours.
    #[must_use]
    pub fn describe_neighbours(&self, node: u32) -> BlockDetail {
        let graph = self.graph();
        let mut referrers = Vec::new();
        let first = graph.roots.partition_point(|root| root.node < node);
        let roots: Vec<_> = graph.roots[first..].iter().take_while(|root| root.node == node).collect();
        let mut referrer_count = roots.len() as u64;
        for root in roots.into_iter().take(MOST_NEIGHBOURS) {
            referrers.push(NeighbourRow {
                address: format_address(root.address),
                class: String::new(),
                by: self.describe_root_place(root),
                offset: None,
                member: None,
                keeps_alive: true,
            });
        }
        for source in 0..graph.edges.node_count() {
            for edge in graph.edges.edge_range(source).filter(|edge| graph.edges.target(*edge) == node) {
                referrer_count += 1;
                if referrers.len() < MOST_NEIGHBOURS {
                    referrers.push(self.describe_reference(source, edge, source));
                }
            }
        }
        let edges = graph.edges.edge_range(node);
        let reference_count = edges.len() as u64;
        let references = edges
            .take(MOST_NEIGHBOURS)
            .map(|edge| self.describe_reference(node, edge, graph.edges.target(edge)))
            .collect();
        let is_kept = |other: &u32| self.dominators().immediate_dominator(*other) == Some(node);
        let kept: Vec<u32> = (0..graph.edges.node_count()).filter(is_kept).collect();
        let (keeps_count, keeps) = (kept.len() as u64, self.list_blocks(kept));
        let block = self.describe_block(node);
        BlockDetail { block, referrers, referrer_count, references, reference_count, keeps, keeps_count }
    }

    /// Describes a reference of the node `source` for the list of one of its ends; `other` is the other end.
    fn describe_reference(&self, source: u32, edge: usize, other: u32) -> NeighbourRow {
        let graph = self.graph();
        let reference = graph.edge_reference(edge);
        NeighbourRow {
            address: format_address(graph.node_address(other)),
            class: graph.class_name(other),
            by: snake_case(&reference.kind()),
            offset: reference.offset(),
            member: graph.member_at(source, reference),
            keeps_alive: reference.kind().keeps_alive(),
        }
    }

    /// Returns the blocks of a class, which is given by the name that people see.
    #[must_use]
    pub fn blocks_of_class(&self, name: &str) -> ClassBlocks {
        let graph = self.graph();
        let numbers = 0..u32::try_from(graph.classes.len()).unwrap_or(u32::MAX);
        let named: Vec<bool> = numbers.map(|number| graph.name_of_class(number) == name).collect();
        let is_named = |node: &u32| match graph.node_class(*node) {
            Some(class) => named.get(class as usize).copied().unwrap_or(false),
            None => name == NO_CLASS,
        };
        let nodes: Vec<u32> = (0..graph.edges.node_count()).filter(is_named).collect();
        ClassBlocks { class: name.to_owned(), count: nodes.len() as u64, blocks: self.list_blocks(nodes) }
    }

    /// Lists blocks, those that retain most first, then the largest, then by address.
    fn list_blocks(&self, mut nodes: Vec<u32>) -> Vec<BlockSummary> {
        let graph = self.graph();
        let by_size = |node: &u32| (Reverse((self.retained_bytes(*node), graph.node_size(*node))), *node);
        if nodes.len() > MOST_NEIGHBOURS {
            nodes.select_nth_unstable_by_key(MOST_NEIGHBOURS, by_size);
            nodes.truncate(MOST_NEIGHBOURS);
        }
        nodes.sort_unstable_by_key(by_size);
        let summarise = |node| BlockSummary {
            address: format_address(graph.node_address(node)),
            class: graph.class_name(node),
            bytes: graph.node_size(node),
            retained: self.retained_bytes(node),
        };
        nodes.into_iter().map(summarise).collect()
    }
}
