//! Reading a snapshot as a stream: each chunk is bounded before it is read, and each row is checked before it is used.

use super::graph::{
    ClassKind, ClassMember, GraphClass, GraphRegion, GraphRoot, MemoryGraph, NodeReference, ReferenceKind,
    RootKind,
};
use super::write::FORMAT;
use crate::profile::{ImageRanges, ProfileImage};
use std::io::{self, Read};
use unslide_model::DebugId;
use unslide_proto::Message;
use unslide_proto::signal::{
    MemoryClass, MemoryGraphEnd, MemoryGraphHeader, MemoryImage, MemoryMember, MemoryNodes, MemoryReferences,
    MemoryRegion, MemoryRoots, MemoryZone,
};

/// The most bytes of a chunk.
pub const MOST_CHUNK_BYTES: u64 = 1 << 20;
/// The most images, and the most malloc zones.
const MOST_IMAGES: usize = 1 << 16;
const MOST_ZONES: usize = 1 << 12;
/// The most classes, ranges of pages, and roots.
const MOST_CLASSES: usize = 1 << 20;
const MOST_REGIONS: usize = 1 << 20;
const MOST_ROOTS: usize = 1 << 24;
/// The most members of all classes. Each takes some 60 bytes and its names.
const MOST_MEMBERS: usize = 1 << 18;
/// The most bytes of a name or a path, and of all of them.
const MOST_NAME: usize = 16 << 10;
const MOST_NAME_BYTES: usize = 256 << 20;

/// How much of a snapshot is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryGraphLimits {
    /// The most nodes. Each takes up to some 70 bytes while the graph is analysed.
    pub nodes: usize,
    /// The most references. Each takes twelve bytes.
    pub references: usize,
}

impl Default for MemoryGraphLimits {
    fn default() -> MemoryGraphLimits {
        MemoryGraphLimits { nodes: 1 << 26, references: 1 << 28 }
    }
}

/// Why bytes are no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum MemoryGraphError {
    #[error("cannot read the memory graph")]
    Io(#[from] io::Error),
    /// It does not begin like one.
    #[error("neither a memory graph nor the text of heap, leaks, vmmap or footprint")]
    NotAMemoryGraph,
    /// A property list of Apple's tools.
    #[error(
        "a .memgraph file, whose layout Apple does not publish; send the text that heap, leaks, vmmap or footprint prints for it"
    )]
    Opaque,
    /// A chunk is damaged, or has impossible values.
    #[error("memory graph, chunk at byte {at}: {problem}")]
    Wrong {
        /// The position at which the chunk begins.
        at: u64,
        problem: String,
    },
    #[error("the memory graph has more than {limit} {what}")]
    TooMany {
        /// The kind of part of which there are too many.
        what: &'static str,
        limit: usize,
    },
}

/// Returns true if bytes begin like a snapshot.
#[must_use]
pub fn is_memory_graph(head: &[u8]) -> bool {
    // The header is the first field, and the format is the first field of the header.
    let format = head.strip_prefix(&[0x0A]).and_then(|rest| {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)?;
        rest.get(length + 1..)?.strip_prefix(&[0x0A, FORMAT.len() as u8])
    });
    format.is_some_and(|format| format.starts_with(FORMAT.as_bytes()))
}

/// Reads a snapshot.
///
/// # Errors
/// Returns an error if the input is no snapshot, is damaged or cut, or is beyond the limits.
pub fn read_memory_graph(
    input: impl Read,
    limits: &MemoryGraphLimits,
) -> Result<MemoryGraph, MemoryGraphError> {
    let mut reader = GraphReader { limits: *limits, ..GraphReader::default() };
    let mut chunks = Chunks { input, at: 0, start: 0, bytes: Vec::new() };
    while let Some(field) = chunks.next()? {
        reader.read_field(field, &chunks.bytes).map_err(|problem| problem.into_error_at(chunks.start))?;
        if reader.is_done {
            return Ok(reader.into_graph());
        }
    }
    Err(GraphProblem::from("the file ends before its end chunk").into_error_at(chunks.at))
}

