//! `/console/captures/{id}/compare/{other}`: the changes between two captures.

use super::analysis::leak_line;
use super::list::{MOST_ROWS, ShownList};
use super::prelude::*;
use crate::capture::{CaptureAnalysis, CaptureComparison, CaptureKind, ComparedMemory, PathGrowth};
use crate::operations::{CapturePair, capture_pair};
use crate::store::Capture;
use unslide_calltree::{CallTree, CutTree};
use unslide_captures_formats::memory_graph::MemoryComparison;
use unslide_site::{FlameSvg, bytes, changed_bytes, changed_functions, counted, grouped, text_or};

#[derive(Template)]
#[template(path = "captures/compare.html", askama = escaping)]
struct ComparePage {
    shell: Shell,
    script: &'static str,
    before: Capture,
    after: Capture,
    graph: FlameSvg,
    /// The graph of the virtual memory of two logs.
    vm_graph: Option<FlameSvg>,
    has_boxes: bool,
    explained: &'static str,
    lists: Vec<ShownList>,
    /// A sentence for a page without lists.
    unchanged: &'static str,
    /// A sentence on what was left out; empty if that is nothing.
    left_out: String,
}

pub async fn page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path((id, other)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let pair = capture_pair(&storage, access, &id, &other).await?;
    let viewer = signed.viewer;
    let work = move || {
        let mut pair = pair;
        let (before, after, change) = pair.compare()?;
        let CapturePair { before: of_before, after: of_after } = pair;
        let mut reservation = of_after.reservation;
        let kind = of_after.capture.kind;
        let unchanged = unchanged(kind, &before, &after, &change);
        let (earlier, later) = (of_before.capture, of_after.capture);
        let title = format!("{} of {}: what has changed", super::kind(kind), text_or(&later.app, "no app"));
        let vm_graph = vm_difference(&before, &after, &title);
        let (before, after) = (before.tree.tree_without_rests(), after.tree.tree_without_rests());
        let graph = FlameSvg::from_difference(&before, &after, &title);
        let graph_bytes = graph.byte_length() + vm_graph.as_ref().map_or(0, FlameSvg::byte_length);
        reservation.reserve_more(graph_bytes as u64 * 2)?;
        let page = ComparePage {
            shell: Shell::for_viewer(viewer, "captures", title),
            script: &FLAME_PATH,
            before: earlier,
            after: later,
            graph,
            vm_graph,
            has_boxes: before.node_count() + after.node_count() > 2,
            explained: explained(kind),
            lists: lists(&change, &before, &after),
            unchanged,
            left_out: left_out(&change),
        };
        let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = storage.capacity.cpu.run_for(access.tenant(), work).await??;
    Ok(html_answer(answer))
}

/// Returns the graph of what has changed in virtual memory; `None` if neither has any.
fn vm_difference(before: &CaptureAnalysis, after: &CaptureAnalysis, title: &str) -> Option<FlameSvg> {
    let tree = |analysis: &CaptureAnalysis| analysis.vm_tree.as_ref().map(CutTree::tree_without_rests);
    let trees = (tree(before), tree(after));
    if let (None, None) = trees {
        return None;
    }
    let [before, after] = [trees.0, trees.1].map(|tree| tree.unwrap_or_else(|| CallTree::new("bytes")));
    Some(FlameSvg::from_difference(&before, &after, &format!("{title}: virtual memory")))
}

fn explained(kind: CaptureKind) -> &'static str {
    match kind {
        CaptureKind::MallocLog => {
            "A function is as wide as the memory of the heap that it allocated in both together, and stands below its caller."
        }
        CaptureKind::MemoryGraph => {
            "A class is as wide as the memory that its blocks keep alive in both together, and stands below the class that keeps it alive."
        }
        CaptureKind::Profile | CaptureKind::StackSet => {
            "A function is as wide as its samples in both together, and stands below its caller."
        }
    }
}

/// Returns a sentence on what has no line in any list.
fn unchanged(
    kind: CaptureKind,
    before: &CaptureAnalysis,
    after: &CaptureAnalysis,
    change: &CaptureComparison,
) -> &'static str {
    let totals = |analysis: &CaptureAnalysis| analysis.graph.as_ref().map(|graph| graph.totals);
    let same = change.before == change.after
        && totals(before) == totals(after)
        && change.memory.is_none_or(|memory| memory.before == memory.after);
    match kind {
        _ if same && change.paths.is_empty() && change.vm_paths.is_empty() && rows_left_out(change) == 0 => {
            "Nothing has changed."
        }
        CaptureKind::Profile | CaptureKind::StackSet => "No function's share has changed.",
        CaptureKind::MemoryGraph | CaptureKind::MallocLog => "No row that both analyses list has changed.",
    }
}

fn rows_left_out(change: &CaptureComparison) -> u64 {
    change.left_out.saturating_add(change.graph.as_ref().map_or(0, |graph| graph.left_out))
}

fn left_out(change: &CaptureComparison) -> String {
    match rows_left_out(change) {
        0 => String::new(),
        rows => format!(
            "{} left out: too small for one of the two analyses, or for the list of what has changed.",
            counted(rows, "row or function is", "rows and functions are")
        ),
    }
}

