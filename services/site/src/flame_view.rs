//! Parts of a page about a call tree: the flame graph, and the same as text.

use crate::words::{duration, grouped, text_or};
use std::collections::HashMap;
use std::fmt;
use unslide_calltree::{
    CallFrame, CallTree, FrameOrigin, GraphPlace, TreeDifference, difference_graph, flame_graph,
};
use unslide_calltree::{ReportTree, TimeSlice};
use unslide_model::figures::{Share, format_percent, format_points, round_growth};
use unslide_report::text::escape_line;

/// Maximum number of functions in a list.
const MOST_FUNCTIONS: usize = 20;
/// Maximum number of time slices in a list.
const MOST_SLICES: usize = 20;
/// Maximum number of functions in a path.
const PATH_FUNCTIONS_LIMIT: usize = 100;

/// A flame graph as SVG. All its text is escaped.
pub struct FlameSvg(String);

impl fmt::Display for FlameSvg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FlameSvg {
    /// Renders the graph of a tree.
    pub fn from_tree(tree: &CallTree, title: &str) -> FlameSvg {
        FlameSvg(flame_graph(tree, &escape_line(title), GraphPlace::Page))
    }

    /// Renders the graph of the changes between two trees.
    pub fn from_difference(before: &CallTree, after: &CallTree, title: &str) -> FlameSvg {
        let difference = TreeDifference::from_trees(before, after);
        FlameSvg(difference_graph(&difference, &escape_line(title), GraphPlace::Page))
    }

    /// Returns its size in bytes.
    pub fn byte_length(&self) -> usize {
        self.0.len()
    }
}

/// A function of a path or of a list.
pub struct FunctionLine {
    pub name: String,
    /// The file name of its image.
    pub image: String,
    /// True for a function of the app.
    pub own: bool,
    /// The value of each column.
    pub shares: Vec<String>,
}

impl FunctionLine {
    fn from_frame(frame: &CallFrame, shares: Vec<String>) -> FunctionLine {
        FunctionLine {
            name: text_or(&frame.name, "unnamed").to_owned(),
            image: frame.image.to_string(),
            own: frame.origin == FrameOrigin::App,
            shares,
        }
    }
}

/// Returns the heaviest path, from the outermost function: through the app's own functions if there are any.
pub fn heaviest_path(tree: &CallTree) -> Vec<FunctionLine> {
    let own = tree.to_app_tree();
    let shown = if own.node_count() > 1 { &own } else { tree };
    let all = tree.total().weight;
    let path = shown.heaviest_path().into_iter().take(PATH_FUNCTIONS_LIMIT);
    path.map(|at| {
        FunctionLine::from_frame(shown.frame(at), vec![format_percent(shown.node(at).total.weight, all)])
    })
    .collect()
}

/// Returns the functions with the most samples of their own, with their own and total shares.
pub fn list_functions(tree: &CallTree) -> Vec<FunctionLine> {
    let all = tree.total().weight;
    let line = |one: unslide_calltree::FunctionTotals| {
        FunctionLine::from_frame(
            &one.frame,
            vec![format_percent(one.own, all), format_percent(one.total, all)],
        )
    };
    tree.list_functions(MOST_FUNCTIONS).into_iter().map(line).collect()
}

/// Returns the functions with the largest changes of their own share, before and after.
pub fn changed_functions(before: &CallTree, after: &CallTree) -> Vec<FunctionLine> {
    let (all_before, all_after) = (before.total().weight, after.total().weight);
    let mut own: HashMap<CallFrame, (u64, u64)> = HashMap::new();
    for one in before.list_functions(usize::MAX) {
        own.entry(one.frame).or_default().0 = one.own;
    }
    for one in after.list_functions(usize::MAX) {
        own.entry(one.frame).or_default().1 = one.own;
    }
    let change = |own: (u64, u64)| {
        round_growth(Share { part: own.0, whole: all_before }, Share { part: own.1, whole: all_after })
    };
    let mut changed: Vec<_> = own.into_iter().filter(|(_, own)| change(*own) != 0).collect();
    changed.sort_by(|(a, a_own), (b, b_own)| {
        let by = |own: (u64, u64)| std::cmp::Reverse(change(own).unsigned_abs());
        by(*a_own).cmp(&by(*b_own)).then_with(|| a.name.cmp(&b.name))
    });
    let line = |(frame, own): (CallFrame, (u64, u64))| {
        let change = change(own);
        let sign = if change < 0 { "\u{2212}" } else { "+" };
        let change = format!("{sign}{} points", format_points(change));
        FunctionLine::from_frame(
            &frame,
            vec![format_percent(own.0, all_before), format_percent(own.1, all_after), change],
        )
    };
    changed.into_iter().take(MOST_FUNCTIONS).map(line).collect()
}