/// The chunks of a stream, one in memory at a time.
struct Chunks<R> {
    input: R,
    at: u64,
    /// The position at which the chunk in memory begins.
    start: u64,
    bytes: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    /// Returns the number of the field that was read into memory, or `None` at the end.
    fn next(&mut self) -> Result<Option<u64>, MemoryGraphError> {
        self.start = self.at;
        let Some(key) = self.read_number()? else { return Ok(None) };
        let not_a_chunk = |start| match start {
            0 => MemoryGraphError::NotAMemoryGraph,
            start => GraphProblem::from("this is no chunk").into_error_at(start),
        };
        if key & 7 != 2 || self.start == 0 && key >> 3 != 1 {
            return Err(not_a_chunk(self.start));
        }
        let length = self.read_number()?.ok_or_else(|| not_a_chunk(self.start))?;
        if length > MOST_CHUNK_BYTES {
            let problem = format!("it has {length} bytes, the limit is {MOST_CHUNK_BYTES}");
            return Err(GraphProblem::Wrong(problem).into_error_at(self.start));
        }
        self.bytes.clear();
        let read = (&mut self.input).take(length).read_to_end(&mut self.bytes)?;
        self.at += read as u64;
        if (read as u64) < length {
            return Err(GraphProblem::from("the file ends in it").into_error_at(self.start));
        }
        Ok(Some(key >> 3))
    }

    /// Reads a number of up to ten bytes. Returns `None` at the end.
    fn read_number(&mut self) -> Result<Option<u64>, MemoryGraphError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            if self.input.read(&mut byte)? == 0 {
                return if shift == 0 {
                    Ok(None)
                } else {
                    Err(GraphProblem::from("the file ends in it").into_error_at(self.start))
                };
            }
            self.at += 1;
            value |= u64::from(byte[0] & 0x7F) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(Some(value));
            }
        }
        Err(GraphProblem::from("its length is no number").into_error_at(self.start))
    }
}

/// A problem with a chunk.
enum GraphProblem {
    Wrong(String),
    TooMany { what: &'static str, limit: usize },
}

impl GraphProblem {
    fn into_error_at(self, at: u64) -> MemoryGraphError {
        match self {
            GraphProblem::Wrong(problem) => MemoryGraphError::Wrong { at, problem },
            GraphProblem::TooMany { what, limit } => MemoryGraphError::TooMany { what, limit },
        }
    }
}

impl From<&str> for GraphProblem {
    fn from(problem: &str) -> GraphProblem {
        GraphProblem::Wrong(problem.to_owned())
    }
}

/// A graph that is being read.
#[derive(Default)]
struct GraphReader {
    limits: MemoryGraphLimits,
    graph: MemoryGraph,
    /// The field that was read last.
    field: u64,
    name_bytes: usize,
    member_count: usize,
    /// The first address after the last node.
    node_end: u64,
    last_address: u64,
    last_source: u32,
    last_root: u32,
    is_done: bool,
}

impl GraphReader {
    fn read_field(&mut self, field: u64, bytes: &[u8]) -> Result<(), GraphProblem> {
        // A later version may add fields behind the end that is known, never before the header.
        if self.field == 0 && field != 1 || field == 1 && self.field == 1 {
            return Err("there is one header, at the beginning".into());
        }
        if field < self.field {
            return Err("chunks do not stand in the order of their numbers".into());
        }
        self.field = field;
        match field {
            1 => self.read_header(&decode_message(bytes)?),
            2 => self.read_image(decode_message(bytes)?),
            3 => self.read_class(decode_message(bytes)?),
            4 => self.read_zone(decode_message(bytes)?),
            5 => self.read_region(decode_message(bytes)?),
            6 => self.read_nodes(&decode_message(bytes)?),
            7 => self.read_references(&decode_message(bytes)?),
            8 => self.read_roots(&decode_message(bytes)?),
            9 => self.read_end(&decode_message(bytes)?),
            _ => Err("its number is not known".into()),
        }
    }

    fn read_header(&mut self, header: &MemoryGraphHeader) -> Result<(), GraphProblem> {
        if header.format != FORMAT {
            return Err("it is of another format".into());
        }
        self.check_name(&header.process)?;
        self.graph.process.clone_from(&header.process);
        self.graph.at_micros = header.at_micros;
        Ok(())
    }

    fn check_name(&mut self, name: &str) -> Result<(), GraphProblem> {
        self.name_bytes += name.len();
        if name.len() > MOST_NAME {
            return Err("a name is too long".into());
        }
        at_most("bytes of names", self.name_bytes, MOST_NAME_BYTES)
    }

