//! The functions that created the blocks of a graph, by a log of allocations of the same process.

use super::graph::{MemoryGraph, NO_CLASS};
use crate::malloc::{
    LiveBlock, LiveSet, MemoryKind, StackMemory, StackTable, StackTotals, StackTree, find_stack_nodes,
    stack_tree,
};
use crate::profile::ProfileImage;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;
use unslide_calltree::Amount;
use unslide_model::DebugId;
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The blocks of one class that one function of the app created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassOrigin {
    pub class: String,
    /// The innermost function of the app, or of all.
    pub function: String,
    pub blocks: u64,
    pub bytes: u64,
}

/// The record that created a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockOrigin {
    /// The number of the record in the log, from 1.
    pub record: u64,
    /// The stack's number in the table.
    pub stack: u64,
    /// The number of the thread, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The innermost function of the app, or of all.
    pub function: String,
    /// The functions of the stack, the innermost first.
    pub functions: Vec<String>,
}

/// The log of allocations of a graph's process, at the moment of the graph.
pub struct OriginLog<'l> {
    pub live: &'l LiveSet,
    pub table: StackTable<'l>,
    /// The binaries that addresses lie in.
    pub images: &'l [ProfileImage],
}

/// The stacks that created the blocks of a graph.
pub struct BlockOrigins<'g> {
    graph: &'g MemoryGraph,
    table: StackTable<'g>,
    live: &'g LiveSet,
    tree: StackTree,
    /// Blocks that the log does not have.
    pub unknown_blocks: u64,
}

impl<'g> BlockOrigins<'g> {
    /// Finds the blocks of a graph in a log.
    pub fn from_log<'s>(
        graph: &'g MemoryGraph,
        log: &OriginLog<'g>,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> BlockOrigins<'g> {
        let (mut totals, mut unknown_blocks) = (StackTotals::new(), 0);
        for node in list_nodes(graph) {
            match find_block(graph, log.live, node) {
                Some(block) => {
                    *totals.entry(stack_of(block)).or_default() += single_block(graph.node_size(node));
                }
                None => unknown_blocks += 1,
            }
        }
        let tree = stack_tree(&totals, &log.table, log.images, symbols);
        BlockOrigins { graph, table: log.table, live: log.live, tree, unknown_blocks }
    }

    /// Returns the images with frames that have no names because symbols are missing.
    #[must_use]
    pub fn lacking(&self) -> &[ImageOutcome] {
        &self.tree.lacking
    }

    /// Returns the record that created a block. Returns `None` if the log does not have it.
    #[must_use]
    pub fn find_origin(&self, node: u32, most_functions: usize) -> Option<BlockOrigin> {
        let block = find_block(self.graph, self.live, node)?;
        let nodes = find_stack_nodes(stack_of(block), &[&self.tree]);
        Some(BlockOrigin {
            record: block.born + 1,
            stack: block.stack,
            thread: self.table.walk_stack(block.stack).thread.map(|thread| format!("{thread:#x}")),
            function: nodes.describe_allocator(),
            functions: nodes.describe_functions(most_functions),
        })
    }

    /// Returns the classes with the functions that created their blocks, those with most bytes first.
    #[must_use]
    pub fn list_classes(&self) -> Vec<ClassOrigin> {
        let mut functions: HashMap<StackMemory, Rc<str>> = HashMap::new();
        let mut sums: HashMap<(Option<u32>, Rc<str>), Amount> = HashMap::new();
        for node in list_nodes(self.graph) {
            let Some(block) = find_block(self.graph, self.live, node) else { continue };
            let of = stack_of(block);
            let describe = || find_stack_nodes(of, &[&self.tree]).describe_allocator().into();
            let function = functions.entry(of).or_insert_with(describe).clone();
            let key = (self.graph.node_class(node), function);
            *sums.entry(key).or_default() += single_block(self.graph.node_size(node));
        }
        let rows = sums.into_iter().map(|((class, function), held)| ClassOrigin {
            class: class.map_or_else(|| NO_CLASS.to_owned(), |class| self.graph.name_of_class(class)),
            function: function.to_string(),
            blocks: held.count,
            bytes: held.weight,
        });
        let mut rows: Vec<ClassOrigin> = rows.collect();
        rows.sort_unstable_by(|a, b| {
            let key = |row: &ClassOrigin| (Reverse(row.bytes), Reverse(row.blocks));
            key(a).cmp(&key(b)).then_with(|| (&a.class, &a.function).cmp(&(&b.class, &b.function)))
        });
        rows
    }
}

