//! `unslide memory-graph`: shows large objects, the references that keep them alive, and leaks, without any
//! server.

mod origin;
mod shown;

use super::malloc_log::form::{LogForm, parse_address};
use clap::{ArgMatches, FromArgMatches, Parser};
use origin::Origins;
use shown::GraphAnswer;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use unslide_captures_formats::memory_graph::{
    BlockDetail, GraphAnalysis, MemoryFile, MemoryGraph, MemoryGraphLimits, MemoryTables, compare_tables,
    read_memory,
};
use unslide_cli::input::unpack_input;
use unslide_cli::symbols::{BuildArguments, Lacking, Library};
use unslide_cli::{BoxError, CommandError, Console, Exit, Outcome, note};

/// The most rows of each list.
const LIST_ENTRIES: usize = 1_000;

/// Say what is large in memory, what keeps it alive and what leaked, from a snapshot, without any server
#[derive(Parser)]
#[command(
    name = "memory-graph",
    after_help = "\
FILE is a memory graph in the open format of docs/captures.md, or what heap, leaks, vmmap or footprint has printed; also
packed with gzip or zstd.

Examples:
  unslide memory-graph --symbols MyApp.xcarchive snapshot.memory
  unslide memory-graph --class Cart snapshot.memory
  unslide memory-graph --log events.bin --stacks stacks.bin --symbols MyApp.xcarchive snapshot.memory
  unslide memory-graph --compare later.memory snapshot.memory
  unslide memory-graph --compare heap-2.txt heap-1.txt"
)]
pub struct Arguments {
    /// The snapshot, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A dSYM, a Mach-O file, an archive of them (zip, tar.gz), or a folder that is searched for dSYMs and
    /// Mach-O files: they name classes; may be given more than once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// A later snapshot: say which classes have grown since FILE, and which leaks are new
    #[arg(long, value_name = "OTHER")]
    compare: Option<PathBuf>,
    /// Say what keeps the block at this address alive, what refers to it and what it keeps alive
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["class", "compare"], value_parser = parse_address)]
    block: Option<u64>,
    /// Say the same of the block of this class that retains most
    #[arg(long, value_name = "NAME", conflicts_with = "compare")]
    class: Option<String>,
    /// A log of allocations of the same process, as `unslide malloc-log` takes it: say which function created each object
    #[arg(long, value_name = "INDEX", requires = "stacks", conflicts_with = "compare")]
    log: Option<PathBuf>,
    /// The log's table of stacks
    #[arg(long, value_name = "TABLE", requires = "log")]
    stacks: Option<PathBuf>,
    /// The number of events before the snapshot; without it all events of the log
    #[arg(long, value_name = "N", requires = "log")]
    at: Option<usize>,
    #[command(flatten)]
    form: LogForm,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Reads the snapshot, or both, and shows what they say.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let mut lacking = Lacking::default();
    if arguments.log.is_none() && arguments.form.is_used() {
        let text = "--images, --layout, --lite and --pointer-size are about a log: name it with --log";
        return Err(CommandError::usage(text).into());
    }
    let GraphTables { mut tables, block, origins } =
        read_tables(&arguments.file, arguments, &library, &mut lacking)?;
    let comparison = match &arguments.compare {
        Some(other) => {
            let after = read_tables(other, arguments, &library, &mut lacking)?.tables;
            if tables.source != after.source {
                return Err(CommandError::usage("--compare needs two files of the same kind").into());
            }
            tables.skipped = tables.skipped.saturating_add(after.skipped);
            let mut comparison = compare_tables(&tables, &after);
            comparison.truncate_rows(LIST_ENTRIES);
            Some(comparison)
        }
        None => None,
    };
    tables.truncate_rows(LIST_ENTRIES);
    let answer = GraphAnswer { memory: tables, block, comparison, origins };
    if arguments.json {
        Console::get().print_json(&answer)?;
    } else {
        answer.print_answer();
    }
    lacking.print_lacking(&library);
    Ok(Exit::Ready)
}

/// The tables of a file, and the requested block.
struct GraphTables {
    tables: MemoryTables,
    block: Option<BlockDetail>,
    origins: Option<Origins>,
}

fn read_tables(
    path: &Path,
    arguments: &Arguments,
    library: &Library,
    lacking: &mut Lacking,
) -> Result<GraphTables, BoxError> {
    let input = open_input(path).map_err(|error| CommandError::cannot_read(path, error))?;
    let limits = MemoryGraphLimits::default();
    let file = read_memory(input, &limits).map_err(|error| CommandError::cannot_read(path, error))?;
    let mut graph = match file {
        MemoryFile::Graph(graph) => graph,
        MemoryFile::Text(_) if arguments.block.is_some() || arguments.class.is_some() => {
            let text = "--block and --class need a memory graph: the text of tools has no references";
            return Err(CommandError::usage(text).into());
        }
        MemoryFile::Text(_) if arguments.log.is_some() => {
            let text = "--log needs a memory graph: the text of tools has no addresses of all blocks";
            return Err(CommandError::usage(text).into());
        }
        MemoryFile::Text(tables) => return Ok(GraphTables { tables: *tables, block: None, origins: None }),
    };
    let named = graph.name_classes(&|id| library.find_symbols(id));
    if named.without_symbol > 0 {
        note!("{}: {} classes have no symbol in their dSYMs", path.display(), named.without_symbol);
    }
    lacking.add_images(named.lacking);
    let analysis = GraphAnalysis::from_graph(&graph);
    let node = find_block(arguments, &graph, &analysis)?;
    let origins = origin::find_origins(arguments, &graph, node, library, lacking)?;
    let block = node.map(|node| analysis.describe_neighbours(node));
    Ok(GraphTables { tables: analysis.build_tables(), block, origins })
}

fn open_input(path: &Path) -> io::Result<impl Read> {
    let source: Box<dyn Read + Send> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    Ok(BufReader::with_capacity(1 << 20, unpack_input(source)?))
}

fn find_block(
    arguments: &Arguments,
    graph: &MemoryGraph,
    analysis: &GraphAnalysis<'_>,
) -> Result<Option<u32>, CommandError> {
    if let Some(address) = arguments.block {
        let node = graph.node_at(address);
        return node
            .map(Some)
            .ok_or_else(|| CommandError::missing(format!("no block has the address {address:#x}")));
    }
    let Some(class) = &arguments.class else { return Ok(None) };
    let node = analysis.largest_of_class(class);
    node.map(Some).ok_or_else(|| CommandError::missing(format!("no block is of the class {class}")))
}
