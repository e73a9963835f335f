//! Graphs of memory: what is large, what keeps it alive, and what leaked. Read from the open format
//! `unslide.signal.v1.MemoryGraph`, as a stream, and from the text of Apple's tools as far as that has totals.
//!
//! ```
//! # use unslide_captures_formats::memory_graph::*;
//! # let bytes = MemoryGraphWriter::new(Vec::new(), "Shop", 0)?.finish()?;
//! let mut graph = read_memory_graph(&bytes[..], &MemoryGraphLimits::default())?;
//! graph.name_classes(&|_debug_id| None);
//! let tables = GraphAnalysis::from_graph(&graph).build_tables();
//! # assert_eq!(tables.totals.blocks, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithms;
mod analysis;
mod class_names;
mod classes;
mod compare;
mod graph;
mod input;
mod leaks;
mod members;
mod neighbours;
mod read;
mod retained;
mod tables;
mod tool_text;
mod write;

pub use algorithms::{Components, Dominators, EdgeLists, ShortestPaths};
pub use analysis::GraphAnalysis;
pub use classes::NamedClasses;
pub use compare::{ClassGrowth, MemoryComparison, RegionGrowth, compare_tables};
pub use graph::{
    ClassKind, ClassMember, GraphClass, GraphRegion, GraphRoot, MemoryGraph, NO_CLASS, NodeReference,
    ReferenceKind, RootKind,
};
pub use input::{MemoryFile, read_memory};
pub use leaks::{LeakGroup, leak_groups};
pub use members::format_path;
pub use neighbours::{BlockDetail, BlockSummary, ClassBlocks, NeighbourRow};
pub use read::{MOST_CHUNK_BYTES, MemoryGraphError, MemoryGraphLimits, is_memory_graph, read_memory_graph};
pub use tables::{
    BlockRow, ClassRow, CutLists, LeakRow, MemberLabel, MemorySource, MemoryTables, MemoryTotals, PathStep,
    RegionRow, ZoneRow,
};
pub use tool_text::{MOST_TEXT_BYTES, read_tool_text};
pub use write::{FORMAT, MemoryGraphWriter};
