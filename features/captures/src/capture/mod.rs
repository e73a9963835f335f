//! Captures: files that were recorded on a device and are analysed as a whole. Each kind has an arm in
//! [`analyse_capture`] that reads its files and gives a call tree.

mod compare;
mod form;
#[cfg(test)]
mod log;
#[cfg(test)]
mod tests;

pub use compare::{CaptureComparison, ComparedMemory, NotComparable, PathGrowth};
pub use form::{CaptureForm, CapturePart, MallocLayout};
pub use unslide_captures_formats::CaptureKind;

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use unslide_calltree::{CallTree, CutTree};
use unslide_captures_formats::malloc::{
    EventLayout, EventLog, LogAnswer, LogQuestion, MemorySummary, SlotForm, StackTable, StackTableError,
    WrongLayout,
};
use unslide_captures_formats::memory_graph::{
    GraphAnalysis, MemoryFile, MemoryGraphError, MemoryGraphLimits, MemoryTables, NamedClasses, read_memory,
};
use unslide_captures_formats::profile::{Profile, ProfileError, ProfileImage, read_images, read_profile};
use unslide_model::DebugId;
use unslide_proto::stacks::{self, StackSetError};
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
    pub count: u64,
    /// Of what, and why: words that follow the number.
    pub what: String,
}

/// An image with frames that have no names because symbols are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LackingImage {
    pub name: String,
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
    pub debug_id: DebugId,
    /// True for an image of the operating system.
    pub system: bool,
}

/// An analysis, and the symbols that it asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureReading {
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
    /// The events of a log have another layout than its sender named.
    #[error("events: {0}")]
    Events(#[from] WrongLayout),
    /// The stacks of a log are no table in the form that its sender named.
    #[error("stacks: {0}")]
    Stacks(#[from] StackTableError),
    /// The events of a log have no order.
    #[error("{0}; leave out at and from")]
    Sorted(#[from] unslide_captures_formats::malloc::SortedByAddress),
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
pub fn analyse_capture<'f, 's>(
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
        CaptureForm::Profile => analyse_profile(&read_profile(file("file"))?, &noted),
        CaptureForm::StackSet => {
            analyse_profile(&Profile::from(&stacks::read_stack_set(file("file"))?), &noted)
        }
        CaptureForm::MemoryGraph => memory_graph(file("file"), &noted)?,
        CaptureForm::MallocLog { layout, lite, at, from } => {
            malloc_log(*layout, *lite, *at, *from, file, &noted)?
        }
    };
    let wanted = list_wanted_images(&images, &asked.into_inner(), MOST_WANTED);
    Ok(CaptureReading { analysis, wanted })
}

/// Returns the requested ones of the images, the app's first, at most `most`.
fn list_wanted_images(images: &[ProfileImage], asked: &BTreeSet<DebugId>, most: usize) -> Vec<CaptureImage> {
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

fn analyse_profile<'s>(
    profile: &Profile,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> (CaptureAnalysis, Vec<ProfileImage>) {
    let symbolicated = profile.symbolicate(symbols);
    let skipped = [
        (profile.skipped, "lines or frames could not be read"),
        (symbolicated.left_out, LEFT_OUT),
        skipped_frames(symbolicated.tree.cut_frames()),
    ];
    let analysis = CaptureAnalysis {
        tree: CutTree::from_tree(&symbolicated.tree),
        vm_tree: None,
        skipped: list_skipped(skipped),
        lacking: list_lacking(symbolicated.lacking),
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
        Err(MemoryGraphError::Opaque) => return Ok((opaque_analysis(), Vec::new())),
        Err(error) => return Err(error.into()),
        Ok(MemoryFile::Graph(graph)) => graph,
        Ok(MemoryFile::Text(tables)) => {
            let tree = tables.build_tree();
            return Ok((memory_answer(*tables, &tree, NamedClasses::default()), Vec::new()));
        }
    };
    let named = graph.name_classes(symbols);
    let (tables, tree) = {
        let analysis = GraphAnalysis::from_graph(&graph);
        (analysis.build_tables(), analysis.retained_tree())
    };
    Ok((memory_answer(tables, &tree, named), graph.images))
}

/// Returns the analysis of a `.memgraph`, which is stored unread.
fn opaque_analysis() -> CaptureAnalysis {
    let what = "file is a .memgraph, whose layout Apple does not publish: it is stored unchanged and opaque; send the \
                text that heap, leaks, vmmap or footprint prints for it, too";
    CaptureAnalysis {
        tree: CutTree::from_tree(&CallTree::new("bytes")),
        vm_tree: None,
        skipped: list_skipped([(1, what)]),
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
        (tree.cut_frames(), "blocks are too many or too deep for the tree"),
    ];
    CaptureAnalysis {
        tree: CutTree::from_tree(tree),
        vm_tree: None,
        skipped: list_skipped(skipped),
        lacking: list_lacking(named.lacking),
        memory: None,
        graph: Some(tables),
    }
}

fn malloc_log<'f, 's>(
    layout: MallocLayout,
    lite: bool,
    at: Option<u64>,
    from: Option<u64>,
    file: &dyn Fn(&str) -> &'f [u8],
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
) -> Result<(CaptureAnalysis, Vec<ProfileImage>), CaptureError> {
    let images = match file("images") {
        [] => Vec::new(),
        bytes => read_images(bytes).map_err(CaptureError::Images)?,
    };
    let log = EventLog::from_bytes(file("events"), event_layout(layout))?;
    let [at, from] =
        [at, from].map(|events| events.map(|events| usize::try_from(events).unwrap_or(usize::MAX)));
    if at.max(from).is_some_and(|events| events > log.len()) {
        return Err(CaptureError::BeyondEnd(log.len()));
    }
    let slots = if lite { SlotForm::Counted } else { SlotForm::Plain };
    let question = LogQuestion {
        log,
        table: StackTable::from_bytes(file("stacks"), slots)?,
        images: &images,
        at,
        from,
        history: true,
        most_rows: MOST_ROWS,
        most_functions: MOST_FUNCTIONS,
    };
    let LogAnswer { memory, tree, .. } = question.compute_answer(symbols)?;
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
        skipped_frames(tree.heap.cut_frames() + tree.vm.cut_frames()),
    ];
    let analysis = CaptureAnalysis {
        tree: CutTree::from_tree(&tree.heap),
        vm_tree: Some(CutTree::from_tree(&tree.vm)).filter(|tree| tree.count > 0),
        skipped: list_skipped(skipped),
        lacking: list_lacking(tree.lacking),
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

fn skipped_frames(frames: u64) -> (u64, &'static str) {
    (frames, "frames are too many or too deep")
}

fn list_skipped<const N: usize>(counts: [(u64, &str); N]) -> Vec<SkippedPart> {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| SkippedPart { count, what: what.to_owned() }).collect()
}

fn list_lacking(mut images: Vec<ImageOutcome>) -> Vec<LackingImage> {
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