fn list_nodes(graph: &MemoryGraph) -> std::ops::Range<u32> {
    0..u32::try_from(graph.node_count()).unwrap_or(u32::MAX)
}

fn stack_of(block: &LiveBlock) -> StackMemory {
    StackMemory { stack: block.stack, kind: MemoryKind::Heap }
}

fn single_block(bytes: u64) -> Amount {
    Amount { count: 1, weight: bytes }
}

/// Returns the block of the log at the address of a node. A larger one is of another moment: malloc rounds sizes up.
fn find_block<'l>(graph: &MemoryGraph, live: &'l LiveSet, node: u32) -> Option<&'l LiveBlock> {
    live.heap_block(graph.node_address(node)).filter(|block| block.size <= graph.node_size(node))
}

#[cfg(test)]
mod tests {
    use super::super::graph::ClassKind;
    use super::super::read::{MemoryGraphLimits, read_memory_graph};
    use super::super::write::MemoryGraphWriter;
    use super::*;
    use crate::malloc::{EventLayout, EventLog, Replay, SlotForm};

    /// A graph with two blocks of a class and one of another, at these addresses.
    fn graph() -> MemoryGraph {
        let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
        writer.add_class("Cart", ClassKind::Swift, 0).unwrap();
        writer.add_class("Item", ClassKind::Swift, 0).unwrap();
        for (address, size, class) in
            [(0x1000, 64, Some(0)), (0x2000, 32, Some(1)), (0x3000, 48, Some(0)), (0x4000, 16, None)]
        {
            writer.add_node(address, size, class, None).unwrap();
        }
        read_memory_graph(writer.finish().unwrap().as_slice(), &MemoryGraphLimits::default()).unwrap()
    }

    fn plain(slots: &[(u64, u64)]) -> Vec<u8> {
        slots.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect()
    }

    fn record(kind: u64, address: u64, size: u64, stack: u64) -> Vec<u8> {
        [kind, stack, size, address].map(u64::to_le_bytes).concat()
    }

    #[test]
    fn each_class_has_the_functions_that_created_its_blocks() {
        let graph = graph();
        let table = plain(&[(0, 0), (0x104, u64::MAX), (0x9010, 1), (0x9020, 2)]);
        let events = [
            record(2, 0x1000, 60, 3),
            record(2, 0x2000, 32, 2),
            record(2, 0x3000, 48, 3),
            record(4, 0x3000, 0, 3),
            record(2, 0x3000, 40, 2),
            // Of another moment: it is larger than the block of the graph.
            record(2, 0x4000, 99, 2),
        ];
        let events = events.concat();
        let mut replay = Replay::new(EventLog::new(&events, EventLayout::Enumerator)).unwrap();
        replay.advance_to(usize::MAX);
        let image = ProfileImage {
            name: "Shop".to_owned(),
            path: "/Applications/Shop".to_owned(),
            start: 0x9000,
            end: Some(0xa000),
            ..ProfileImage::default()
        };
        let images = [image];
        let log = OriginLog {
            live: replay.live(),
            table: StackTable::new(&table, SlotForm::Plain),
            images: &images,
        };
        let origins = BlockOrigins::from_log(&graph, &log, &|_| None);
        assert_eq!(origins.unknown_blocks, 1);
        let classes = origins.list_classes();
        let shown: Vec<_> = classes
            .iter()
            .map(|row| (row.class.as_str(), row.function.as_str(), row.blocks, row.bytes))
            .collect();
        assert_eq!(
            shown,
            [
                ("Cart", "Shop + 32 (Shop)", 1, 64),
                ("Cart", "Shop + 16 (Shop)", 1, 48),
                ("Item", "Shop + 16 (Shop)", 1, 32)
            ]
        );
        let origin = origins.find_origin(0, 10).unwrap();
        assert_eq!((origin.record, origin.stack, origin.thread.as_deref()), (1, 3, Some("0x103")));
        assert_eq!(origin.functions, ["Shop + 32 (Shop)", "Shop + 16 (Shop)"]);
        assert_eq!(
            origins.find_origin(2, 10).map(|origin| origin.record),
            Some(5),
            "the block before it was freed"
        );
        assert_eq!(origins.find_origin(3, 10), None);
    }
}
