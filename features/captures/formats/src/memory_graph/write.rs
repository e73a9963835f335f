//! Writing a snapshot: chunks one after another, so that nothing is held in memory for long.

use super::graph::{ClassKind, ReferenceKind, RootKind};
use std::io::{self, Write};
use unslide_proto::Message;
use unslide_proto::signal::{
    MemoryClass, MemoryGraphEnd, MemoryGraphHeader, MemoryImage, MemoryMember, MemoryNodes, MemoryReferences,
    MemoryRegion, MemoryRoots, MemoryZone,
};

/// The format that the header of a snapshot names.
pub const FORMAT: &str = "unslide.memory-graph";
const CHUNK_ROWS: usize = 1 << 15;

/// Writes a snapshot. Its parts come in the order of the methods; nodes by address, references by source, and roots by
/// node.
#[derive(Debug)]
pub struct MemoryGraphWriter<W: Write> {
    output: W,
    nodes: MemoryNodes,
    references: MemoryReferences,
    roots: MemoryRoots,
    last: LastRows,
    counts: MemoryGraphEnd,
}

/// The values that the next row of each table is relative to.
#[derive(Debug, Default)]
struct LastRows {
    address: u64,
    source: u32,
    root: u32,
}

impl<W: Write> MemoryGraphWriter<W> {
    /// Begins a snapshot.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn new(mut output: W, process: &str, at_micros: i64) -> io::Result<MemoryGraphWriter<W>> {
        let header = MemoryGraphHeader { format: FORMAT.to_owned(), process: process.to_owned(), at_micros };
        write_chunk(&mut output, 1, &header)?;
        Ok(MemoryGraphWriter {
            output,
            nodes: MemoryNodes::default(),
            references: MemoryReferences::default(),
            roots: MemoryRoots::default(),
            last: LastRows::default(),
            counts: MemoryGraphEnd::default(),
        })
    }

    /// Adds an image.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_image(&mut self, image: &MemoryImage) -> io::Result<()> {
        write_chunk(&mut self.output, 2, image)
    }

    /// Adds a class. Its position is the number of those before it.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_class(&mut self, name: &str, kind: ClassKind, address: u64) -> io::Result<()> {
        self.add_class_with_members(name, kind, address, &[])
    }

    /// Adds a class with the members of its instances that refer to other blocks, sorted by offset.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_class_with_members(
        &mut self,
        name: &str,
        kind: ClassKind,
        address: u64,
        members: &[MemoryMember],
    ) -> io::Result<()> {
        let (name, members) = (name.to_owned(), members.to_vec());
        let class = MemoryClass { name, kind: kind as i32, address, members };
        write_chunk(&mut self.output, 3, &class)
    }

    /// Adds a malloc zone.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_zone(&mut self, name: &str) -> io::Result<()> {
        write_chunk(&mut self.output, 4, &MemoryZone { name: name.to_owned() })
    }

    /// Adds a range of pages.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_region(&mut self, region: &MemoryRegion) -> io::Result<()> {
        write_chunk(&mut self.output, 5, region)
    }

    /// Adds a node. Its class and its zone are positions.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_node(
        &mut self,
        address: u64,
        size: u64,
        class: Option<u32>,
        zone: Option<u32>,
    ) -> io::Result<()> {
        self.nodes.address_deltas.push(address.wrapping_sub(self.last.address));
        self.nodes.sizes.push(size);
        self.nodes.classes.push(class.map_or(0, |class| class + 1));
        self.nodes.zones.push(zone.map_or(0, |zone| zone + 1));
        self.last.address = address;
        self.counts.nodes += 1;
        if self.nodes.sizes.len() < CHUNK_ROWS { Ok(()) } else { self.write_nodes() }
    }

    /// Adds a reference between two nodes.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_reference(
        &mut self,
        source: u32,
        target: u32,
        kind: ReferenceKind,
        offset: u32,
    ) -> io::Result<()> {
        self.write_nodes()?;
        let references = &mut self.references;
        references.source_deltas.push(source.wrapping_sub(self.last.source));
        references.target_deltas.push(i64::from(target) - i64::from(source));
        references.kinds.push(kind as i32);
        references.offsets.push(offset);
        self.last.source = source;
        self.counts.references += 1;
        if references.kinds.len() < CHUNK_ROWS { Ok(()) } else { self.write_references() }
    }

    /// Adds a reference to a node from outside of the heap.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn add_root(&mut self, node: u32, kind: RootKind, address: u64) -> io::Result<()> {
        self.write_nodes()?;
        self.write_references()?;
        self.roots.node_deltas.push(node.wrapping_sub(self.last.root));
        self.roots.kinds.push(kind as i32);
        self.roots.addresses.push(address);
        self.last.root = node;
        self.counts.roots += 1;
        if self.roots.kinds.len() < CHUNK_ROWS { Ok(()) } else { self.write_roots() }
    }

    /// Ends the snapshot.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_nodes()?;
        self.write_references()?;
        self.write_roots()?;
        write_chunk(&mut self.output, 9, &self.counts)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write_nodes(&mut self) -> io::Result<()> {
        if self.nodes.sizes.is_empty() {
            return Ok(());
        }
        let mut nodes = std::mem::take(&mut self.nodes);
        for column in [&mut nodes.classes, &mut nodes.zones] {
            if column.iter().all(|number| *number == 0) {
                column.clear();
            }
        }
        write_chunk(&mut self.output, 6, &nodes)
    }

    fn write_references(&mut self) -> io::Result<()> {
        if self.references.kinds.is_empty() {
            return Ok(());
        }
        let mut references = std::mem::take(&mut self.references);
        if references.kinds.iter().all(|kind| *kind == 0) {
            references.kinds.clear();
        }
        write_chunk(&mut self.output, 7, &references)
    }

    fn write_roots(&mut self) -> io::Result<()> {
        if self.roots.kinds.is_empty() {
            return Ok(());
        }
        write_chunk(&mut self.output, 8, &std::mem::take(&mut self.roots))
    }
}

/// Writes a chunk, which is a field of the message `MemoryGraph`: its number and kind, its length, its bytes.
fn write_chunk(output: &mut impl Write, field: u8, message: &impl Message) -> io::Result<()> {
    let mut bytes = vec![field << 3 | 2];
    message.encode_length_delimited(&mut bytes).map_err(io::Error::other)?;
    output.write_all(&bytes)
}
