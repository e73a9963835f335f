//! `unslide malloc-log`: which functions hold memory, by a log of allocations, without any server.

mod shown;

use super::flame::write_output;
use clap::{ArgMatches, FromArgMatches, Parser, ValueEnum};
use std::path::{Path, PathBuf};
use unslide_calltree::{GraphPlace, TreeDifference, difference_graph, flame_graph};
use unslide_captures_formats::malloc::{
    Checkpoints, EventLayout, EventLog, LogAnswer, LogQuestion, MemoryKind, MemorySummary, SlotForm,
    SortedByAddress, StackTable,
};
use unslide_captures_formats::profile::read_images;
use unslide_cli::symbols::{BuildArguments, Lacking, Library};
use unslide_cli::{BoxError, CommandError, Console, Exit, Outcome, map_unpacked, note};
use unslide_model::DebugId;

/// The most rows of each list.
const LIST_ENTRIES: usize = 1_000;
/// Functions of a stack that are listed.
const MOST_FUNCTIONS: usize = 512;
/// The most events that are asked for.
const MOST_MOMENTS: usize = 100;

/// Say which functions hold memory, from a log of malloc's stack logging, without any server
#[derive(Parser)]
#[command(
    name = "malloc-log",
    after_help = "\
Examples:
  unslide malloc-log --stacks stacks.bin --images report.json --symbols MyApp.xcarchive events.bin
  unslide malloc-log --layout disk --stacks stacks.bin.gz --from 100000 --at 900000 events.bin.gz
  unslide malloc-log --layout index --stacks stacks.bin --at 100000 --at 500000 --at 900000 events.bin
  unslide malloc-log --layout index --stacks stacks.bin --images report.json --flame heap.svg events.bin"
)]
pub struct Arguments {
    /// The events, as the process has written them. This and the other files may be packed with gzip or zstd; one may
    /// be `-`, which is standard input
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The table of stacks, from slot 0 on or with the header of the system's serialiser
    #[arg(long, value_name = "TABLE")]
    stacks: PathBuf,
    /// The slots of the table count references, as those of the lite mode do
    #[arg(long)]
    lite: bool,
    /// How the events are laid out; without it, as their records show. An option that they contradict is an error
    #[arg(long, value_enum)]
    layout: Option<LogLayout>,
    /// Bytes of a pointer of the process, for the layout disk
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u8).range(4..=8))]
    pointer_size: u8,
    /// The binary images: a KSCrash report of the run, or its `binary_images`; also `usedImages` of an .ips file
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// A dSYM, a Mach-O file, an archive of them (zip, tar.gz), or a folder that is searched for dSYMs and
    /// Mach-O files; may be given more than once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// Print the allocations that are live after this number of events; without it, after all events. May be
    /// given more than once, at little cost; the history is that of the last one
    #[arg(long, value_name = "N")]
    at: Vec<usize>,
    /// Also what has grown since this many events, and what was allocated before and is still live
    #[arg(long, value_name = "N")]
    from: Option<usize>,
    /// Print JSON: an object, or for more than one --at a list of them
    #[arg(long, conflicts_with = "flame")]
    json: bool,
    /// Write a flame graph of the memory, with --from of its growth
    #[arg(long, value_name = "OUT")]
    flame: Option<PathBuf>,
    /// The memory that the flame graph is of; without it the heap, if the log has any
    #[arg(long, value_enum, requires = "flame")]
    memory: Option<GraphMemory>,
}

/// The layouts of events; `docs/formats.md` has their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLayout {
    /// 24 bytes, or 16 of a 32-bit process
    Disk,
    /// 32 bytes with the type first, as the API enumerates them
    Enumerator,
    /// 32 bytes with the type last, of newer systems
    Index,
}

/// A kind of memory. The two are never added: ranges of virtual memory may hold blocks of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphMemory {
    /// Blocks that malloc allocated on the heap
    Heap,
    /// Ranges of virtual memory (vm_allocate, mmap)
    Virtual,
}

impl Arguments {
    /// Returns the layout that is stated; `None` if it is to be detected.
    fn event_layout(&self) -> Result<Option<EventLayout>, CommandError> {
        match (self.layout, self.pointer_size) {
            (None, 8) => Ok(None),
            (Some(LogLayout::Disk), 8) => Ok(Some(EventLayout::Disk64)),
            (Some(LogLayout::Disk), 4) => Ok(Some(EventLayout::Disk32)),
            (Some(LogLayout::Enumerator), 8) => Ok(Some(EventLayout::Enumerator)),
            (Some(LogLayout::Index), 8) => Ok(Some(EventLayout::Index)),
            (_, size) => {
                Err(CommandError::usage(format!("--pointer-size {size}: use 8, or 4 with --layout disk")))
            }
        }
    }
}

