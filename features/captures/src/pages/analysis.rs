//! The part of a page that shows an analysis.

use super::history::{Moments, ShownHistory};
use super::list::{MOST_ROWS, ShownList};
use crate::capture::{CaptureAnalysis, LackingImage};
use unslide_captures_formats::malloc::{GrowthRow, MemoryKind, MemoryRow, MemorySummary, StackRow};
use unslide_captures_formats::memory_graph::{BlockRow, LeakRow, MemoryTables, RegionRow, format_path};
use unslide_model::upload_dsym_command;
use unslide_site::{
    FlameSvg, FunctionLine, bytes, changed_bytes, grouped, heaviest_path, list_functions, text_or,
};

/// An analysis as a page shows it.
pub struct ShownAnalysis {
    pub graph: FlameSvg,
    /// The graph of a log's virtual memory.
    pub vm_graph: Option<FlameSvg>,
    /// False if nothing was read that has boxes.
    pub has_boxes: bool,
    /// The measure of widths and shares.
    pub measure: &'static str,
    /// The meaning of a box of the flame graph.
    pub explained: &'static str,
    pub path: Vec<FunctionLine>,
    pub lists: Vec<ShownList>,
    /// The live memory over time, of a log.
    pub history: Option<ShownHistory>,
    pub skipped: Vec<String>,
    pub lacking: Vec<LackingImage>,
}

impl ShownAnalysis {
    /// Prepares an analysis. `moments` are the events that the growth of a log is shown between.
    pub fn from_analysis(analysis: &CaptureAnalysis, title: &str, moments: Moments) -> ShownAnalysis {
        let tree = analysis.tree.to_tree();
        let lists = match (&analysis.memory, &analysis.graph) {
            (Some(memory), _) => memory_lists(memory),
            (None, Some(graph)) => graph_lists(graph),
            (None, None) => vec![ShownList {
                heading: "Top functions",
                caption: "Functions by the samples in themselves",
                columns: &["Function", "By itself", "With its calls"],
                lines: list_functions(&tree).into_iter().map(function_line).collect(),
            }],
        };
        let mut skipped: Vec<String> =
            analysis.skipped.iter().map(|part| format!("{} {}", grouped(part.count), part.what)).collect();
        let vm_tree = analysis.vm_tree.as_ref();
        let summed = analysis.tree.summed + vm_tree.map_or(0, |tree| tree.summed);
        if summed > 0 {
            let nodes = grouped(summed);
            skipped.push(format!("{nodes} of the lightest boxes are summed under their callers"));
        }
        let history = analysis.memory.as_ref().and_then(|memory| memory.history.as_ref());
        ShownAnalysis {
            graph: FlameSvg::from_tree(&tree, title),
            vm_graph: vm_tree
                .map(|vm| FlameSvg::from_tree(&vm.to_tree(), &format!("{title}: virtual memory"))),
            has_boxes: !analysis.tree.nodes.is_empty(),
            measure: match analysis.memory {
                Some(_) => "heap",
                None if tree.unit() == "bytes" => "memory",
                None => "samples",
            },
            explained: match (&analysis.memory, &analysis.graph) {
                (_, Some(_)) => {
                    "A class is as wide as the memory that its blocks keep alive, and stands below the class that keeps it alive."
                }
                (Some(_), None) => {
                    "A function is as wide as the memory of the heap that it allocated, and stands below its caller."
                }
                (None, None) => {
                    "A function is as wide as its share of the samples, and stands below its caller."
                }
            },
            // Classes that keep others alive call nothing: the list of blocks has their ways.
            path: if analysis.graph.is_some() { Vec::new() } else { heaviest_path(&tree) },
            lists: lists.into_iter().filter(|list| !list.lines.is_empty()).collect(),
            history: history.map(|history| ShownHistory::from_history(history, moments)),
            skipped,
            lacking: analysis.lacking.iter().take(MOST_ROWS).cloned().collect(),
        }
    }
}

impl ShownAnalysis {
    /// Returns the bytes of the graphs.
    pub fn graph_bytes(&self) -> u64 {
        [Some(&self.graph), self.vm_graph.as_ref()]
            .into_iter()
            .flatten()
            .map(|graph| graph.byte_length() as u64)
            .sum()
    }
}

fn function_line(line: FunctionLine) -> Vec<String> {
    std::iter::once(line.name).chain(line.shares).collect()
}