    fn read_image(&mut self, image: MemoryImage) -> Result<(), GraphProblem> {
        at_most("images", self.graph.images.len() + 1, MOST_IMAGES)?;
        self.check_name(&image.path)?;
        let debug_id = match image.debug_id.len() {
            0 => None,
            _ => Some(DebugId(image.debug_id[..].try_into().map_err(|_| "a debug id has not 16 bytes")?)),
        };
        let end = image.address.checked_add(image.size).ok_or("an image ends after the last address")?;
        self.graph.images.push(ProfileImage {
            name: image.path.rsplit('/').next().unwrap_or_default().to_owned(),
            path: image.path,
            debug_id,
            start: image.address,
            end: Some(end).filter(|_| image.size > 0),
            kernel: false,
        });
        Ok(())
    }

    fn read_class(&mut self, class: MemoryClass) -> Result<(), GraphProblem> {
        at_most("classes", self.graph.classes.len() + 1, MOST_CLASSES)?;
        self.check_name(&class.name)?;
        let kind = match class.kind {
            1 => ClassKind::ObjectiveC,
            2 => ClassKind::Swift,
            3 => ClassKind::Cpp,
            4 => ClassKind::CoreFoundation,
            _ => ClassKind::Unknown,
        };
        let members = self.read_members(class.members)?;
        let (name, address) = (class.name, class.address);
        self.graph.classes.push(GraphClass { name, kind, address, image: None, members });
        Ok(())
    }