/// The lists of the page that have lines.
fn lists(change: &CaptureComparison, before: &CallTree, after: &CallTree) -> Vec<ShownList> {
    let mut lists = match (&change.graph, &change.memory) {
        (Some(graph), _) => graph_lists(graph),
        (None, Some(memory)) => vec![
            memory_list(memory),
            stacks("Stacks that have changed", "Stacks by what of the heap has come to them", &change.paths),
            stacks(
                "Virtual memory that has changed",
                "Stacks by the virtual memory that has come to them",
                &change.vm_paths,
            ),
        ],
        (None, None) => vec![functions(before, after)],
    };
    lists.retain(|list| !list.lines.is_empty());
    lists
}

/// The bytes before and after, and by how many they have changed.
fn change_cells(before: u64, after: u64) -> [String; 3] {
    [bytes(before), bytes(after), changed_bytes(before, after)]
}

fn line(name: String, before: u64, after: u64) -> Vec<String> {
    std::iter::once(name).chain(change_cells(before, after)).collect()
}

fn memory_list(ComparedMemory { before, after }: &ComparedMemory) -> ShownList {
    ShownList {
        heading: "Memory",
        caption: "All memory of both logs",
        columns: &["Kind", "Before", "After", "Change"],
        lines: vec![
            line("Heap".to_owned(), before.heap_bytes, after.heap_bytes),
            line("Virtual memory".to_owned(), before.vm_bytes, after.vm_bytes),
        ],
    }
}

fn stacks(heading: &'static str, caption: &'static str, paths: &[PathGrowth]) -> ShownList {
    let paths = paths.iter().take(MOST_ROWS);
    let lines = paths.map(|row| {
        line(text_or(&row.allocator, "unknown stack").to_owned(), row.weight_before, row.weight_after)
    });
    ShownList {
        heading,
        caption,
        columns: &["Function", "Before", "After", "Change"],
        lines: lines.collect(),
    }
}

fn functions(before: &CallTree, after: &CallTree) -> ShownList {
    let changed = changed_functions(before, after).into_iter();
    ShownList {
        heading: "What has changed",
        caption: "Functions by how their own share of the samples has changed",
        columns: &["Function", "Before", "After", "Change"],
        lines: changed.map(|line| std::iter::once(line.name).chain(line.shares).collect()).collect(),
    }
}

fn graph_lists(graph: &MemoryComparison) -> Vec<ShownList> {
    let classes = graph.classes.iter().take(MOST_ROWS).map(|row| {
        let mut cells = line(row.name.clone(), row.bytes_before, row.bytes_after);
        cells.push(format!("{} \u{2192} {}", grouped(row.blocks_before), grouped(row.blocks_after)));
        cells
    });
    let regions = graph.regions.iter().take(MOST_ROWS).map(|row| {
        let (before, after) = row.charged_bytes();
        line(row.name.clone(), before, after)
    });
    vec![
        ShownList {
            heading: "Classes",
            caption: "Classes by what has come to them",
            columns: &["Class", "Before", "After", "Change", "Blocks"],
            lines: classes.collect(),
        },
        ShownList {
            heading: "Regions",
            caption: "Virtual memory by what it is for: what is dirty or swapped",
            columns: &["Region", "Before", "After", "Change"],
            lines: regions.collect(),
        },
        ShownList {
            heading: "New leaks",
            caption: "What leaked since, by its shape",
            columns: &["Leaked", "Bytes", "Times"],
            lines: graph.leaks.iter().take(MOST_ROWS).map(leak_line).collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{CaptureForm, analyse_capture};

    #[test]
    fn where_no_list_has_lines_it_is_said_what_has_not_changed() {
        let read = |form: &CaptureForm, text: &'static str| {
            analyse_capture(form, &|_| text.as_bytes(), &|_| None).unwrap().analysis
        };
        let said = |form: CaptureForm, before: &'static str, after: &'static str| {
            let (before, after) = (read(&form, before), read(&form, after));
            let change = CaptureComparison::from_analyses(form.kind(), &before, &after).unwrap();
            let trees = (before.tree.tree_without_rests(), after.tree.tree_without_rests());
            assert!(lists(&change, &trees.0, &trees.1).is_empty());
            unchanged(form.kind(), &before, &after, &change)
        };
        let once = "main;draw 3\nmain;load 1\n";
        assert_eq!(said(CaptureForm::Profile, once, once), "Nothing has changed.");
        let twice = "main;draw 6\nmain;load 2\n";
        assert_eq!(said(CaptureForm::Profile, once, twice), "No function's share has changed.");
        let heap = "COUNT BYTES AVG CLASS_NAME\n1 16 16.0 Cart\n";
        assert_eq!(said(CaptureForm::MemoryGraph, heap, heap), "Nothing has changed.");
    }

    #[test]
    fn graphs_whose_rows_are_left_out_may_have_changed() {
        let form = CaptureForm::MemoryGraph;
        let heap = "COUNT BYTES AVG CLASS_NAME\n1 16 16.0 Cart\n";
        let before = analyse_capture(&form, &|_| heap.as_bytes(), &|_| None).unwrap().analysis;
        let mut after = before.clone();
        let graph = after.graph.as_mut().unwrap();
        graph.classes.clear();
        graph.cut.classes = true;
        let change = CaptureComparison::from_analyses(form.kind(), &before, &after).unwrap();
        assert_eq!(rows_left_out(&change), 1);
        let said = unchanged(form.kind(), &before, &after, &change);
        assert_eq!(said, "No row that both analyses list has changed.");
    }
}
