//! `unslide flame`: the call tree of a sample or a hang as a flame graph, without any server.

use clap::{ArgMatches, FromArgMatches, Parser, ValueEnum};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use unslide_calltree::{CallTree, GraphPlace, TreeDifference, difference_graph, flame_graph};
use unslide_captures_formats::profile::{MOST_BYTES, read_profile};
use unslide_cli::input::read_input;
use unslide_cli::symbols::{BuildArguments, Lacking, Library};
use unslide_cli::{BoxError, CommandError, Console, Exit, Outcome, note};
use unslide_report::text::escape_line;

/// Draw the call tree of a sample, a hang or a MetricKit diagnostic as a flame graph, without any server
#[derive(Parser)]
#[command(
    name = "flame",
    after_help = "\
FILE is the text of sample or spindump, a report of a hang, of CPU use or of disk writes, MetricKit's JSON, or folded
stacks; also packed with gzip or zstd.

Examples:
  unslide flame --symbols MyApp.xcarchive -o hang.svg hang.txt
  unslide flame --format path diagnostics.json
  unslide flame --diff after.txt -o difference.svg before.txt"
)]
pub struct Arguments {
    /// The profile, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A dSYM, a Mach-O file, an archive of them (zip, tar.gz), or a folder that is searched for dSYMs and
    /// Mach-O files; may be given more than once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// A later profile: the graph shows what has grown since FILE, and what has shrunk
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
    /// A flame graph, folded stacks, or the heaviest path of the tree and of the app's own functions in it
    #[arg(long, value_enum, default_value_t = FlameFormat::Svg)]
    format: FlameFormat,
    /// The file to write; standard output if it is left out
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

/// How a call tree is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FlameFormat {
    /// A flame graph as an SVG file
    Svg,
    /// A line for each stack with its own count
    Folded,
    /// The heaviest path through the call tree
    Path,
}

/// Reads the profile, or both, and writes what was asked for.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    if arguments.diff.is_some() && arguments.format != FlameFormat::Svg {
        return Err(CommandError::usage("--diff goes with --format svg only").into());
    }
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let mut lacking = Lacking::default();
    let tree = read_tree(&arguments.file, &library, &mut lacking)?;
    let title = title_from_path(&arguments.file);
    let text = match (&arguments.diff, arguments.format) {
        (Some(other), _) => {
            let after = read_tree(other, &library, &mut lacking)?;
            let names = format!("{title} \u{2192} {}", self::title_from_path(other));
            difference_graph(&TreeDifference::from_trees(&tree, &after), &names, GraphPlace::File)
        }
        (None, FlameFormat::Svg) => flame_graph(&tree, &title, GraphPlace::File),
        (None, FlameFormat::Folded) => tree.to_folded(),
        (None, FlameFormat::Path) => format_paths(&tree),
    };
    write_output(arguments.output.as_deref(), &text)?;
    lacking.print_lacking(&library);
    Ok(Exit::Ready)
}

/// Writes to a file, or to standard output.
pub fn write_output(path: Option<&Path>, text: &str) -> Result<(), BoxError> {
    match path {
        Some(path) => {
            fs::write(path, text)
                .map_err(|error| CommandError::caused(format!("cannot write {}", path.display()), error))?;
        }
        None => Console::get().write_bytes(text.as_bytes()),
    }
    Ok(())
}

fn read_tree(path: &Path, library: &Library, lacking: &mut Lacking) -> Result<CallTree, BoxError> {
    let bytes = read_input(path, MOST_BYTES).map_err(|error| CommandError::cannot_read(path, error))?;
    let profile = read_profile(&bytes).map_err(|error| CommandError::cannot_read(path, error))?;
    if profile.skipped > 0 {
        note!("{}: {} lines or frames were skipped", path.display(), profile.skipped);
    }
    let symbolicated = profile.symbolicate(&|id| library.find_symbols(id));
    if symbolicated.left_out > 0 {
        let left_out = symbolicated.left_out;
        note!(
            "{}: {left_out} addresses have no names: the functions at all of them are too many",
            path.display()
        );
    }
    if symbolicated.tree.cut_frames() > 0 {
        note!("{}: {} frames are beyond the limits", path.display(), symbolicated.tree.cut_frames());
    }
    lacking.add_images(symbolicated.lacking);
    Ok(symbolicated.tree)
}

fn title_from_path(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns the heaviest path through the tree, and through the app's own functions in it.
fn format_paths(tree: &CallTree) -> String {
    let mut text = format!("heaviest path, of {} {}:\n", tree.total().weight, tree.unit());
    add_path(&mut text, tree);
    let own = tree.to_app_tree();
    if own.node_count() > 1 {
        text.push_str("heaviest path of the app's own functions:\n");
        add_path(&mut text, &own);
    }
    text
}

fn add_path(text: &mut String, tree: &CallTree) {
    for index in tree.heaviest_path() {
        let (node, frame) = (tree.node(index), tree.frame(index));
        let image = if frame.image.is_empty() { String::new() } else { format!("  ({})", frame.image) };
        let place =
            node.place.as_ref().map_or_else(String::new, |place| format!("  {}:{}", place.file, place.line));
        let line = format!("{}{image}{place}", frame.name);
        // Writing to a string has no error.
        let _ = writeln!(text, "{:>10}  {}", node.total.weight, escape_line(&line));
    }
}
