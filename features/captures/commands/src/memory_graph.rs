//! `unslide memory-graph`: shows large objects, the references that keep them alive, and leaks, without any
//! server.

mod shown;

use clap::{ArgMatches, FromArgMatches, Parser};
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
FILE is a memory graph in the open format of docs/formats.md, or what heap, leaks, vmmap or footprint has printed; also
packed with gzip or zstd.

Examples:
  unslide memory-graph --symbols MyApp.xcarchive snapshot.memory
  unslide memory-graph --class Cart snapshot.memory
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
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["class", "compare"], value_parser = address)]
    block: Option<u64>,
    /// Say the same of the block of this class that retains most
    #[arg(long, value_name = "NAME", conflicts_with = "compare")]
    class: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("it begins with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// Reads the snapshot, or both, and shows what they say.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let mut lacking = Lacking::default();
    let (mut tables, block) = read_tables(&arguments.file, arguments, &library, &mut lacking)?;
    let comparison = match &arguments.compare {
        Some(other) => {
            let (after, _) = read_tables(other, arguments, &library, &mut lacking)?;
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
    let answer = GraphAnswer { memory: tables, block, comparison };
    if arguments.json {
        Console::get().print_json(&answer)?;
    } else {
        answer.print_answer();
    }
    lacking.print_lacking(&library);
    Ok(Exit::Ready)
}

/// Reads the tables of a file, and the requested block.
fn read_tables(
    path: &Path,
    arguments: &Arguments,
    library: &Library,
    lacking: &mut Lacking,
) -> Result<(MemoryTables, Option<BlockDetail>), BoxError> {
    let input = open_input(path).map_err(|error| CommandError::cannot_read(path, error))?;
    let limits = MemoryGraphLimits::default();
    let file = read_memory(input, &limits).map_err(|error| CommandError::cannot_read(path, error))?;
    let mut graph = match file {
        MemoryFile::Graph(graph) => graph,
        MemoryFile::Text(_) if arguments.block.is_some() || arguments.class.is_some() => {
            let text = "--block and --class need a memory graph: the text of tools has no references";
            return Err(CommandError::usage(text).into());
        }
        MemoryFile::Text(tables) => return Ok((*tables, None)),
    };
    let named = graph.name_classes(&|id| library.find_symbols(id));
    if named.without_symbol > 0 {
        note!("{}: {} classes have no symbol in their dSYMs", path.display(), named.without_symbol);
    }
    lacking.add_images(named.lacking);
    let analysis = GraphAnalysis::from_graph(&graph);
    let block = find_block(arguments, &graph, &analysis)?.map(|node| analysis.describe_neighbours(node));
    Ok((analysis.build_tables(), block))
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