/// A part of the time, and the function that ran most in it.
pub struct SliceLine {
    pub time: String,
    pub function: FunctionLine,
}

/// Returns the time slices of a tree; none if the order of samples is not known. `millis` is the duration of
/// all samples.
pub fn list_slices(found: &ReportTree, millis: Option<u64>) -> Vec<SliceLine> {
    let slices = found.time_slices(MOST_SLICES);
    let all = slices.last().map_or(0, |last| last.to);
    if all < 2 {
        return Vec::new();
    }
    let time = |sample: usize| match millis {
        Some(millis) => duration(millis.saturating_mul(sample as u64) / all as u64),
        None => format!("sample {sample}"),
    };
    let line = |slice: &TimeSlice| SliceLine {
        time: format!("{} – {}", time(slice.from), time(slice.to)),
        function: FunctionLine::from_frame(
            &slice.frame,
            vec![format_percent(slice.samples as u64, (slice.to - slice.from) as u64)],
        ),
    };
    slices.iter().map(line).collect()
}

/// Formats the number of samples.
pub fn format_samples(tree: &CallTree) -> String {
    grouped(tree.total().weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_calltree::Amount;

    fn tree(stacks: &[(&[&str], u64)]) -> CallTree {
        let mut tree = CallTree::new("samples");
        for (names, samples) in stacks {
            let call = |name: &&str| CallFrame::for_function(name, "Shop", FrameOrigin::App);
            let at = names
                .iter()
                .map(call)
                .fold(CallTree::ROOT, |at, frame| tree.find_or_add_child(at, &frame, None));
            tree.add_amount(at, Amount::from_samples(*samples));
        }
        tree
    }

    #[test]
    fn the_text_says_what_the_picture_shows() {
        let tree = tree(&[(&["main", "draw"], 6), (&["main", "load"], 4)]);
        let shown = |lines: Vec<FunctionLine>| -> Vec<(String, Vec<String>)> {
            lines.into_iter().map(|line| (line.name, line.shares)).collect()
        };
        let text = |name: &str, shares: &[&str]| {
            (name.to_owned(), shares.iter().map(|share| (*share).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(shown(heaviest_path(&tree)), [text("main", &["100.0 %"]), text("draw", &["60.0 %"])]);
        assert_eq!(
            shown(list_functions(&tree)),
            [text("draw", &["60.0 %", "60.0 %"]), text("load", &["40.0 %", "40.0 %"])]
        );
    }

    #[test]
    fn a_comparison_begins_with_what_has_changed_the_most() {
        let before = tree(&[(&["a"], 5), (&["b"], 4), (&["same"], 1)]);
        let after = tree(&[(&["a"], 10), (&["c"], 8), (&["same"], 2)]);
        let changed = changed_functions(&before, &after);
        let names: Vec<&str> = changed.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(changed[0].shares, ["40.0 %", "0.0 %", "\u{2212}40.0 points"]);
        let (before, after) = (tree(&[(&["a"], 30), (&["b"], 70)]), tree(&[(&["a"], 60), (&["b"], 80)]));
        assert_eq!(changed_functions(&before, &after)[0].shares, ["30.0 %", "42.9 %", "+12.9 points"]);
    }

    #[test]
    fn hostile_names_are_text_in_the_page() {
        let tree = tree(&[(&["</svg><script>alert(1)</script>"], 1)]);
        let svg = FlameSvg::from_tree(&tree, "\"><b>").to_string();
        assert!(!svg.contains("<script") && !svg.contains("<b>"), "{svg}");
        assert!(!svg.contains("<style") && !svg.contains(" style="), "{svg}");
    }
}