fn memory_lists(memory: &MemorySummary) -> Vec<ShownList> {
    let stacks = |heading, caption, rows: &[StackRow]| ShownList {
        heading,
        caption,
        columns: &["Function", "Kind", "Bytes", "Number"],
        lines: rows.iter().take(MOST_ROWS).map(stack_line).collect(),
    };
    let held = match memory.position {
        Some(position) if position < memory.events => format!("live after {position} events"),
        Some(_) => "live at the end".to_owned(),
        None => "allocated, freed or not".to_owned(),
    };
    let tags = memory.vm_tags.iter().take(MOST_ROWS);
    let tags = tags.map(|tag| vec![tag.name.clone(), bytes(tag.bytes), grouped(tag.ranges)]);
    vec![
        ShownList {
            heading: "Memory",
            caption: "All memory of the log",
            columns: &["Kind", "Bytes", "Number"],
            lines: vec![
                vec![
                    format!("Heap, {held}"),
                    bytes(memory.memory.heap_bytes),
                    grouped(memory.memory.heap_blocks),
                ],
                vec![
                    format!("Virtual memory, {held}"),
                    bytes(memory.memory.vm_bytes),
                    grouped(memory.memory.vm_ranges),
                ],
            ],
        },
        stacks("Top allocators", "Stacks by the memory that they hold", &memory.stacks),
        ShownList {
            heading: "Growth",
            caption: "Stacks by what has come to them since the event that the sender named",
            columns: &["Function", "Kind", "Grown by", "Holds"],
            lines: memory.growth.iter().flatten().take(MOST_ROWS).map(growth_line).collect(),
        },
        stacks(
            "Older",
            "What was allocated before that event and is still live: it may be leaked",
            memory.older.as_deref().unwrap_or_default(),
        ),
        ShownList {
            heading: "Virtual memory",
            caption: "Virtual memory by tag",
            columns: &["Tag", "Bytes", "Ranges"],
            lines: tags.collect(),
        },
    ]
}

fn graph_lists(graph: &MemoryTables) -> Vec<ShownList> {
    let classes = graph.classes.iter().take(MOST_ROWS);
    let largest = graph.largest.iter().take(MOST_ROWS);
    let leaks = graph.leaks.iter().take(MOST_ROWS);
    let regions = graph.regions.iter().take(MOST_ROWS);
    let zones = graph.zones.iter().take(MOST_ROWS);
    vec![
        ShownList {
            heading: "Objects that retain the most memory",
            caption: "Blocks by the memory that would be free without them, each with the shortest way from a root",
            columns: &["Block", "Keeps alive", "By itself"],
            lines: largest.map(|row| vec![way(row), bytes(row.retained), bytes(row.bytes)]).collect(),
        },
        ShownList {
            heading: "Classes",
            caption: "Classes by the memory of their blocks",
            columns: &["Class", "Bytes", "Blocks"],
            lines: classes.map(|row| vec![row.name.clone(), bytes(row.bytes), grouped(row.blocks)]).collect(),
        },
        ShownList {
            heading: "Leaks",
            caption: "What no root reaches, by its shape; the objects of a cycle keep each other alive",
            columns: &["Leaked", "Bytes", "Times"],
            lines: leaks.map(leak_line).collect(),
        },
        ShownList {
            heading: "Regions",
            caption: "Virtual memory by what it is for",
            columns: &["Region", "Dirty", "Swapped", "Resident"],
            lines: regions.map(region_line).collect(),
        },
        ShownList {
            heading: "Malloc zones",
            caption: "Blocks by the zone that they were allocated in",
            columns: &["Zone", "Bytes", "Blocks"],
            lines: zones
                .map(|row| {
                    vec![text_or(&row.name, "unknown zone").to_owned(), bytes(row.bytes), grouped(row.blocks)]
                })
                .collect(),
        },
    ]
}

pub fn leak_line(row: &LeakRow) -> Vec<String> {
    let cycle = if row.cycle { "cycle of " } else { "" };
    vec![format!("{cycle}{}", row.name), bytes(row.bytes), grouped(row.leaks)]
}

fn region_line(row: &RegionRow) -> Vec<String> {
    let known = |size: Option<u64>| size.map(bytes).unwrap_or_default();
    vec![row.name.clone(), bytes(row.dirty), known(row.swapped), known(row.resident)]
}

/// A block, and what leads to it.
fn way(row: &BlockRow) -> String {
    match row.path.first() {
        Some(root) => format!("{} → {}", root.by, format_path(&row.path)),
        None => String::new(),
    }
}

