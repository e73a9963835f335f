//! The analysis of a snapshot: large objects, the references that keep them alive, and leaks.

use super::algorithms::{Dominators, ShortestPaths};
use super::graph::{ClassKind, GraphRoot, MemoryGraph, NO_CLASS, RootKind};
use super::leaks::{LeakGroup, leak_groups};
use super::tables::{BlockRow, ClassRow, LeakRow, MemorySource, MemoryTables, PathStep, RegionRow, ZoneRow};
use crate::malloc::vm_tag_name;
use crate::profile::ProfileImage;
use std::cmp::Reverse;
use std::collections::HashMap;
use unslide_symbolicate::is_system_path;

/// Blocks that are listed as those that retain most.
const MOST_LARGEST: usize = 100;
/// Steps of a way that are listed; those in the middle are left out.
const MOST_STEPS: usize = 64;

/// A snapshot with its dominator tree, the ways from roots, and its leaks.
#[derive(Debug)]
pub struct GraphAnalysis<'g> {
    graph: &'g MemoryGraph,
    dominators: Dominators,
    retained: Vec<u64>,
    paths: ShortestPaths,
    leaks: Vec<LeakGroup>,
}

impl<'g> GraphAnalysis<'g> {
    /// Analyses a snapshot. Weak, unowned and unmanaged references keep nothing alive.
    #[must_use]
    pub fn from_graph(graph: &'g MemoryGraph) -> GraphAnalysis<'g> {
        let roots: Vec<u32> = graph.roots.iter().map(|root| root.node).collect();
        let keeps_alive = |edge| graph.keeps_alive(edge);
        let dominators = Dominators::from_edges(&graph.edges, &roots, keeps_alive);
        let retained = dominators.retained_sizes(|node| graph.node_size(node));
        let leaks = leak_groups(graph, &dominators);
        let paths = ShortestPaths::from_edges(&graph.edges, &roots, keeps_alive);
        GraphAnalysis { graph, dominators, retained, paths, leaks }
    }

    /// Returns the bytes that would be free without a node, or 0 if no root reaches it.
    #[must_use]
    pub fn retained_bytes(&self, node: u32) -> u64 {
        self.retained.get(node as usize).copied().unwrap_or(0)
    }

    pub(super) fn graph(&self) -> &'g MemoryGraph {
        self.graph
    }

    #[must_use]
    pub fn dominators(&self) -> &Dominators {
        &self.dominators
    }

    /// Returns the node of a class that retains most, else the largest one. The class is given by the name
    /// that people see.
    #[must_use]
    pub fn largest_of_class(&self, name: &str) -> Option<u32> {
        let numbers = 0..u32::try_from(self.graph.classes.len()).unwrap_or(u32::MAX);
        let named: Vec<bool> = numbers.map(|number| self.graph.name_of_class(number) == name).collect();
        let is_named = |node: &u32| match self.graph.node_class(*node) {
            Some(class) => named.get(class as usize).copied().unwrap_or(false),
            None => name == NO_CLASS,
        };
        let nodes = (0..self.graph.edges.node_count()).filter(is_named);
        nodes.max_by_key(|node| (self.retained_bytes(*node), self.graph.node_size(*node), Reverse(*node)))
    }

    /// Returns a node with the shortest path to it.
    #[must_use]
    pub fn describe_block(&self, node: u32) -> BlockRow {
        BlockRow {
            address: format_address(self.graph.node_address(node)),
            class: self.graph.class_name(node),
            bytes: self.graph.node_size(node),
            retained: self.retained_bytes(node),
            path: self.describe_path(node),
        }
    }

    fn describe_path(&self, node: u32) -> Vec<PathStep> {
        let path = self.paths.path_to(node, &self.graph.edges);
        let cut = path.len().saturating_sub(MOST_STEPS);
        let middle = MOST_STEPS / 2..MOST_STEPS / 2 + cut;
        let shown = path.iter().enumerate().filter(|(at, _)| !middle.contains(at));
        shown
            .map(|(at, (node, edge))| PathStep {
                left_out: if cut > 0 && at == middle.end { cut as u64 } else { 0 },
                ..self.describe_step(at.checked_sub(1).map(|before| path[before].0), *node, *edge)
            })
            .collect()
    }

    fn describe_step(&self, source: Option<u32>, node: u32, edge: Option<usize>) -> PathStep {
        let reference = edge.map(|edge| self.graph.edge_reference(edge));
        PathStep {
            address: format_address(self.graph.node_address(node)),
            class: self.graph.class_name(node),
            by: reference.map_or_else(|| self.describe_root(node), |reference| snake_case(&reference.kind())),
            offset: reference.and_then(super::graph::NodeReference::offset),
            member: source
                .zip(reference)
                .and_then(|(source, reference)| self.graph.member_at(source, reference)),
            left_out: 0,
        }
    }