    fn read_members(&mut self, members: Vec<MemoryMember>) -> Result<Box<[ClassMember]>, GraphProblem> {
        self.member_count += members.len();
        at_most("members of classes", self.member_count, MOST_MEMBERS)?;
        if !members.is_sorted_by(|before, after| before.offset < after.offset) {
            return Err("the members of a class are not sorted by offset".into());
        }
        for member in &members {
            if member.name.is_empty() && member.stride == 0 {
                return Err("a member that is no array has no name".into());
            }
            self.check_name(&member.name)?;
            self.check_name(&member.r#type)?;
        }
        let read = members.into_iter().map(|member| ClassMember {
            offset: member.offset,
            stride: member.stride,
            name: member.name,
            type_name: member.r#type,
        });
        Ok(read.collect())
    }

    fn read_zone(&mut self, zone: MemoryZone) -> Result<(), GraphProblem> {
        at_most("malloc zones", self.graph.zones.len() + 1, MOST_ZONES)?;
        self.check_name(&zone.name)?;
        self.graph.zones.push(zone.name);
        Ok(())
    }

    fn read_region(&mut self, region: MemoryRegion) -> Result<(), GraphProblem> {
        at_most("regions", self.graph.regions.len() + 1, MOST_REGIONS)?;
        self.check_name(&region.path)?;
        region.address.checked_add(region.size).ok_or("a region ends after the last address")?;
        self.graph.regions.push(GraphRegion {
            address: region.address,
            size: region.size,
            tag: u8::try_from(region.tag).map_err(|_| "a tag is larger than 255")?,
            dirty: region.dirty,
            swapped: region.swapped,
            resident: region.resident,
            protection: region.protection,
            path: region.path,
        });
        Ok(())
    }

    fn read_nodes(&mut self, nodes: &MemoryNodes) -> Result<(), GraphProblem> {
        let rows = nodes.address_deltas.len();
        if nodes.sizes.len() != rows {
            return Err("its columns are not equally long".into());
        }
        check_optional_column(rows, nodes.classes.len())?;
        check_optional_column(rows, nodes.zones.len())?;
        at_most("nodes", self.graph.node_count() + rows, self.limits.nodes)?;
        for (row, (delta, size)) in nodes.address_deltas.iter().zip(&nodes.sizes).enumerate() {
            let address =
                self.last_address.checked_add(*delta).ok_or("a node lies after the last address")?;
            if address < self.node_end || *delta == 0 && self.graph.node_count() > 0 {
                return Err("nodes lie over each other or are not sorted by address".into());
            }
            self.last_address = address;
            self.node_end = address.checked_add(*size).ok_or("a node ends after the last address")?;
            let class = nodes.classes.get(row).copied().unwrap_or(0);
            let zone = nodes.zones.get(row).copied().unwrap_or(0);
            if class as usize > self.graph.classes.len() || zone as usize > self.graph.zones.len() {
                return Err("the class or the zone of a node is not there".into());
            }
            self.graph.addresses.push(address);
            self.graph.sizes.push(*size);
            self.graph.node_classes.push(class);
            self.graph.node_zones.push(u16::try_from(zone).unwrap_or(u16::MAX));
        }
        Ok(())
    }

    fn read_references(&mut self, references: &MemoryReferences) -> Result<(), GraphProblem> {
        let rows = references.source_deltas.len();
        if references.target_deltas.len() != rows {
            return Err("its columns are not equally long".into());
        }
        check_optional_column(rows, references.kinds.len())?;
        check_optional_column(rows, references.offsets.len())?;
        at_most("references", self.graph.references.len() + rows, self.limits.references)?;
        let nodes = self.graph.node_count();
        for (row, (delta, target)) in
            references.source_deltas.iter().zip(&references.target_deltas).enumerate()
        {
            let source = self.last_source.checked_add(*delta).filter(|source| (*source as usize) < nodes);
            let source = source.ok_or("the source of a reference is not there")?;
            let target = i64::from(source).checked_add(*target).and_then(|target| u32::try_from(target).ok());
            let target = target.filter(|target| (*target as usize) < nodes);
            let target = target.ok_or("the target of a reference is not there")?;
            let kind = references.kinds.get(row).map_or(Some(0), |kind| usize::try_from(*kind).ok());
            let kind = kind.and_then(|kind| ReferenceKind::ALL.get(kind).copied());
            let kind = kind.ok_or("the kind of a reference is not known")?;
            self.last_source = source;
            self.graph.edges.push(source, target);
            self.graph.references.push(NodeReference::new(kind, references.offsets.get(row).copied()));
        }
        Ok(())
    }

    fn read_roots(&mut self, roots: &MemoryRoots) -> Result<(), GraphProblem> {
        let rows = roots.node_deltas.len();
        check_optional_column(rows, roots.kinds.len())?;
        check_optional_column(rows, roots.addresses.len())?;
        at_most("roots", self.graph.roots.len() + rows, MOST_ROOTS)?;
        let nodes = self.graph.node_count();
        for (row, delta) in roots.node_deltas.iter().enumerate() {
            let node = self.last_root.checked_add(*delta).filter(|node| (*node as usize) < nodes);
            let node = node.ok_or("the node of a root is not there")?;
            let kind = match roots.kinds.get(row).copied().unwrap_or(0) {
                1 => RootKind::Global,
                2 => RootKind::Stack,
                3 => RootKind::Register,
                4 => RootKind::Thread,
                _ => RootKind::Unknown,
            };
            self.last_root = node;
            let address = roots.addresses.get(row).copied().unwrap_or(0);
            self.graph.roots.push(GraphRoot { node, kind, address });
        }
        Ok(())
    }

    fn read_end(&mut self, end: &MemoryGraphEnd) -> Result<(), GraphProblem> {
        let graph = &self.graph;
        let found = [graph.node_count(), graph.references.len(), graph.roots.len()].map(|count| count as u64);
        if [end.nodes, end.references, end.roots] != found {
            let [nodes, references, roots] = found;
            let problem = format!(
                "it counts {} nodes, {} references and {} roots; there are {nodes}, {references} and {roots}",
                end.nodes, end.references, end.roots
            );
            return Err(GraphProblem::Wrong(problem));
        }
        self.is_done = true;
        Ok(())
    }

    fn into_graph(mut self) -> MemoryGraph {
        let nodes = u32::try_from(self.graph.node_count()).unwrap_or(u32::MAX);
        self.graph.edges.finish(nodes);
        let ranges = ImageRanges::from_images(&self.graph.images, 0);
        for class in &mut self.graph.classes {
            class.image = ranges.find_image(class.address).filter(|_| class.address != 0);
        }
        self.graph
    }
}

fn decode_message<M: Message + Default>(bytes: &[u8]) -> Result<M, GraphProblem> {
    M::decode(bytes).map_err(|error| GraphProblem::Wrong(error.to_string()))
}

fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), GraphProblem> {
    if found > limit { Err(GraphProblem::TooMany { what, limit }) } else { Ok(()) }
}

/// Checks a column that may be left out.
fn check_optional_column(rows: usize, found: usize) -> Result<(), GraphProblem> {
    if found == 0 || found == rows { Ok(()) } else { Err("its columns are not equally long".into()) }
}
