//! Any bytes as a graph of memory or as the text of a tool: read or refused, and what is said of it adds up.

use unslide_captures_formats::memory_graph::{
    GraphAnalysis, MemoryFile, MemoryGraphLimits, compare_tables, read_memory,
};

pub fn check(data: &[u8]) {
    let limits = MemoryGraphLimits { nodes: 10_000, references: 20_000 };
    let tables = match read_memory(data, &limits) {
        Err(error) => return assert!(!error.to_string().is_empty()),
        Ok(MemoryFile::Text(tables)) => {
            let _ = tables.build_tree();
            *tables
        }
        Ok(MemoryFile::Graph(mut graph)) => {
            let named = graph.name_classes(&|_| None);
            assert_eq!((named.named, named.without_symbol), (0, 0));
            let analysis = GraphAnalysis::from_graph(&graph);
            let tables = analysis.build_tables();
            let sum: u64 = tables.classes.iter().map(|row| row.bytes).sum();
            assert_eq!(sum, tables.totals.bytes);
            assert_eq!(analysis.retained_tree().total().weight, tables.totals.bytes);
            let reached = analysis.dominators().reached_count() as u64;
            assert_eq!(reached + tables.totals.leaked_blocks, tables.totals.blocks);
            // What stands right below the roots retains all that they reach.
            let top: u64 = (0..graph.edges().node_count())
                .filter(|node| analysis.dominators().immediate_dominator(*node).is_none())
                .map(|node| analysis.retained_bytes(node))
                .sum();
            assert_eq!(top + tables.totals.leaked_bytes, tables.totals.bytes);
            for row in &tables.largest {
                assert!(!row.path.is_empty() && row.retained >= row.bytes);
            }
            tables
        }
    };
    let same = compare_tables(&tables, &tables);
    assert!(same.classes.is_empty() && same.regions.is_empty() && same.leaks.is_empty());
}
