//! A snapshot in memory: nodes and references as columns, four bytes for each number.

use super::algorithms::EdgeLists;
use crate::profile::ProfileImage;
use serde::Serialize;

/// How a node is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceKind {
    /// It keeps its target alive.
    Strong,
    /// It is cleared when its target goes.
    Weak,
    /// It must not outlive its target.
    Unowned,
    Unmanaged,
    /// Bytes that look like an address: they may be a reference.
    Conservative,
}

impl ReferenceKind {
    pub(super) const ALL: [ReferenceKind; 5] = [
        ReferenceKind::Strong,
        ReferenceKind::Weak,
        ReferenceKind::Unowned,
        ReferenceKind::Unmanaged,
        ReferenceKind::Conservative,
    ];

    /// Returns true if a reference of this kind keeps its target in use.
    #[must_use]
    pub fn keeps_alive(self) -> bool {
        matches!(self, ReferenceKind::Strong | ReferenceKind::Conservative)
    }
}

/// A reference: its kind, and its offset in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReference(u32);

/// The offset of a reference at an unknown place.
const NO_OFFSET: u32 = u32::MAX >> KIND_BITS;
const KIND_BITS: u32 = 3;

impl NodeReference {
    /// Creates a reference. Drops an offset of half a gigabyte or more.
    #[must_use]
    pub fn new(kind: ReferenceKind, offset: Option<u32>) -> NodeReference {
        let offset = offset.filter(|offset| *offset < NO_OFFSET).unwrap_or(NO_OFFSET);
        NodeReference(offset << KIND_BITS | kind as u32)
    }

    #[must_use]
    pub fn kind(self) -> ReferenceKind {
        let code = (self.0 & ((1 << KIND_BITS) - 1)) as usize;
        ReferenceKind::ALL.get(code).copied().unwrap_or(ReferenceKind::Conservative)
    }

    /// Returns the offset of the reference in its source, in bytes. Returns `None` if it is not known.
    #[must_use]
    pub fn offset(self) -> Option<u32> {
        Some(self.0 >> KIND_BITS).filter(|offset| *offset != NO_OFFSET)
    }
}

/// The kind of place outside of the heap that refers to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    Unknown,
    Global,
    Stack,
    Register,
    /// A variable of one thread.
    Thread,
}

/// A reference from outside of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphRoot {
    pub node: u32,
    /// The kind of place that refers to it.
    pub kind: RootKind,
    /// The address of the reference; 0 if it is not known.
    pub address: u64,
}

/// The language of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassKind {
    Unknown,
    ObjectiveC,
    Swift,
    Cpp,
    CoreFoundation,
}

