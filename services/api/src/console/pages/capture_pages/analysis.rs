//! What a page says of an analysis.

use crate::console::components::flame_view::{FlameSvg, FunctionLine, functions, heaviest_path};
use crate::console::words::{bytes, grouped, shown, shown_or, upload_command};
use unslide_signals::capture::{CaptureAnalysis, LackingImage};
use unslide_signals::malloc::{GrowthRow, MemorySummary, StackRow};
use unslide_signals::memory_graph::{BlockRow, MemoryTables};

/// Rows of a list that a page shows.
const MOST_ROWS: usize = 20;

/// An analysis as a page shows it.
pub struct ShownAnalysis {
    pub graph: FlameSvg,
    /// What widths and shares are of.
    pub measure: &'static str,
    /// What a box of the flame graph is.
    pub explained: &'static str,
    pub path: Vec<FunctionLine>,
    pub lists: Vec<ShownList>,
    pub skipped: Vec<String>,
    pub lacking: Vec<LackingLine>,
}

/// A list of functions, each with two numbers.
pub struct ShownList {
    pub heading: &'static str,
    pub caption: &'static str,
    pub columns: (&'static str, &'static str, &'static str),
    pub lines: Vec<(String, String, String)>,
}

/// An image without symbols.
pub struct LackingLine {
    pub name: String,
    pub debug_id: String,
    pub frames: String,
    /// Empty where the tenant cannot help.
    pub command: String,
}

impl ShownAnalysis {
    /// What is shown of an analysis.
    pub fn of(analysis: &CaptureAnalysis, title: &str) -> ShownAnalysis {
        let tree = analysis.tree.tree();
        let lists = match (&analysis.memory, &analysis.graph) {
            (Some(memory), _) => memory_lists(memory),
            (None, Some(graph)) => graph_lists(graph),
            (None, None) => vec![ShownList {
                heading: "Top functions",
                caption: "Functions by the samples in themselves",
                columns: ("Function", "By itself", "With its calls"),
                lines: functions(&tree).into_iter().map(function_line).collect(),
            }],
        };
        let mut skipped: Vec<String> =
            analysis.skipped.iter().map(|part| format!("{} {}", number(part.count), part.what)).collect();
        if analysis.tree.summed > 0 {
            let nodes = number(analysis.tree.summed);
            skipped.push(format!("{nodes} of the lightest boxes are summed under their callers"));
        }
        ShownAnalysis {
            graph: FlameSvg::of(&tree, title),
            measure: if tree.unit() == "bytes" { "memory" } else { "samples" },
            explained: match (&analysis.memory, &analysis.graph) {
                (_, Some(_)) => {
                    "A class is as wide as the memory that its blocks keep alive, and stands below the class that keeps it alive."
                }
                (Some(_), None) => {
                    "A function is as wide as the memory that it allocated, and stands below its caller."
                }
                (None, None) => {
                    "A function is as wide as its share of the samples, and stands below its caller."
                }
            },
            // Classes that keep others alive call nothing: the list of blocks has their ways.
            path: if analysis.graph.is_some() { Vec::new() } else { heaviest_path(&tree) },
            lists: lists.into_iter().filter(|list| !list.lines.is_empty()).collect(),
            skipped,
            lacking: analysis.lacking.iter().take(MOST_ROWS).map(lacking).collect(),
        }
    }
}

fn function_line(line: FunctionLine) -> (String, String, String) {
    let mut shares = line.shares.into_iter();
    (line.name, shares.next().unwrap_or_default(), shares.next().unwrap_or_default())
}

fn memory_lists(memory: &MemorySummary) -> Vec<ShownList> {
    let stacks = |heading, caption, rows: &[StackRow]| ShownList {
        heading,
        caption,
        columns: ("Function", "Bytes", "Blocks"),
        lines: rows.iter().take(MOST_ROWS).map(stack_line).collect(),
    };
    let held = if memory.position.is_some() { "live at the end" } else { "allocated, freed or not" };
    let tags = memory.vm_tags.iter().take(MOST_ROWS);
    let tags = tags.map(|tag| (shown(&tag.name), bytes(tag.bytes), number(tag.ranges)));
    vec![
        ShownList {
            heading: "Memory",
            caption: "All memory of the log",
            columns: ("Kind", "Bytes", "Number"),
            lines: vec![
                (format!("Heap, {held}"), bytes(memory.memory.heap_bytes), number(memory.memory.heap_blocks)),
                (
                    format!("Virtual memory, {held}"),
                    bytes(memory.memory.vm_bytes),
                    number(memory.memory.vm_ranges),
                ),
            ],
        },
        stacks("Top allocators", "Stacks by the memory that they hold", &memory.stacks),
        ShownList {
            heading: "Growth",
            caption: "Stacks by what has come to them since the event that the sender named",
            columns: ("Function", "Grown by", "Holds"),
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
            columns: ("Tag", "Bytes", "Ranges"),
            lines: tags.collect(),
        },
    ]
}

fn graph_lists(graph: &MemoryTables) -> Vec<ShownList> {
    let classes = graph.classes.iter().take(MOST_ROWS);
    let largest = graph.largest.iter().take(MOST_ROWS);
    let leaks = graph.leaks.iter().take(MOST_ROWS);
    let regions = graph.regions.iter().take(MOST_ROWS);
    vec![
        ShownList {
            heading: "Keeps most alive",
            caption: "Blocks by the memory that would be free without them, each with the shortest way from a root",
            columns: ("Block", "Keeps alive", "By itself"),
            lines: largest.map(|row| (way(row), bytes(row.retained), bytes(row.bytes))).collect(),
        },
        ShownList {
            heading: "Classes",
            caption: "Classes by the memory of their blocks",
            columns: ("Class", "Bytes", "Blocks"),
            lines: classes.map(|row| (shown(&row.name), bytes(row.bytes), number(row.blocks))).collect(),
        },
        ShownList {
            heading: "Leaks",
            caption: "What no root reaches, by its shape",
            columns: ("Leaked", "Bytes", "Times"),
            lines: leaks.map(|row| (shown(&row.name), bytes(row.bytes), number(row.leaks))).collect(),
        },
        ShownList {
            heading: "Regions",
            caption: "Virtual memory by what it is for",
            columns: ("Region", "Dirty", "Swapped"),
            lines: regions
                .map(|row| (shown(&row.name), bytes(row.dirty), row.swapped.map(bytes).unwrap_or_default()))
                .collect(),
        },
    ]
}

/// A block, and what leads to it.
fn way(row: &BlockRow) -> String {
    let root = row.path.first().map(|step| step.by.as_str());
    let steps = row.path.iter().map(|step| step.class.as_str());
    shown(&root.into_iter().chain(steps).collect::<Vec<_>>().join(" → "))
}

fn stack_line(row: &StackRow) -> (String, String, String) {
    (shown_or(&row.allocator, "unknown stack"), bytes(row.bytes), number(row.blocks))
}

fn growth_line(row: &GrowthRow) -> (String, String, String) {
    let sign = if row.grown_bytes < 0 { "\u{2212}" } else { "+" };
    let grown = format!("{sign}{}", bytes(row.grown_bytes.unsigned_abs()));
    let holds = row.after.heap_bytes.saturating_add(row.after.vm_bytes);
    (shown_or(&row.allocator, "unknown stack"), grown, bytes(holds))
}

fn lacking(image: &LackingImage) -> LackingLine {
    let name = shown_or(&image.name, "unnamed image");
    let command =
        if image.system || image.debug_id.is_none() { String::new() } else { upload_command(&name) };
    LackingLine {
        command,
        debug_id: image.debug_id.map(|id| id.to_string()).unwrap_or_default(),
        frames: number(image.frames),
        name,
    }
}

fn number(number: u64) -> String {
    grouped(i64::try_from(number).unwrap_or(i64::MAX))
}