    /// Describes the reference to a node from outside of the heap: its kind, and the image that contains it.
    fn describe_root(&self, node: u32) -> String {
        let at = self.graph.roots.partition_point(|root| root.node < node);
        let root = self.graph.roots.get(at);
        root.map_or_else(|| snake_case(&RootKind::Unknown), |root| self.describe_root_place(root))
    }

    pub(super) fn describe_root_place(&self, root: &GraphRoot) -> String {
        let holds = |image: &&ProfileImage| {
            image.start <= root.address && image.end.is_some_and(|end| root.address < end)
        };
        match self.graph.images.iter().find(holds) {
            Some(image) => format!("{} of {}", snake_case(&root.kind), image.name),
            None => snake_case(&root.kind),
        }
    }

    /// Returns all tables about the snapshot.
    #[must_use]
    pub fn build_tables(&self) -> MemoryTables {
        let mut tables = MemoryTables::new(MemorySource::MemoryGraph);
        tables.process.clone_from(&self.graph.process);
        let totals = &mut tables.totals;
        totals.blocks = self.graph.node_count() as u64;
        totals.bytes = self.graph.sizes.iter().sum();
        totals.references = self.graph.edges.len() as u64;
        totals.roots = self.graph.roots.len() as u64;
        totals.leaked_blocks = self.leaks.iter().map(|group| group.blocks).sum();
        totals.leaked_bytes = self.leaks.iter().map(|group| group.bytes).sum();
        tables.regions = self.region_rows();
        tables.zones = self.zone_rows();
        tables.classes = self.class_rows();
        tables.leaks = self.leaks.iter().map(|group| self.leak_row(group)).collect();
        tables.largest = self.largest_blocks();
        tables.sort_rows();
        tables
    }

    fn region_rows(&self) -> Vec<RegionRow> {
        let mut rows: HashMap<(u8, &str), RegionRow> = HashMap::new();
        for region in &self.graph.regions {
            let file = describe_file(&region.path);
            let row = rows.entry((region.tag, file)).or_insert_with(|| {
                let tag = vm_tag_name(region.tag);
                let name = if file.is_empty() { tag.into_owned() } else { format!("{tag}: {file}") };
                RegionRow { name, ..RegionRow::default() }
            });
            row.regions += 1;
            row.dirty = row.dirty.saturating_add(region.dirty);
            let parts = [
                (&mut row.size, region.size),
                (&mut row.swapped, region.swapped),
                (&mut row.resident, region.resident),
            ];
            for (sum, more) in parts {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        }
        rows.into_values().collect()
    }

    fn zone_rows(&self) -> Vec<ZoneRow> {
        let names = std::iter::once("").chain(self.graph.zones.iter().map(String::as_str));
        let mut rows: Vec<ZoneRow> =
            names.map(|name| ZoneRow { name: name.to_owned(), ..ZoneRow::default() }).collect();
        for (zone, size) in self.graph.node_zones.iter().zip(&self.graph.sizes) {
            if let Some(row) = rows.get_mut(usize::from(*zone)) {
                row.blocks += 1;
                row.bytes += size;
            }
        }
        rows.retain(|row| row.blocks > 0);
        rows
    }

    /// Returns the rows of classes. Classes of one name and image are one row, which has no kind if they are
    /// of several kinds.
    fn class_rows(&self) -> Vec<ClassRow> {
        let mut rows = vec![class_row(NO_CLASS.to_owned(), ClassKind::Unknown, "")];
        let mut known: HashMap<(String, Option<u32>), u32> = HashMap::new();
        let mut row_of_class = vec![0_u32];
        for (position, class) in (0_u32..).zip(&self.graph.classes) {
            let name = self.graph.name_of_class(position);
            let image = class.image.and_then(|image| self.graph.images.get(image as usize));
            let image = image.map_or("", |image| image.name.as_str());
            let row = *known.entry((name.clone(), class.image)).or_insert_with(|| {
                rows.push(class_row(name, class.kind, image));
                u32::try_from(rows.len() - 1).unwrap_or(0)
            });
            if let Some(known) = rows.get_mut(row as usize)
                && known.kind != kind_name(class.kind)
            {
                known.kind.clear();
            }
            row_of_class.push(row);
        }
        let row_of = |node: u32| {
            let class = self.graph.node_classes.get(node as usize).copied().unwrap_or(0);
            row_of_class.get(class as usize).copied().unwrap_or(0)
        };
        for node in 0..self.graph.edges.node_count() {
            if let Some(row) = rows.get_mut(row_of(node) as usize) {
                row.blocks += 1;
                row.bytes += self.graph.node_size(node);
            }
        }
        let retained = self.dominators.retained_by_group(rows.len(), row_of, &self.retained);
        for (row, retained) in rows.iter_mut().zip(retained) {
            row.retained = Some(retained);
        }
        rows.retain(|row| row.blocks > 0);
        rows
    }

    fn largest_blocks(&self) -> Vec<BlockRow> {
        let mut nodes: Vec<u32> =
            (0..self.graph.edges.node_count()).filter(|node| self.dominators.is_reached(*node)).collect();
        let by_retained = |node: &u32| (Reverse(self.retained_bytes(*node)), *node);
        if nodes.len() > MOST_LARGEST {
            nodes.select_nth_unstable_by_key(MOST_LARGEST, by_retained);
            nodes.truncate(MOST_LARGEST);
        }
        nodes.sort_unstable_by_key(by_retained);
        nodes.into_iter().map(|node| self.describe_block(node)).collect()
    }

    fn leak_row(&self, group: &LeakGroup) -> LeakRow {
        let counted = |(name, count): &(String, u64)| match count {
            1 => name.clone(),
            count => format!("{count} \u{d7} {name}"),
        };
        LeakRow {
            signature: group.signature.clone(),
            cycle: group.is_cycle,
            name: group.classes.iter().map(counted).collect::<Vec<_>>().join(", "),
            leaks: group.leaks,
            blocks: group.blocks,
            bytes: group.bytes,
            example: format_address(self.graph.node_address(group.example)),
        }
    }
}

/// Returns the file that is mapped, as rows name it: from the app's bundle on, or the folder of the system's files, of which
/// each process maps hundreds. Empty if no file is mapped.
fn describe_file(path: &str) -> &str {
    const SYSTEM_FILES: &str = "system files";
    if path.is_empty() || is_system_path(path) {
        return if path.is_empty() { "" } else { SYSTEM_FILES };
    }
    // The folder of an app's container has another name on each device.
    let bundle = path.find(".app/").and_then(|at| path.get(..at)?.rfind('/'));
    bundle.and_then(|at| path.get(at + 1..)).unwrap_or(path)
}

fn class_row(name: String, kind: ClassKind, image: &str) -> ClassRow {
    ClassRow { name, kind: kind_name(kind), image: image.to_owned(), blocks: 0, bytes: 0, retained: None }
}

/// Returns a kind as JSON has it; nothing for one that is not known.
fn kind_name(kind: ClassKind) -> String {
    if kind == ClassKind::Unknown { String::new() } else { snake_case(&kind) }
}

pub(super) fn format_address(address: u64) -> String {
    format!("{address:#x}")
}

/// Returns the name of a variant as JSON has it.
pub(super) fn snake_case(kind: &impl serde::Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryGraphLimits, MemoryGraphWriter, read_memory_graph};
    use super::*;