/// Replays the log, and shows what is live.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    let layout = arguments.event_layout()?;
    check_arguments(arguments)?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let read = |path: &Path| map_unpacked(path).map_err(|error| CommandError::cannot_read(path, error));
    let (events, stacks) = (read(&arguments.index)?, read(&arguments.stacks)?);
    let images = match &arguments.images {
        Some(path) => read_images(&read(path)?).map_err(|error| CommandError::cannot_read(path, error))?,
        None => Vec::new(),
    };
    let form = if arguments.lite { SlotForm::Counted } else { SlotForm::Plain };
    let log = read_log(&arguments.index, &events, layout)?;
    let of = |option| move |number: &usize| (option, *number);
    let mut numbers = arguments.at.iter().map(of("--at")).chain(arguments.from.iter().map(of("--from")));
    if let Some((option, number)) = numbers.find(|(_, number)| *number > log.len()) {
        let text = format!("{option} {number}: the log has {} events", log.len());
        return Err(CommandError::usage(text).into());
    }
    let question = LogQuestion {
        log,
        table: StackTable::from_bytes(&stacks, form)
            .map_err(|error| CommandError::cannot_read(&arguments.stacks, error))?,
        images: &images,
        at: arguments.at.first().copied(),
        from: arguments.from,
        // A flame graph has none.
        history: arguments.flame.is_none(),
        most_rows: LIST_ENTRIES,
        most_functions: MOST_FUNCTIONS,
    };
    let symbols = |id: &DebugId| library.find_symbols(id);
    let mut shown = ShownLog { arguments, lacking: Lacking::default(), memories: Vec::new() };
    if arguments.at.len() <= 1 {
        shown.add_answer(question.compute_answer(&symbols)?)?;
    } else {
        let mut checkpoints = Checkpoints::new(log)?;
        for at in &arguments.at {
            let question = LogQuestion { at: Some(*at), ..question };
            shown.add_answer(question.answer_from(&mut checkpoints, &symbols))?;
        }
        if let Some(last) = shown.memories.iter_mut().max_by_key(|memory| memory.position) {
            drop(checkpoints);
            let question = LogQuestion { at: last.position, ..question };
            last.history = question.compute_history(&symbols)?;
        }
    }
    shown.print_answers(&library)?;
    Ok(Exit::Ready)
}

/// Reads a log in the stated layout, or in the one that its records have.
fn read_log<'a>(
    path: &Path,
    events: &'a [u8],
    layout: Option<EventLayout>,
) -> Result<EventLog<'a>, CommandError> {
    let layout = match layout {
        Some(layout) => layout,
        None => {
            let layout =
                EventLayout::detect_layout(events).map_err(|error| CommandError::cannot_read(path, error))?;
            note!("the events have the layout {}", layout.as_str());
            layout
        }
    };
    EventLog::from_bytes(events, layout).map_err(|error| CommandError::cannot_read(path, error))
}

/// Refuses arguments that do not go together.
fn check_arguments(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments { at, from, flame, .. } = arguments;
    if let Some(from) = from
        && let Some(at) = at.iter().find(|at| *at < from)
    {
        return Err(CommandError::usage(format!("--from {from} lies after --at {at}")));
    }
    if at.len() > MOST_MOMENTS {
        return Err(CommandError::usage(format!("--at may be given at most {MOST_MOMENTS} times")));
    }
    if at.len() > 1 && flame.is_some() {
        return Err(CommandError::usage("--flame draws one moment: give only one --at"));
    }
    let files = [&arguments.index, &arguments.stacks].into_iter().chain(&arguments.images);
    if files.filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(CommandError::usage("standard input is one file: give only one `-`"));
    }
    Ok(())
}

/// The summaries of the log at the requested events.
struct ShownLog<'a> {
    arguments: &'a Arguments,
    lacking: Lacking,
    memories: Vec<MemorySummary>,
}

impl ShownLog<'_> {
    /// Adds an answer, and writes its flame graph if one is requested.
    fn add_answer(&mut self, answer: LogAnswer) -> Result<(), BoxError> {
        if answer.memory.position.is_none() {
            note!("{SortedByAddress}");
        }
        if let Some(path) = &self.arguments.flame {
            write_output(Some(path), &render_graph(&answer, self.arguments))?;
        }
        for tree in [&answer.tree].into_iter().chain(&answer.earlier) {
            self.lacking.add_images(tree.lacking.clone());
        }
        self.memories.push(answer.memory);
        Ok(())
    }

    fn print_answers(self, library: &Library) -> Result<(), BoxError> {
        self.lacking.print_lacking(library);
        match self.memories.as_slice() {
            [memory] if self.arguments.json => Console::get().print_json(memory)?,
            memories if self.arguments.json => Console::get().print_json(&memories)?,
            memories if self.arguments.flame.is_some() => memories.iter().for_each(shown::print_skipped),
            memories => memories.iter().for_each(shown::print_summary),
        }
        Ok(())
    }
}

/// Returns the flame graph of the memory, or of its growth.
fn render_graph(answer: &LogAnswer, arguments: &Arguments) -> String {
    let has_heap = [Some(&answer.tree), answer.earlier.as_ref()]
        .into_iter()
        .flatten()
        .any(|trees| trees.heap.total().count > 0);
    let (kind, what) = match arguments.memory {
        Some(GraphMemory::Virtual) => (MemoryKind::Virtual, "virtual memory"),
        None if !has_heap => (MemoryKind::Virtual, "virtual memory"),
        Some(GraphMemory::Heap) | None => (MemoryKind::Heap, "heap"),
    };
    if arguments.memory.is_none() && has_heap && answer.tree.vm.total().count > 0 {
        note!("the flame graph shows the heap; --memory virtual shows virtual memory");
    }
    let title = match answer.memory.position {
        Some(position) => format!("live {what} after {position} events"),
        None => format!("allocated {what}, freed or not"),
    };
    let tree = answer.tree.for_kind(kind);
    match (&answer.earlier, arguments.from) {
        (Some(earlier), Some(from)) => {
            let difference = TreeDifference::from_trees(earlier.for_kind(kind), tree);
            difference_graph(&difference, &format!("{title}, since {from}"), GraphPlace::File)
        }
        _ => flame_graph(tree, &title, GraphPlace::File),
    }
}
