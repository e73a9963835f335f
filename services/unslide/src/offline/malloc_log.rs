//! `unslide malloc-log`: which functions hold memory, by a log of allocations, without any server.

mod shown;

use crate::failure::{BoxError, CommandError, Exit, Outcome};
use crate::offline::flame::write_output;
use crate::offline::symbolicate::{Lacking, Library, map};
use crate::output::{Console, note};
use clap::ValueEnum;
use shown::{GrowthRow, MemoryAnswer, StackRow, TagRow};
use std::path::{Path, PathBuf};
use unslide_signals::calltree::{GraphPlace, TreeDifference, difference_graph, flame_graph};
use unslide_signals::malloc::{
    EventLayout, EventLog, LiveSet, Replay, SlotForm, StackTable, StackTotals, StackTree, growth, stack_tree,
};
use unslide_signals::profile::{ProfileImage, read_images};

/// The most rows of each list.
const MOST_ROWS: usize = 1_000;

/// Arguments of `unslide malloc-log`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  unslide malloc-log --layout index --stacks stacks.bin --images report.json --symbols MyApp.xcarchive events.bin
  unslide malloc-log --layout disk --stacks stacks.bin --from 100000 --at 900000 events.bin
  unslide malloc-log --layout index --stacks stacks.bin --images report.json --flame heap.svg events.bin")]
pub struct Arguments {
    /// The events, as the process has written them
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The table of stacks, from slot 0 on
    #[arg(long, value_name = "TABLE")]
    stacks: PathBuf,
    /// The slots of the table count references, as those of the lite mode do
    #[arg(long)]
    lite: bool,
    /// How the events are laid out
    #[arg(long, value_enum)]
    layout: LogLayout,
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
    /// What is live after this many events; without it after all
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// Also what has grown since this many events, and what was allocated before and is still live
    #[arg(long, value_name = "N")]
    from: Option<usize>,
    /// Print JSON
    #[arg(long, conflicts_with = "flame")]
    json: bool,
    /// Write a flame graph of the memory, with --from of its growth
    #[arg(long, value_name = "OUT")]
    flame: Option<PathBuf>,
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

impl Arguments {
    fn event_layout(&self) -> Result<EventLayout, CommandError> {
        match (self.layout, self.pointer_size) {
            (LogLayout::Disk, 8) => Ok(EventLayout::Disk64),
            (LogLayout::Disk, 4) => Ok(EventLayout::Disk32),
            (LogLayout::Enumerator, 8) => Ok(EventLayout::Enumerator),
            (LogLayout::Index, 8) => Ok(EventLayout::Index),
            (_, size) => {
                Err(CommandError::usage(format!("--pointer-size {size}: it is 8, with --layout disk also 4")))
            }
        }
    }
}

/// The files of a log beside its events.
struct LogFiles<'a> {
    table: StackTable<'a>,
    images: Vec<ProfileImage>,
    library: Library,
}

impl LogFiles<'_> {
    fn tree(&self, totals: &StackTotals) -> StackTree {
        stack_tree(totals, &self.table, &self.images, &|id| self.library.symbols(id))
    }
}

/// Replays the log, and shows what is live.
pub fn run(arguments: &Arguments) -> Outcome {
    let layout = arguments.event_layout()?;
    if let (Some(from), Some(at)) = (arguments.from, arguments.at)
        && from > at
    {
        return Err(CommandError::usage(format!("--from {from} lies after --at {at}")).into());
    }
    let (library, broken) = Library::search(&arguments.symbols)?;
    for broken in broken {
        note!("{broken}");
    }
    let read = |path: &Path| map(path).map_err(|error| CommandError::cannot_read(path, error));
    let (events, stacks) = (read(&arguments.index)?, read(&arguments.stacks)?);
    let images = match &arguments.images {
        Some(path) => read_images(&read(path)?).map_err(|error| CommandError::cannot_read(path, error))?,
        None => Vec::new(),
    };
    let form = if arguments.lite { SlotForm::Counted } else { SlotForm::Plain };
    let files = LogFiles { table: StackTable::new(&stacks, form), images, library };
    let log = EventLog::new(&events, layout);
    for (option, number) in [("--at", arguments.at), ("--from", arguments.from)] {
        if let Some(number) = number.filter(|number| *number > log.len()) {
            let text = format!("{option} {number}: the log has {} events", log.len());
            return Err(CommandError::usage(text).into());
        }
    }
    let answer = match Replay::new(log) {
        Ok(replay) => of_replay(arguments, &log, replay, &files)?,
        Err(sorted) if arguments.at.is_some() || arguments.from.is_some() => return Err(sorted.into()),
        Err(sorted) => {
            note!("{sorted}");
            of_totals(arguments, &log, &files)?
        }
    };
    if arguments.json {
        Console::get().json(&answer)?;
    } else if arguments.flame.is_some() {
        answer.account();
    } else {
        answer.print();
    }
    Ok(Exit::Ready)
}