fn stack_line(row: &StackRow) -> Vec<String> {
    let allocator = text_or(&row.allocator, "unknown stack").to_owned();
    vec![allocator, row.kind.in_words().to_owned(), bytes(row.bytes), grouped(row.blocks)]
}

fn growth_line(row: &GrowthRow) -> Vec<String> {
    let held = |memory: &MemoryRow| match row.kind {
        MemoryKind::Heap => memory.heap_bytes,
        MemoryKind::Virtual => memory.vm_bytes,
    };
    let (before, after) = (held(&row.before), held(&row.after));
    let allocator = text_or(&row.allocator, "unknown stack").to_owned();
    vec![allocator, row.kind.in_words().to_owned(), changed_bytes(before, after), bytes(after)]
}

/// The command that helps an image.
pub fn command(image: &LackingImage) -> String {
    image.debug_id.map(upload_dsym_command).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{CaptureForm, MallocLayout, analyse_capture};
    use serde_json::json;

    #[test]
    fn a_graph_of_memory_shows_zones_resident_memory_and_cycles() {
        let totals = json!({"blocks": 0, "bytes": 0, "references": 0, "roots": 0, "leaked_blocks": 0, "leaked_bytes": 0});
        let leak = |cycle: bool, name: &str| json!({"signature": "", "cycle": cycle, "name": name, "leaks": 2, "blocks": 4, "bytes": 64, "example": ""});
        let tables = json!({"source": "memory_graph", "process": "Shop", "totals": totals, "classes": [], "largest": [],
            "regions": [{"name": "IOSurface", "regions": 1, "dirty": 1024, "resident": 2048}],
            "zones": [{"name": "", "blocks": 3, "bytes": 48}, {"name": "Default<b>", "blocks": 1, "bytes": 16}],
            "leaks": [leak(true, "Cart"), leak(false, "Item")], "skipped": 0, "left_out": 0});
        let lists = graph_lists(&serde_json::from_value(tables).unwrap());
        let lines = |heading: &str| {
            let list = lists.iter().find(|list| list.heading == heading).unwrap();
            assert!(list.lines.iter().all(|line| line.len() == list.columns.len()), "{heading}");
            list.lines.iter().map(|line| line.join("|")).collect::<Vec<_>>()
        };
        assert_eq!(lines("Leaks"), ["cycle of Cart|64 B|2", "Item|64 B|2"]);
        assert_eq!(lines("Regions"), ["IOSurface|1.0 KiB||2.0 KiB"]);
        assert_eq!(lines("Malloc zones"), ["unknown zone|48 B|3", "Default<b>|16 B|1"]);
    }

    #[test]
    fn a_log_shows_heap_and_virtual_memory_apart() {
        // A range of 1 MiB with a block of 512 KiB in it, by one stack.
        let events = [[1 << 20, 0x1000_0000 ^ 0x5555, 2, 16], [1 << 19, 0x1000_8000 ^ 0x5555, 2, 2]];
        let slots = [[0, 0], [0x104, u64::MAX], [0x1010, 1]];
        let bytes =
            |words: &[&[u64]]| words.concat().into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let events = bytes(&events.each_ref().map(|words| &words[..]));
        let stacks = bytes(&slots.each_ref().map(|words| &words[..]));
        let file = |name: &str| match name {
            "events" => &events[..],
            "stacks" => &stacks[..],
            _ => &[],
        };
        let form =
            CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(0) };
        let analysis = analyse_capture(&form, &file, &|_| None).unwrap().analysis;
        let shown = ShownAnalysis::from_analysis(&analysis, "a log", Moments::default());
        assert!(shown.graph.to_string().contains("524288 bytes, 100.0 %"));
        assert!(shown.vm_graph.as_ref().unwrap().to_string().contains("1048576 bytes, 100.0 %"));
        let lines = |heading: &str| {
            let list = shown.lists.iter().find(|list| list.heading == heading).unwrap();
            assert!(list.lines.iter().all(|line| line.len() == list.columns.len()), "{heading}");
            list.lines.iter().map(|line| line.join("|")).collect::<Vec<_>>()
        };
        assert_eq!(lines("Top allocators"), ["0x1010|virtual memory|1.0 MiB|1", "0x1010|heap|512.0 KiB|1"]);
        let grown = ["0x1010|virtual memory|+1.0 MiB|1.0 MiB", "0x1010|heap|+512.0 KiB|512.0 KiB"];
        assert_eq!(lines("Growth"), grown);
    }
}
