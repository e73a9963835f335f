//! Captures: files that were recorded on a device and are analysed as a whole. Each kind has an arm in
//! [`analyse`] that reads its files and gives a call tree.

mod compare;
mod form;
#[cfg(test)]
mod log;

pub use compare::{CaptureComparison, ComparedMemory, NotComparable, PathGrowth};
pub use form::{CaptureForm, CaptureKind, CapturePart, MallocLayout};

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::DebugId;
use unslide_proto::stacks::{self, StackSetError};
use unslide_signals::calltree::{CallTree, CutTree};
use unslide_signals::malloc::{
    EventLayout, EventLog, LogAnswer, LogQuestion, MemorySummary, SlotForm, StackTable, StackTableError,
};
use unslide_signals::memory_graph::{
    GraphAnalysis, MemoryFile, MemoryGraphError, MemoryGraphLimits, MemoryTables, NamedClasses, read_memory,
};
use unslide_signals::profile::{Profile, ProfileError, ProfileImage, read_images, read_profile};
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The most bytes of the JSON of an analysis.
pub const MOST_ANALYSIS_BYTES: usize = 4 << 20;
/// The most images for which a capture asks for symbols.
const MOST_WANTED: usize = 2_000;
/// The most images without symbols that are named.
const MOST_LACKING: usize = 200;
/// The most rows of a list of stacks.
const MOST_ROWS: usize = 100;
/// The most rows of a list of a graph of memory that another one is compared by, and the most bytes of its names.
const MOST_COMPARED_ROWS: usize = 1_000;
const MOST_COMPARED_TEXT: usize = 128 << 10;
/// The most functions of a row.
const MOST_FUNCTIONS: usize = 24;

/// The remark about addresses that have no names because there are too many.
const LEFT_OUT: &str = "addresses have no names: the functions at all of them are too many";

/// The result of analysing a capture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureAnalysis {
    /// The heaviest nodes of the call tree; of a log, that of the heap.
    pub tree: CutTree,
    /// The heaviest nodes of the call tree of a log's virtual memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_tree: Option<CutTree>,
    /// The parts that were skipped.
    pub skipped: Vec<SkippedPart>,
    /// The images with frames that have no names because symbols are missing: the app's first, those with the
    /// most frames before others.
    pub lacking: Vec<LackingImage>,
    /// The memory of a log of allocations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySummary>,
    /// The tables of a memory graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<MemoryTables>,
}

/// A part of a capture that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPart {
    /// How many.
    pub count: u64,
    /// Of what, and why: words that follow the number.
    pub what: String,
}

/// An image with frames that have no names because symbols are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LackingImage {
    /// Its file name.
    pub name: String,
    /// Its debug id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_id: Option<DebugId>,
    /// The outcome of the search for its symbols, such as `missing`.
    pub status: String,
    /// Frames that refer to it.
    pub frames: u64,
    /// True for an image of the operating system.
    pub system: bool,
}

/// An image of which a capture can use the symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaptureImage {
    /// Its debug id.
    pub debug_id: DebugId,
    /// True for an image of the operating system.
    pub system: bool,
}

/// An analysis, and the symbols that it asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureReading {
    /// The analysis.
    pub analysis: CaptureAnalysis,
    /// The images of which it can use the symbols, the app's first, whether they were there or not.
    pub wanted: Vec<CaptureImage>,
}

