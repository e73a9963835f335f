//! The functions that created the objects of a graph, by a log of allocations.

use super::super::malloc_log::form::read_file;
use super::{Arguments, LIST_ENTRIES};
use serde::Serialize;
use unslide_captures_formats::malloc::Replay;
use unslide_captures_formats::memory_graph::{
    BlockOrigin, BlockOrigins, ClassOrigin, MemoryGraph, OriginLog,
};
use unslide_cli::symbols::{Lacking, Library};
use unslide_cli::{BoxError, CommandError, Table, note, say};
use unslide_model::DebugId;

/// Rows that people are shown.
const SHOWN_ROWS: usize = 20;
/// Functions of a stack that are listed.
const MOST_FUNCTIONS: usize = 512;
/// Functions of a stack that people are shown.
const SHOWN_FUNCTIONS: usize = 40;

/// The functions that created the objects of a graph.
#[derive(Serialize)]
pub struct Origins {
    /// The classes, each with a function that created blocks of it.
    classes: Vec<ClassOrigin>,
    /// The record that created the requested block. Absent if the log does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<BlockOrigin>,
    /// Blocks that the log does not have.
    unknown_blocks: u64,
}

/// Reads the log, and finds the blocks of the graph in it. Returns None if no log is named.
pub fn find_origins(
    arguments: &Arguments,
    graph: &MemoryGraph,
    node: Option<u32>,
    library: &Library,
    lacking: &mut Lacking,
) -> Result<Option<Origins>, BoxError> {
    let (Some(path), Some(table_path)) = (&arguments.log, &arguments.stacks) else { return Ok(None) };
    let (events, stacks) = (read_file(path)?, read_file(table_path)?);
    let log = arguments.form.read_log(path, events.as_ref())?;
    let table = arguments.form.read_table(table_path, stacks.as_ref())?;
    let own_images = arguments.form.read_image_list()?;
    // The graph is of the same process.
    let images = if own_images.is_empty() { &graph.images } else { &own_images };
    if let Some(at) = arguments.at.filter(|at| *at > log.len()) {
        let text = format!("--at {at}: the log has {} events", log.len());
        return Err(CommandError::usage(text).into());
    }
    let mut replay = Replay::new(log).map_err(|error| CommandError::cannot_read(path, error))?;
    replay.advance_to(arguments.at.unwrap_or(usize::MAX));
    let log = OriginLog { live: replay.live(), table, images };
    let found = BlockOrigins::from_log(graph, &log, &|id: &DebugId| library.find_symbols(id));
    lacking.add_images(found.lacking().to_vec());
    let block = node.and_then(|node| found.find_origin(node, MOST_FUNCTIONS));
    let mut classes = found.list_classes();
    classes.truncate(LIST_ENTRIES);
    Ok(Some(Origins { classes, block, unknown_blocks: found.unknown_blocks }))
}

impl Origins {
    /// Prints the record that created a block, with its stack.
    pub fn print_block(&self) {
        let Some(BlockOrigin { record, thread, functions, .. }) = &self.block else {
            return say!("the log does not have the event that created it");
        };
        let thread = thread.as_deref().unwrap_or("unknown");
        say!("created by event {record} in thread {thread}:");
        functions.iter().take(SHOWN_FUNCTIONS).for_each(|function| say!("    {function}"));
        let more = functions.len().saturating_sub(SHOWN_FUNCTIONS);
        if more > 0 {
            say!("    and {more} more");
        }
    }

    /// Prints which functions created the blocks of each class.
    pub fn print_classes(&self) {
        if self.unknown_blocks > 0 {
            note!("the log does not have {} blocks of the graph", self.unknown_blocks);
        }
        if self.classes.is_empty() {
            return;
        }
        say!("created by:");
        let mut table = Table::new(&["BYTES", "BLOCKS", "CLASS", "FUNCTION"]);
        for row in self.classes.iter().take(SHOWN_ROWS) {
            let numbers = [row.bytes, row.blocks].map(|number| number.to_string());
            let [bytes, blocks] = numbers;
            table.add_row([bytes, blocks, row.class.clone(), row.function.clone()]);
        }
        table.print();
    }
}