/// What was live at the moments that were asked for.
fn of_replay(
    arguments: &Arguments,
    log: &EventLog<'_>,
    mut replay: Replay<'_>,
    files: &LogFiles<'_>,
) -> Result<MemoryAnswer, BoxError> {
    let mut before = None;
    if let Some(from) = arguments.from {
        replay.advance_to(from);
        before = Some((from, replay.live().by_stack()));
    }
    replay.advance_to(arguments.at.unwrap_or(usize::MAX));
    let live = replay.live();
    let after = live.by_stack();
    let tree = files.tree(&after);
    let title = format!("live memory after {} events", replay.position());
    let mut answer = MemoryAnswer {
        events: log.len(),
        position: Some(replay.position()),
        trailing_bytes: log.trailing_bytes(),
        counts: replay.counts(),
        memory: live.total().into(),
        vm_tags: live.by_tag().into_iter().map(TagRow::from).collect(),
        threads: shown::threads(&tree),
        stacks: stack_rows(&after, &tree),
        broken_stacks: tree.broken,
        growth: None,
        older: None,
    };
    let Some((from, before)) = before else {
        draw(arguments, || flame_graph(&tree.tree, &title, GraphPlace::File))?;
        tell(&[&tree]);
        return Ok(answer);
    };
    let earlier = files.tree(&before);
    draw(arguments, || {
        let difference = TreeDifference::between(&earlier.tree, &tree.tree);
        difference_graph(&difference, &format!("{title}, since {from}"), GraphPlace::File)
    })?;
    let grown = growth(&before, &after);
    let rows = grown.iter().take(MOST_ROWS).map(|grown| GrowthRow::of(grown, &tree, &earlier));
    answer.growth = Some(rows.collect());
    answer.older = Some(older_rows(live, from, &tree));
    tell(&[&tree, &earlier]);
    Ok(answer)
}

/// Sums over a log that cannot be replayed.
fn of_totals(
    arguments: &Arguments,
    log: &EventLog<'_>,
    files: &LogFiles<'_>,
) -> Result<MemoryAnswer, BoxError> {
    let totals = log.totals();
    let tree = files.tree(&totals.allocated);
    draw(arguments, || flame_graph(&tree.tree, "allocated memory, freed or not", GraphPlace::File))?;
    tell(&[&tree]);
    Ok(MemoryAnswer {
        events: log.len(),
        position: None,
        trailing_bytes: log.trailing_bytes(),
        counts: totals.counts,
        memory: shown::sum(&totals.allocated).into(),
        vm_tags: Vec::new(),
        threads: shown::threads(&tree),
        stacks: stack_rows(&totals.allocated, &tree),
        broken_stacks: tree.broken,
        growth: None,
        older: None,
    })
}

fn draw(arguments: &Arguments, graph: impl FnOnce() -> String) -> Result<(), BoxError> {
    match &arguments.flame {
        Some(path) => write_output(Some(path), &graph()),
        None => Ok(()),
    }
}

fn tell(trees: &[&StackTree]) {
    let mut lacking = Lacking::default();
    for tree in trees {
        lacking.add(tree.lacking.clone());
    }
    lacking.tell();
}

/// The stacks with the most memory.
fn stack_rows(totals: &StackTotals, tree: &StackTree) -> Vec<StackRow> {
    let mut largest: Vec<_> = totals.iter().map(|(stack, held)| (*stack, *held)).collect();
    largest.sort_unstable_by_key(|(stack, held)| (std::cmp::Reverse(held.total().weight), *stack));
    largest.into_iter().take(MOST_ROWS).map(|(stack, held)| StackRow::of(stack, held, tree)).collect()
}

fn older_rows(live: &LiveSet, from: usize, tree: &StackTree) -> Vec<StackRow> {
    stack_rows(&live.older_than(from as u64), tree)
}