/// Why a capture cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It is not of the form that its sender named.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// It is no set of stacks.
    #[error(transparent)]
    StackSet(#[from] StackSetError),
    /// It is no graph of memory.
    #[error("{0}")]
    MemoryGraph(String),
    /// The images of a log are in no known form.
    #[error("images: {0}")]
    Images(ProfileError),
    /// The stacks of a log are no table in the form that its sender named.
    #[error("stacks: {0}")]
    Stacks(#[from] StackTableError),
    /// The events of a log have no order.
    #[error("{0}; leave out at and from")]
    Sorted(#[from] unslide_signals::malloc::SortedByAddress),
    /// A log is to be looked at beyond its end.
    #[error("at, from: the log has {0} events")]
    BeyondEnd(usize),
}

impl From<MemoryGraphError> for CaptureError {
    fn from(error: MemoryGraphError) -> CaptureError {
        CaptureError::MemoryGraph(error.to_string())
    }
}

/// Analyses a capture. `file` returns the bytes of a part by its name, and none for a part that was not sent.
///
/// # Errors
/// Returns a [`CaptureError`] if the capture is not of the form that its sender named.
pub fn analyse<'f, 's>(
    form: &CaptureForm,
    file: &dyn Fn(&str) -> &'f [u8],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Result<CaptureReading, CaptureError> {
    let asked = RefCell::new(BTreeSet::new());
    let noted = |id: &DebugId| {
        asked.borrow_mut().insert(*id);
        symbols(id)
    };
    let (analysis, images) = match form {
        CaptureForm::Profile => profile(&read_profile(file("file"))?, &noted),
        CaptureForm::StackSet => profile(&Profile::from(&stacks::read(file("file"))?), &noted),
        CaptureForm::MemoryGraph => memory_graph(file("file"), &noted)?,
        CaptureForm::MallocLog { layout, lite, at, from } => {
            malloc_log(*layout, *lite, (*at, *from), file, &noted)?
        }
    };
    let wanted = wanted(&images, &asked.into_inner(), MOST_WANTED);
    Ok(CaptureReading { analysis, wanted })
}

/// Returns the requested ones of the images, the app's first, at most `most`.
fn wanted(images: &[ProfileImage], asked: &BTreeSet<DebugId>, most: usize) -> Vec<CaptureImage> {
    let of_asked = |image: &ProfileImage| {
        let debug_id = image.debug_id.filter(|id| asked.contains(id))?;
        Some(CaptureImage { debug_id, system: image.is_system() || image.kernel })
    };
    // Each debug id once. It is the system's if all of its images are.
    let mut wanted: BTreeMap<DebugId, bool> = BTreeMap::new();
    for image in images.iter().filter_map(of_asked) {
        *wanted.entry(image.debug_id).or_insert(true) &= image.system;
    }
    let wanted = wanted.into_iter().map(|(debug_id, system)| CaptureImage { debug_id, system });
    let mut wanted: Vec<CaptureImage> = wanted.collect();
    // Symbols find room in this order.
    wanted.sort_by_key(|image| image.system);
    wanted.truncate(most);
    wanted
}

fn profile<'s>(
    profile: &Profile,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> (CaptureAnalysis, Vec<ProfileImage>) {
    let symbolicated = profile.symbolicate(symbols);
    let skipped = [
        (profile.skipped, "lines or frames could not be read"),
        (symbolicated.left_out, LEFT_OUT),
        cut(symbolicated.tree.cut()),
    ];
    let analysis = CaptureAnalysis {
        tree: CutTree::of(&symbolicated.tree),
        vm_tree: None,
        skipped: noted(skipped),
        lacking: lacking(symbolicated.lacking),
        memory: None,
        graph: None,
    };
    (analysis, profile.images.clone())
}

fn memory_graph<'s>(
    bytes: &[u8],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Result<(CaptureAnalysis, Vec<ProfileImage>), CaptureError> {
    let mut graph = match read_memory(bytes, &MemoryGraphLimits::default()) {
        Err(MemoryGraphError::Opaque) => return Ok((opaque(), Vec::new())),
        Err(error) => return Err(error.into()),
        Ok(MemoryFile::Graph(graph)) => graph,
        Ok(MemoryFile::Text(tables)) => {
            let tree = tables.tree();
            return Ok((memory_answer(*tables, &tree, NamedClasses::default()), Vec::new()));
        }
    };
    let named = graph.name_classes(symbols);
    let (tables, tree) = {
        let analysis = GraphAnalysis::of(&graph);
        (analysis.tables(), analysis.retained_tree())
    };
    Ok((memory_answer(tables, &tree, named), graph.images))
}

/// Returns the analysis of a `.memgraph`, which is stored unread.
fn opaque() -> CaptureAnalysis {
    let what = "file is a .memgraph, whose layout Apple does not publish: it is stored unchanged and opaque; send the \
                text that heap, leaks, vmmap or footprint prints for it, too";
    CaptureAnalysis {
        tree: CutTree::of(&CallTree::new("bytes")),
        vm_tree: None,
        skipped: noted([(1, what)]),
        lacking: Vec::new(),
        memory: None,
        graph: None,
    }
}

fn memory_answer(mut tables: MemoryTables, tree: &CallTree, named: NamedClasses) -> CaptureAnalysis {
    tables.shorten_names();
    tables.truncate_lists(MOST_ROWS, MOST_COMPARED_ROWS, MOST_COMPARED_TEXT);
    let skipped = [
        (tables.skipped, "lines could not be read"),
        (tables.left_out, "rows of lists are left out"),
        (named.without_symbol, "classes have no symbol in the symbols of their image"),
        (tree.cut(), "blocks are too many or too deep for the tree"),
    ];
    CaptureAnalysis {
        tree: CutTree::of(tree),
        vm_tree: None,
        skipped: noted(skipped),
        lacking: lacking(named.lacking),
        memory: None,
        graph: Some(tables),
    }
}

fn malloc_log<'f, 's>(
    layout: MallocLayout,
    lite: bool,
    (at, from): (Option<u64>, Option<u64>),
    file: &dyn Fn(&str) -> &'f [u8],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Result<(CaptureAnalysis, Vec<ProfileImage>), CaptureError> {
    let images = match file("images") {
        [] => Vec::new(),
        bytes => read_images(bytes).map_err(CaptureError::Images)?,
    };
    let log = EventLog::new(file("events"), event_layout(layout));
    let [at, from] =
        [at, from].map(|events| events.map(|events| usize::try_from(events).unwrap_or(usize::MAX)));
    if at.max(from).is_some_and(|events| events > log.len()) {
        return Err(CaptureError::BeyondEnd(log.len()));
    }
    let slots = if lite { SlotForm::Counted } else { SlotForm::Plain };
    let question = LogQuestion {
        log,
        table: StackTable::read(file("stacks"), slots)?,
        images: &images,
        at,
        from,
        history: true,
        most_rows: MOST_ROWS,
        most_functions: MOST_FUNCTIONS,
    };
    let LogAnswer { memory, tree, .. } = question.answer(symbols)?;
    let counts = memory.counts;
    let skipped = [
        (counts.damaged, "damaged records were skipped"),
        (counts.empty, "empty records were skipped"),
        (counts.other, "records do not concern memory"),
        (counts.out_of_order, "records of the sorted log are out of the order of addresses"),
        (counts.unknown_deallocations, "deallocations are of memory that is not in the log"),
        (counts.replaced, "allocations are at addresses that the log does not free before"),
        (memory.broken_stacks, "stacks are incomplete in the table"),
        (memory.trailing_bytes as u64, "bytes at the end are not a whole record"),
        (memory.left_out, LEFT_OUT),
        cut(tree.heap.cut() + tree.vm.cut()),
    ];
    let analysis = CaptureAnalysis {
        tree: CutTree::of(&tree.heap),
        vm_tree: Some(CutTree::of(&tree.vm)).filter(|tree| tree.count > 0),
        skipped: noted(skipped),
        lacking: lacking(tree.lacking),
        memory: Some(memory),
        graph: None,
    };
    Ok((analysis, images))
}

fn event_layout(layout: MallocLayout) -> EventLayout {
    match layout {
        MallocLayout::Disk => EventLayout::Disk64,
        MallocLayout::Disk32 => EventLayout::Disk32,
        MallocLayout::Enumerator => EventLayout::Enumerator,
        MallocLayout::Index => EventLayout::Index,
    }
}

fn cut(frames: u64) -> (u64, &'static str) {
    (frames, "frames are too many or too deep")
}

fn noted<const N: usize>(counts: [(u64, &str); N]) -> Vec<SkippedPart> {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| SkippedPart { count, what: what.to_owned() }).collect()
}

fn lacking(mut images: Vec<ImageOutcome>) -> Vec<LackingImage> {
    images.sort_by_key(|image| (image.system, Reverse(image.frames)));
    let named = images.into_iter().take(MOST_LACKING);
    named
        .map(|image| LackingImage {
            name: image.name,
            debug_id: image.debug_id,
            status: image.status.as_str().to_owned(),
            frames: image.frames,
            system: image.system,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_signals::malloc::MemoryKind;
    use unslide_signals::memory_graph::ReferenceKind::{Strong, Weak};
    use unslide_signals::memory_graph::{ClassKind, MemoryGraphWriter, RootKind};

    #[test]
    fn a_profile_says_which_symbols_it_can_use() {
        let text = b"main;draw 3\nmain;load 1\n";
        let reading = analyse(&CaptureForm::Profile, &|_| text, &|_| None).unwrap();
        let tree = reading.analysis.tree.tree();
        assert_eq!((tree.total().weight, reading.wanted.len()), (4, 0));
        assert!(reading.analysis.memory.is_none() && reading.analysis.lacking.is_empty());
        assert!(analyse(&CaptureForm::Profile, &|_| b"\x00\x01", &|_| None).is_err());
        let backtrace = b"0   CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350\n";
        let refused = analyse(&CaptureForm::Profile, &|_| backtrace, &|_| None).unwrap_err();
        assert_eq!(refused, CaptureError::Profile(ProfileError::Backtrace));
    }

    /// A log with 512 KiB of the heap in a range of 1 MiB.
    fn log_with_virtual_memory(stacks: &[u8]) -> Result<CaptureAnalysis, CaptureError> {
        let record = log::record;
        let events =
            [record(16 | 7 << 24, 0x1000_0000, 1 << 20, 2), record(2, 0x1000_8000, 1 << 19, 2)].concat();
        let file = |name: &str| match name {
            "events" => &events[..],
            "stacks" => stacks,
            _ => &[],
        };
        let form =
            CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(0) };
        Ok(analyse(&form, &file, &|_| None)?.analysis)
    }

    #[test]
    fn heap_and_virtual_memory_are_never_added() {
        let (_, stacks) = log::small_log();
        let analysis = log_with_virtual_memory(&stacks).unwrap();
        assert_eq!((analysis.tree.weight, analysis.tree.count), (1 << 19, 1));
        let vm_tree = analysis.vm_tree.clone().unwrap();
        assert_eq!((vm_tree.weight, vm_tree.count), (1 << 20, 1));
        let json = serde_json::to_string(&analysis).unwrap();
        assert!(!json.contains(&((1 << 20) + (1 << 19)).to_string()), "{json}");
        let memory = analysis.memory.as_ref().unwrap();
        let rows: Vec<_> = memory.stacks.iter().map(|row| (row.stack, row.kind, row.bytes)).collect();
        assert_eq!(rows, [(2, MemoryKind::Virtual, 1 << 20), (2, MemoryKind::Heap, 1 << 19)]);
        let grown: Vec<_> = memory
            .growth
            .iter()
            .flatten()
            .map(|row| (row.kind, row.grown_bytes, row.after.heap_bytes))
            .collect();
        assert_eq!(grown, [(MemoryKind::Virtual, 1 << 20, 0), (MemoryKind::Heap, 1 << 19, 1 << 19)]);
        let threads: Vec<_> = memory.threads.iter().map(|row| (row.kind, row.bytes)).collect();
        assert_eq!(threads, [(MemoryKind::Virtual, 1 << 20), (MemoryKind::Heap, 1 << 19)]);
        let mut before = analysis.clone();
        (before.vm_tree, before.tree.weight) = (None, 0);
        let change = CaptureComparison::between(CaptureKind::MallocLog, &before, &analysis);
        let change = change.unwrap();
        let grown = |paths: &[PathGrowth]| paths.iter().map(|row| row.weight_after).collect::<Vec<_>>();
        assert_eq!((grown(&change.paths), grown(&change.vm_paths)), (vec![], vec![1 << 20]));
    }

    #[test]
    fn stacks_that_begin_with_something_else_are_refused() {
        let (_, stacks) = log::small_log();
        let header = [1_u64, 256, 4096, 0, 0x1_2000_0000, 19].map(u64::to_le_bytes).concat();
        let refused = log_with_virtual_memory(&[header, stacks].concat()).unwrap_err().to_string();
        assert!(refused.starts_with("stacks: ") && refused.contains("from byte 48 on"), "{refused}");
    }

    #[test]
    fn a_memgraph_is_said_to_be_opaque_and_is_no_failure() {
        let reading = analyse(&CaptureForm::MemoryGraph, &|_| b"bplist00\xd1", &|_| None).unwrap();
        let CaptureAnalysis { tree, skipped, graph, .. } = reading.analysis;
        assert!(tree.nodes.is_empty() && graph.is_none() && skipped[0].what.contains("opaque"));
        assert!(analyse(&CaptureForm::MemoryGraph, &|_| b"bplist", &|_| None).is_err());
    }

    /// A graph of a cart that keeps a list of three items alive, and of a fourth item that leaked.
    fn graph_with_a_leak() -> Vec<u8> {
        let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 1).unwrap();
        for class in ["Cart", "Item"] {
            writer.class(class, ClassKind::Swift, 0).unwrap();
        }
        for (address, bytes, class) in
            [(0x1000, 100, 0), (0x1100, 10, 1), (0x1200, 10, 1), (0x1300, 10, 1), (0x1400, 7, 1)]
        {
            writer.node(address, bytes, Some(class), None).unwrap();
        }
        for (source, target, kind) in [(0, 1, Strong), (1, 2, Strong), (2, 3, Strong), (3, 4, Weak)] {
            writer.reference(source, target, kind, 8).unwrap();
        }
        writer.root(0, RootKind::Global, 0x10_0000).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_graph_says_what_each_class_keeps_alive() {
        let bytes = graph_with_a_leak();
        let reading = analyse(&CaptureForm::MemoryGraph, &|_| &bytes, &|_| None).unwrap();
        let tree = reading.analysis.tree;
        let nodes: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| (node.parent, node.name.as_str(), node.weight, node.count))
            .collect();
        assert_eq!(
            nodes,
            [
                (None, "Cart", 130, 4),
                (Some(0), "Item", 30, 3),
                (None, "leaked", 7, 1),
                (Some(2), "Item", 7, 1)
            ]
        );
        assert_eq!((tree.unit.as_str(), tree.weight, tree.count), ("bytes", 137, 5));
        let graph = reading.analysis.graph.unwrap();
        assert_eq!((graph.totals.leaked_bytes, graph.largest[0].retained), (7, 130));

        let text = "Process:         Shop [1]\n";
        let refused = analyse(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap_err();
        assert!(refused.to_string().starts_with("neither a memory graph"), "{refused}");
    }

    #[test]
    fn symbols_of_the_app_are_wanted_before_those_of_the_system() {
        let image = |byte: u8, path: &str| ProfileImage {
            path: path.to_owned(),
            debug_id: Some(DebugId([byte; 16])),
            ..ProfileImage::default()
        };
        let (system, app) = ("/usr/lib/libobjc.A.dylib", "/Apps/Shop.app/Shop");
        let images = [image(1, system), image(2, system), image(3, app), image(4, app), image(5, app)];
        let asked = [1, 2, 3, 5].map(|byte| DebugId([byte; 16])).into();
        let ids =
            |most| wanted(&images, &asked, most).iter().map(|image| image.debug_id.0[0]).collect::<Vec<_>>();
        assert_eq!((ids(9), ids(2)), (vec![3, 5, 1, 2], vec![3, 5]));
    }

    #[test]
    fn long_names_of_classes_are_cut_between_characters() {
        let text = format!("COUNT BYTES AVG CLASS_NAME\n1 16 16.0 x{}\n", "\u{e9}".repeat(1_000));
        let reading = analyse(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap();
        assert_eq!(reading.analysis.graph.unwrap().classes[0].name.len(), 1_023);
    }

    #[test]
    fn a_log_is_replayed_to_its_end_and_compared_with_a_moment_of_it() {
        let (events, stacks) = log::small_log();
        let image = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        let images = format!(
            r#"{{"binary_images":[{{"name":"/Apps/Shop.app/Shop","image_addr":4096,"image_size":4096,"uuid":"{image}"}}]}}"#
        );
        let file = |name: &str| match name {
            "events" => &events[..],
            "stacks" => &stacks[..],
            _ => images.as_bytes(),
        };
        let form =
            CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(1) };
        let reading = analyse(&form, &file, &|_| None).unwrap();
        let memory = reading.analysis.memory.unwrap();
        assert_eq!((memory.position, memory.memory.heap_bytes), (Some(3), 300));
        assert_eq!(memory.growth.unwrap().len(), 1);
        assert_eq!(reading.wanted, [CaptureImage { debug_id: image.parse().unwrap(), system: false }]);
        assert_eq!((reading.analysis.lacking.len(), reading.analysis.lacking[0].frames), (1, 2));
        assert_eq!(reading.analysis.tree.tree().total().weight, 300);
        let beyond =
            CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(9) };
        assert_eq!(analyse(&beyond, &file, &|_| None).unwrap_err(), CaptureError::BeyondEnd(3));
        let earlier =
            CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: Some(1), from: None };
        let memory = analyse(&earlier, &file, &|_| None).unwrap().analysis.memory.unwrap();
        assert_eq!((memory.position, memory.memory.heap_bytes), (Some(1), 100));
    }
}
