//! `unslide malloc-log`: which functions hold memory, by a log of allocations, without any server.

pub(super) mod form;
mod records;
mod shown;

use super::flame::write_output;
use clap::{ArgMatches, FromArgMatches, Parser, ValueEnum};
use form::{LogForm, parse_address, read_file};
use std::path::PathBuf;
use unslide_calltree::{GraphPlace, TreeDifference, difference_graph, flame_graph};
use unslide_captures_formats::malloc::{
    Checkpoints, LogAnswer, LogQuestion, MemoryKind, MemorySummary, SortedByAddress,
};
use unslide_cli::symbols::{BuildArguments, Lacking, Library};
use unslide_cli::{BoxError, CommandError, Console, Exit, Outcome, note};
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
  unslide malloc-log --layout index --stacks stacks.bin --images report.json --flame heap.svg events.bin
  unslide malloc-log --stacks stacks.bin --images report.json --address 0x600003a1c040 events.bin
  unslide malloc-log --stacks stacks.bin --list --from 100000 --json events.bin"
)]
pub struct Arguments {
    /// The events, as the process has written them. This and the other files may be packed with gzip or zstd; one may
    /// be `-`, which is standard input
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The table of stacks, from slot 0 on or with the header of the system's serialiser
    #[arg(long, value_name = "TABLE")]
    stacks: PathBuf,
    #[command(flatten)]
    form: LogForm,
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
    /// Say which stacks allocated and freed the memory at this address, and with which event; may be given more than once
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["flame", "from", "list"], value_parser = parse_address)]
    address: Vec<u64>,
    /// List the records from --from on, up to --at
    #[arg(long, conflicts_with = "flame")]
    list: bool,
    /// Print JSON: an object, or for more than one --at or --address a list of them
    #[arg(long, conflicts_with = "flame")]
    json: bool,
    /// Write a flame graph of the memory, with --from of its growth
    #[arg(long, value_name = "OUT")]
    flame: Option<PathBuf>,
    /// The memory that the flame graph is of; without it the heap, if the log has any
    #[arg(long, value_enum, requires = "flame")]
    memory: Option<GraphMemory>,
}

/// A kind of memory. The two are never added: ranges of virtual memory may hold blocks of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphMemory {
    /// Blocks that malloc allocated on the heap
    Heap,
    /// Ranges of virtual memory (vm_allocate, mmap)
    Virtual,
}

/// Replays the log, and shows what is live.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    arguments.form.event_layout()?;
    check_arguments(arguments)?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let (events, stacks) = (read_file(&arguments.index)?, read_file(&arguments.stacks)?);
    let images = arguments.form.read_image_list()?;
    let log = arguments.form.read_log(&arguments.index, events.as_ref())?;
    let of = |option| move |number: &usize| (option, *number);
    let mut numbers = arguments.at.iter().map(of("--at")).chain(arguments.from.iter().map(of("--from")));
    if let Some((option, number)) = numbers.find(|(_, number)| *number > log.len()) {
        let text = format!("{option} {number}: the log has {} events", log.len());
        return Err(CommandError::usage(text).into());
    }
    let question = LogQuestion {
        log,
        table: arguments.form.read_table(&arguments.stacks, stacks.as_ref())?,
        images: &images,
        at: arguments.at.first().copied(),
        from: arguments.from,
        // A flame graph has none.
        history: arguments.flame.is_none(),
        most_rows: LIST_ENTRIES,
        most_functions: MOST_FUNCTIONS,
    };
    if arguments.list {
        return records::list_records(&question, arguments.json, &library);
    }
    if !arguments.address.is_empty() {
        return records::find_addresses(&question, &arguments.address, arguments.json, &library);
    }
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

/// Refuses arguments that do not go together.
fn check_arguments(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments { at, from, flame, list, address, .. } = arguments;
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
    if at.len() > 1 && (*list || !address.is_empty()) {
        return Err(CommandError::usage("--list and --address end at one moment: give only one --at"));
    }
    let files = [&arguments.index, &arguments.stacks].into_iter().chain(&arguments.form.images);
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
