//! What a graph of memory costs: bytes of its file, memory and time to read and to analyse it, and its dominators beside
//! those of `petgraph`.

use crate::offline::core::spent;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unslide_captures_formats::memory_graph::{
    ClassKind, Dominators, GraphAnalysis, MemoryGraph, MemoryGraphLimits, MemoryGraphWriter, ReferenceKind,
    RootKind, read_memory_graph,
};

/// References of each node.
const DEGREE: u32 = 4;
const CLASSES: u32 = 1_000;

/// Prints the figures of a middling graph beside `petgraph`'s, and those of a large one.
pub fn print(full: bool) {
    let (middling, large) = if full { (5_000_000, 100_000_000) } else { (20_000, 40_000) };
    println!("\nGraphs of memory, on one core");
    let file = ExampleFile::write(middling);
    figures(&file, middling);
    beside_petgraph(&read(&file.path));
    drop(file);
    figures(&ExampleFile::write(large), large);
}

fn figures(file: &ExampleFile, edges: u32) {
    let bytes = fs::metadata(&file.path).expect("it was written").len();
    reset_peak();
    let before = resident("VmRSS");
    let (graph, reading) = timed(|| read(&file.path));
    let held = resident("VmRSS").saturating_sub(before);
    let (tables, analysing) = timed(|| black_box(GraphAnalysis::from_graph(&graph)).build_tables());
    let peak = resident("VmHWM").saturating_sub(before);
    let each = |bytes: u64| bytes as f64 / f64::from(edges);
    println!(
        "  {edges} references between {} blocks, {} of them leaked:",
        graph.node_count(),
        tables.totals.leaked_blocks
    );
    println!("    file {:.1} bytes a reference; read in {reading:.1?}", each(bytes));
    println!(
        "    analysed in {analysing:.1?}: {:.0} ns a reference",
        analysing.as_nanos() as f64 / f64::from(edges)
    );
    println!(
        "    memory {:.0} MB held and {:.0} MB at the peak: {:.1} and {:.1} bytes a reference",
        held as f64 / 1e6,
        peak as f64 / 1e6,
        each(held),
        each(peak)
    );
}

fn beside_petgraph(graph: &MemoryGraph) {
    let edges = graph.edges();
    reset_peak();
    let before = resident("VmRSS");
    let (tree, ours) = timed(|| Dominators::from_edges(edges, &[0], |_| true));
    let our_peak = resident("VmHWM").saturating_sub(before);
    let pairs = (0..edges.node_count())
        .flat_map(|node| edges.edge_range(node).map(move |edge| (node, edges.target(edge))));
    let theirs_graph: DiGraph<(), ()> = DiGraph::from_edges(pairs);
    reset_peak();
    let before = resident("VmRSS");
    let (expected, theirs) = timed(|| simple_fast(&theirs_graph, NodeIndex::new(0)));
    let their_peak = resident("VmHWM").saturating_sub(before);
    for node in (0..edges.node_count()).step_by(97) {
        let immediate =
            expected.immediate_dominator(NodeIndex::new(node as usize)).map(|at| at.index() as u32);
        assert_eq!(tree.immediate_dominator(node), immediate);
    }
    println!(
        "  dominators of {} references: {ours:.2?} and {:.0} MB; petgraph {theirs:.2?} and {:.0} MB: {:.1} times the time",
        edges.len(),
        our_peak as f64 / 1e6,
        their_peak as f64 / 1e6,
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn read(path: &Path) -> MemoryGraph {
    let input = BufReader::with_capacity(1 << 20, File::open(path).expect("it was written"));
    read_memory_graph(input, &MemoryGraphLimits::default()).expect("a sound graph")
}

/// What the work gives, and its CPU time.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let mut done = None;
    let time = spent(|| done = Some(work()));
    (done.expect("it was run"), time)
}

/// A figure of this process, in bytes; 0 where the system has none.
fn resident(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kilobytes| kilobytes * 1024)
}

/// The peak begins anew with what is resident now.
fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// A file that is deleted at the end.
struct ExampleFile {
    path: PathBuf,
}

impl Drop for ExampleFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl ExampleFile {
    /// A tree with references across, most of them to near blocks. The last hundredth is leaked, as pairs.
    fn write(edges: u32) -> ExampleFile {
        let path = std::env::temp_dir().join(format!("unslide-bench-{}-{edges}.memory", std::process::id()));
        let file = ExampleFile { path };
        let output = BufWriter::with_capacity(1 << 20, File::create(&file.path).expect("a folder for files"));
        let mut writer = MemoryGraphWriter::new(output, "Shop", 0).expect("a disk with room");
        let nodes = edges / DEGREE;
        for class in 0..CLASSES {
            writer.add_class(&format!("Class{class}"), ClassKind::Swift, 0).expect("a disk with room");
        }
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |end: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) % u64::from(end.max(1))) as u32
        };
        let mut address = 0x6000_0000_0000;
        for _ in 0..nodes {
            let size = 16 * (1 + u64::from(below(8)));
            writer.add_node(address, size, Some(below(CLASSES)), None).expect("a disk with room");
            address += size;
        }
        let live = nodes - nodes / 100;
        for source in 0..nodes {
            for position in 0..DEGREE {
                let target = match (source < live, position) {
                    (false, _) => (source ^ 1).clamp(live, nodes - 1),
                    (true, 0 | 1) if 2 * source + position + 1 < live => 2 * source + position + 1,
                    (true, 2) => (source + below(64)).min(live - 1),
                    (true, _) => below(live),
                };
                writer
                    .add_reference(source, target, ReferenceKind::Strong, 8 * position)
                    .expect("a disk with room");
            }
        }
        writer.add_root(0, RootKind::Global, 0).expect("a disk with room");
        writer.finish().expect("a disk with room");
        file
    }
}
