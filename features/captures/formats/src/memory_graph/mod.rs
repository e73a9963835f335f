//! Graphs of memory: what is large, what keeps it alive, and what leaked. Read from the open format
//! `unslide.signal.v1.MemoryGraph`, as a stream, and from the text of Apple's tools as far as that has totals.
//!
//! A reader calls [`read_memory_graph`], names the classes with [`MemoryGraph::name_classes`], and builds the tables with
//! [`GraphAnalysis::from_graph`] and `build_tables`.

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
mod origins;
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
pub use origins::{BlockOrigin, BlockOrigins, ClassOrigin, OriginLog};
pub use read::{MOST_CHUNK_BYTES, MemoryGraphError, MemoryGraphLimits, is_memory_graph, read_memory_graph};
pub use tables::{
    BlockRow, ClassRow, CutLists, LeakRow, MemberLabel, MemorySource, MemoryTables, MemoryTotals, PathStep,
    RegionRow, ZoneRow,
};
pub use tool_text::{MOST_TEXT_BYTES, read_tool_text};
pub use write::{FORMAT, MemoryGraphWriter};
