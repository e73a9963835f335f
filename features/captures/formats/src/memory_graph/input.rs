//! Any file about memory: a snapshot, or the text of a tool.

use super::graph::MemoryGraph;
use super::read::{MemoryGraphError, MemoryGraphLimits, is_memory_graph, read_memory_graph};
use super::tables::MemoryTables;
use super::tool_text::{MOST_TEXT_BYTES, read_tool_text};
use std::io::Read;

/// The bytes that show the format of a file.
const HEAD_BYTES: u64 = 64;

/// The content of a file about memory.
#[derive(Debug)]
pub enum MemoryFile {
    /// A snapshot.
    Graph(Box<MemoryGraph>),
    /// The totals that the text of a tool has.
    Text(Box<MemoryTables>),
}

/// Reads a snapshot, or the text of `heap`, `leaks`, `vmmap` or `footprint`; the first bytes say which.
///
/// # Errors
/// Returns an error if the input is neither, is damaged or cut, or is beyond the limits. A `.memgraph` is
/// recognised and not read.
pub fn read_memory(mut input: impl Read, limits: &MemoryGraphLimits) -> Result<MemoryFile, MemoryGraphError> {
    let mut bytes = Vec::new();
    (&mut input).take(HEAD_BYTES).read_to_end(&mut bytes)?;
    if is_memory_graph(&bytes) {
        return Ok(MemoryFile::Graph(Box::new(read_memory_graph(bytes.as_slice().chain(input), limits)?)));
    }
    if bytes.starts_with(b"bplist00") {
        return Err(MemoryGraphError::Opaque);
    }
    input.take(MOST_TEXT_BYTES as u64).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_TEXT_BYTES {
        return Err(MemoryGraphError::TooMany { what: "bytes of text", limit: MOST_TEXT_BYTES });
    }
    let tables = read_tool_text(&decode_text(bytes)).ok_or(MemoryGraphError::NotAMemoryGraph)?;
    Ok(MemoryFile::Text(Box::new(tables)))
}

/// Returns the text, with a question mark for bytes that are no UTF-8, so that it is no longer than the
/// bytes.
fn decode_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let chunks = error.as_bytes().utf8_chunks();
        chunks.flat_map(|chunk| [chunk.valid(), if chunk.invalid().is_empty() { "" } else { "?" }]).collect()
    })
}
