//! What a page says of an analysis.

use crate::console::flame_view::{FlameSvg, FunctionLine, functions, heaviest_path};
use crate::console::words::{bytes, grouped, shown, shown_or, upload_command};
use unslide_signals::capture::{CaptureAnalysis, LackingImage};
use unslide_signals::malloc::{GrowthRow, MemorySummary, StackRow};

/// Rows of a list that a page shows.
const MOST_ROWS: usize = 20;

/// An analysis as a page shows it.
pub struct ShownAnalysis {
    pub graph: FlameSvg,
    /// What widths and shares are of.
    pub measure: &'static str,
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
        let lists = match &analysis.memory {
            Some(memory) => memory_lists(memory),
            None => vec![ShownList {
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
            measure: if analysis.memory.is_some() { "memory" } else { "samples" },
            path: heaviest_path(&tree),
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
