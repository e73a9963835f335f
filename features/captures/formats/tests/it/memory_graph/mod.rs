//! Graphs of memory: the format, the answers, and the algorithms beside those of `petgraph`.

mod algorithms;
mod answers;
mod format;

use unslide_captures_formats::memory_graph::{
    ClassKind, MemoryGraph, MemoryGraphLimits, MemoryGraphWriter, ReferenceKind, RootKind, read_memory_graph,
};

/// A node of an example: class and size.
type ExampleNode = (Option<u32>, u64);

/// A snapshot from its parts. Nodes lie one after another from 0x1000 on.
pub struct Example<'e> {
    pub classes: &'e [&'e str],
    pub nodes: &'e [ExampleNode],
    pub references: &'e [(u32, u32, ReferenceKind)],
    pub roots: &'e [u32],
}

impl Example<'_> {
    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 1).unwrap();
        for class in self.classes {
            writer.add_class(class, ClassKind::Swift, 0).unwrap();
        }
        writer.add_zone("DefaultMallocZone").unwrap();
        let mut address = 0x1000;
        for (class, size) in self.nodes {
            writer.add_node(address, *size, *class, Some(0)).unwrap();
            address += size + 16;
        }
        for (source, target, kind) in self.references {
            writer.add_reference(*source, *target, *kind, 8).unwrap();
        }
        for root in self.roots {
            writer.add_root(*root, RootKind::Global, 0x10_0000).unwrap();
        }
        writer.finish().unwrap()
    }

    /// The snapshot.
    pub fn read(&self) -> MemoryGraph {
        read_memory_graph(&self.bytes()[..], &MemoryGraphLimits::default()).unwrap()
    }
}

/// The file of a graph with these edges and roots, in any order.
pub fn random(nodes: u32, mut edges: Vec<(u32, u32, usize)>, mut roots: Vec<u32>) -> Vec<u8> {
    use ReferenceKind::{Conservative, Strong, Unmanaged, Unowned, Weak};
    edges.sort_unstable();
    roots.sort_unstable();
    let kinds = [Strong, Weak, Unowned, Unmanaged, Conservative];
    let references: Vec<_> = edges.iter().map(|(from, to, kind)| (*from, *to, kinds[*kind])).collect();
    let nodes: Vec<ExampleNode> =
        (0..nodes).map(|node| (node.checked_sub(1).map(|n| n % 2), u64::from(node) * 8)).collect();
    Example { classes: &["Cart", "Item"], nodes: &nodes, references: &references, roots: &roots }.bytes()
}