/// A member of a class that refers to other blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassMember {
    /// Its offset in an instance, in bytes.
    pub offset: u32,
    /// The bytes of each element of an array inside of the block; 0 if the member is none.
    pub stride: u32,
    /// Its name; empty if the block itself is the array.
    pub name: String,
    /// Its type, or the type of the elements; empty if it is not known.
    pub type_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphClass {
    /// Its name; empty if neither the file nor symbols have one.
    pub name: String,
    pub kind: ClassKind,
    /// The address of its class object, of its metadata or in its vtable; 0 if it is not known.
    pub address: u64,
    /// The position of the image that the address lies in.
    pub image: Option<u32>,
    /// The members that refer to other blocks, by offset.
    pub members: Box<[ClassMember]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphRegion {
    /// The address of its first byte.
    pub address: u64,
    pub size: u64,
    /// The tag of virtual memory.
    pub tag: u8,
    pub dirty: u64,
    /// Bytes that are compressed or swapped out.
    pub swapped: u64,
    pub resident: u64,
    /// Bits: 1 read, 2 write, 4 execute.
    pub protection: u32,
    /// The file that is mapped; empty without one.
    pub path: String,
}

/// A snapshot of the memory of a process. Nodes are blocks of memory, numbered by address.
#[derive(Clone, Debug, Default)]
pub struct MemoryGraph {
    /// The name of the process.
    pub process: String,
    /// The time of the snapshot, in microseconds since 1970; 0 if it is not known.
    pub at_micros: i64,
    /// The binaries of the process.
    pub images: Vec<ProfileImage>,
    pub classes: Vec<GraphClass>,
    /// The names of malloc's zones.
    pub zones: Vec<String>,
    pub regions: Vec<GraphRegion>,
    /// References from outside of the heap, by node.
    pub roots: Vec<GraphRoot>,
    pub(super) addresses: Vec<u64>,
    pub(super) sizes: Vec<u64>,
    /// The position of the class of each node, and one more.
    pub(super) node_classes: Vec<u32>,
    /// The position of the zone of each node, and one more.
    pub(super) node_zones: Vec<u16>,
    pub(super) edges: EdgeLists,
    pub(super) references: Vec<NodeReference>,
}

impl MemoryGraph {
    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.addresses.len()
    }

    /// Returns the address of a node.
    #[must_use]
    pub fn node_address(&self, node: u32) -> u64 {
        self.addresses.get(node as usize).copied().unwrap_or(0)
    }

    /// Returns the bytes of a node.
    #[must_use]
    pub fn node_size(&self, node: u32) -> u64 {
        self.sizes.get(node as usize).copied().unwrap_or(0)
    }

    /// Returns the position of a node's class.
    #[must_use]
    pub fn node_class(&self, node: u32) -> Option<u32> {
        self.node_classes.get(node as usize)?.checked_sub(1)
    }

    /// Returns the node that contains an address.
    #[must_use]
    pub fn node_at(&self, address: u64) -> Option<u32> {
        let at = self.addresses.partition_point(|start| *start <= address).checked_sub(1)?;
        let inside = address - self.addresses.get(at)? < self.sizes.get(at).copied()?.max(1);
        u32::try_from(at).ok().filter(|_| inside)
    }

    /// Returns the references between nodes.
    #[must_use]
    pub fn edges(&self) -> &EdgeLists {
        &self.edges
    }

    /// Returns the kind and the place of an edge.
    #[must_use]
    pub fn edge_reference(&self, edge: usize) -> NodeReference {
        self.references.get(edge).copied().unwrap_or(NodeReference::new(ReferenceKind::Conservative, None))
    }

    /// Returns true if an edge keeps its target alive.
    #[must_use]
    pub fn keeps_alive(&self, edge: usize) -> bool {
        self.references.get(edge).is_some_and(|reference| reference.kind().keeps_alive())
    }

    /// Returns the name of a node's class for people.
    #[must_use]
    pub fn class_name(&self, node: u32) -> String {
        self.node_class(node).map_or_else(|| NO_CLASS.to_owned(), |class| self.name_of_class(class))
    }

    /// Returns the name of a class for people: its offset in its image, if nothing names it.
    #[must_use]
    pub fn name_of_class(&self, class: u32) -> String {
        let Some(class) = self.classes.get(class as usize) else { return NO_CLASS.to_owned() };
        if !class.name.is_empty() {
            return class.name.clone();
        }
        match class.image.and_then(|image| self.images.get(image as usize)) {
            Some(image) => format!("class at {} + {}", image.name, class.address.saturating_sub(image.start)),
            None => format!("class at {:#x}", class.address),
        }
    }
}

/// The name of nodes without a class.
pub const NO_CLASS: &str = "non-object";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_kind_and_its_offset() {
        for kind in ReferenceKind::ALL {
            for offset in [None, Some(0), Some(8), Some(NO_OFFSET - 1)] {
                let reference = NodeReference::new(kind, offset);
                assert_eq!((reference.kind(), reference.offset()), (kind, offset));
            }
            assert_eq!(NodeReference::new(kind, Some(u32::MAX)).offset(), None);
        }
    }
}