    #[test]
    fn mapped_files_have_rows_of_their_own() {
        for (path, expected) in [
            ("/private/var/containers/Bundle/Application/1/Shop.app/Shop", "Shop.app/Shop"),
            (
                "/private/var/containers/Bundle/Application/1/Shop.app/Frameworks/A.framework/A",
                "Shop.app/Frameworks/A.framework/A",
            ),
            (
                "/private/var/mobile/Containers/Data/Application/2/Library/a.sqlite",
                "/private/var/mobile/Containers/Data/Application/2/Library/a.sqlite",
            ),
            ("/System/Library/Fonts/Core/SFUI.ttf", "system files"),
            ("/usr/lib/dyld", "system files"),
            ("", ""),
        ] {
            assert_eq!(describe_file(path), expected);
        }
        let region = |path: &str, size| super::super::graph::GraphRegion {
            size,
            path: path.to_owned(),
            ..Default::default()
        };
        let graph = MemoryGraph {
            regions: vec![
                region("/a/Shop.app/Shop", 1),
                region("/a/Shop.app/Shop", 2),
                region("", 4),
                region("/usr/lib/dyld", 8),
            ],
            ..MemoryGraph::default()
        };
        let mut rows = GraphAnalysis::from_graph(&graph).region_rows();
        rows.sort_by_key(|row| row.size);
        let tag = vm_tag_name(0);
        let rows: Vec<(String, u64, Option<u64>)> =
            rows.into_iter().map(|row| (row.name, row.regions, row.size)).collect();
        let named = |file: &str| format!("{tag}: {file}");
        assert_eq!(
            rows,
            [
                (named("Shop.app/Shop"), 2, Some(3)),
                (tag.to_string(), 1, Some(4)),
                (named("system files"), 1, Some(8))
            ]
        );
    }

    #[test]
    fn a_class_without_a_name_is_found_by_what_is_shown() {
        let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
        writer.add_class("", ClassKind::Unknown, 0xC000).unwrap();
        writer.add_node(0x1_0000, 16, Some(0), None).unwrap();
        let file = writer.finish().unwrap();
        let graph = read_memory_graph(&file[..], &MemoryGraphLimits::default()).unwrap();
        assert_eq!(GraphAnalysis::from_graph(&graph).largest_of_class("class at 0xc000"), Some(0));
    }
}
