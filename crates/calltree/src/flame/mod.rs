//! Flame graphs: each function is as wide as its weight, below its caller. One SVG without a script and
//! without anything from elsewhere; embedded in a page, its names are found by the page's search, and the
//! keyboard goes from function to function.

mod layout;
mod svg;

use super::{CallTree, FrameOrigin, NodeIndex, TreeDifference};
use layout::{BoxContent, FlameBox, lay_out};
use svg::{DrawnBox, FlameCanvas};
use unslide_model::figures::{format_percent, format_points};

/// Width of the graph.
const GRAPH_WIDTH: f64 = 1200.0;
/// The least width of a box. Narrower boxes are merged.
const LEAST_WIDTH: f64 = 1.0;
/// The most boxes of a file, and of a page. If there are more, wider ones are merged too.
const MOST_BOXES: usize = 8_000;
const MOST_PAGE_BOXES: usize = 3_000;
/// Boxes from this width on have a name.
const NAMED_WIDTH: f64 = 20.0;
/// Boxes from this width on are reached with the keyboard.
const REACHED_WIDTH: f64 = 6.0;

/// The document that shows a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphPlace {
    /// In a file of its own, which brings its style along.
    File,
    /// In a page with a policy that forbids styles. The page's script leads the keyboard from box to box.
    Page,
}

/// Returns the flame graph of a tree, under a title.
#[must_use]
pub fn flame_graph(tree: &CallTree, title: &str, place: GraphPlace) -> String {
    let legend =
        "bold: app \u{b7} plain: system \u{b7} * dashed: kernel \u{b7} italic: threads and unknown code";
    render_flame_graph(tree, (title, legend), place, &|index| describe(tree, index))
}

/// Returns the flame graph of a difference, under a title. Widths are those of both trees together.
#[must_use]
pub fn difference_graph(difference: &TreeDifference, title: &str, place: GraphPlace) -> String {
    let legend =
        "+ red: its share has grown \u{b7} \u{2212} blue: its share has shrunk \u{b7} plain: unchanged";
    render_flame_graph(difference.tree(), (title, legend), place, &|index| describe_growth(difference, index))
}

/// The label, the description and the style of a box.
struct Description {
    label: String,
    about: String,
    style: &'static str,
}

fn render_flame_graph(
    tree: &CallTree,
    texts: (&str, &str),
    place: GraphPlace,
    describe: &dyn Fn(NodeIndex) -> Description,
) -> String {
    let boxes = lay_out_boxes(tree, place);
    let rows = boxes.iter().map(|one| one.row + 1).max().unwrap_or(1);
    let mut canvas = FlameCanvas::new(GRAPH_WIDTH, rows, texts.0, texts.1, place);
    for one in boxes {
        let Description { label, about, style } = match one.shown {
            BoxContent::Node(index) => describe(index),
            BoxContent::Rest { functions, weight } => Description {
                label: "\u{2026}".to_owned(),
                about: format!("{functions} more \u{2014} {}", format_share(tree, weight)),
                style: svg::PLAIN,
            },
        };
        canvas.add_box(&DrawnBox {
            x: one.x,
            width: one.width,
            row: one.row,
            label: Some(label).filter(|_| one.width >= NAMED_WIDTH),
            about,
            style,
            reached: one.width >= REACHED_WIDTH,
        });
    }
    canvas.into_svg()
}

fn lay_out_boxes(tree: &CallTree, place: GraphPlace) -> Vec<FlameBox> {
    let most = match place {
        GraphPlace::File => MOST_BOXES,
        GraphPlace::Page => MOST_PAGE_BOXES,
    };
    lay_out(tree, GRAPH_WIDTH, LEAST_WIDTH, most)
}

fn describe(tree: &CallTree, index: NodeIndex) -> Description {
    let frame = tree.frame(index);
    let (mark, style) = match frame.origin {
        FrameOrigin::App => ("", svg::APP),
        FrameOrigin::System => ("", svg::PLAIN),
        FrameOrigin::Kernel => ("* ", svg::KERNEL),
        FrameOrigin::Label | FrameOrigin::Unknown => ("", svg::LABEL),
    };
    let node = tree.node(index);
    let own = tree.own_amount(index);
    let own = if own.weight == node.total.weight || own.weight == 0 {
        String::new()
    } else {
        format!(", {} in itself", format_share(tree, own.weight))
    };
    let times = if node.total.count == node.total.weight {
        String::new()
    } else {
        format!(" in {}", node.total.count)
    };
    let about = format!(
        "{} \u{2014} {}{times}{own}",
        format_node_name(tree, index),
        format_share(tree, node.total.weight)
    );
    Description { label: format!("{mark}{}", frame.name), about, style }
}

fn describe_growth(difference: &TreeDifference, index: NodeIndex) -> Description {
    let tree = difference.tree();
    let growth = difference.share_growth(index);
    let (mark, style) = match growth {
        1.. => ("+ ", svg::GROWN),
        0 => ("", svg::PLAIN),
        _ => ("\u{2212} ", svg::SHRUNK),
    };
    let about = format!(
        "{} \u{2014} {} before, {} after: {}{} percentage points",
        format_node_name(tree, index),
        difference.amount_before(index).weight,
        difference.amount_after(index).weight,
        mark.trim_end(),
        format_points(growth)
    );
    Description { label: format!("{mark}{}", tree.frame(index).name), about, style }
}

/// Returns a node's function with its image, origin and line.
fn format_node_name(tree: &CallTree, index: NodeIndex) -> String {
    let frame = tree.frame(index);
    let mut text = frame.name.to_string();
    if frame.origin != FrameOrigin::Label {
        let image = if frame.image.is_empty() { "no image" } else { &*frame.image };
        text.push_str(&format!(" ({image}, {})", frame.origin.as_str()));
    }
    if let Some(place) = &tree.node(index).place {
        text.push_str(&format!(" {}:{}", place.file, place.line));
    }
    text
}

/// Returns a weight with its share of the tree.
fn format_share(tree: &CallTree, weight: u64) -> String {
    format!("{weight} {}, {}", tree.unit(), format_percent(weight, tree.total().weight))
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::super::{Amount, CallFrame};
    use super::*;

    #[test]
    fn each_function_has_a_box_with_its_count_and_share() {
        let svg =
            flame_graph(&tree(&[("main;draw;s_copy", 3), ("main;load", 1)]), "a hang", GraphPlace::File);
        for part in [
            "<title>main (Shop, app) \u{2014} 4 samples, 100.0 %</title>",
            "<title>draw (Shop, app) \u{2014} 3 samples, 75.0 %</title>",
            "<title>s_copy (Shop, system) \u{2014} 3 samples, 75.0 %</title>",
            "aria-label=\"a hang\"",
            ">load</text>",
        ] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
    }

    #[test]
    fn shares_are_rounded_and_not_cut() {
        let svg = flame_graph(&tree(&[("main;draw", 2), ("main;load", 1)]), "a hang", GraphPlace::File);
        assert!(svg.contains("2 samples, 66.7 %") && svg.contains("1 samples, 33.3 %"), "{svg}");
        let (before, after) = (tree(&[("a", 30), ("b", 70)]), tree(&[("a", 60), ("b", 80)]));
        let svg = difference_graph(&TreeDifference::from_trees(&before, &after), "two", GraphPlace::File);
        assert!(svg.contains("30 before, 60 after: +12.9 percentage points"), "{svg}");
    }

    #[test]
    fn hostile_names_are_text_and_nothing_else() {
        let mut tree = CallTree::new("samples");
        let name = "</title><script>alert(1)</script>&\"'\u{1b}\u{0}\u{61c}\u{202e}\u{ffff}";
        let frame = CallFrame::for_function(name, "<i>", FrameOrigin::App);
        tree.add_stack([&frame], Amount::from_samples(1));
        let svg = flame_graph(&tree, name, GraphPlace::File);
        assert!(!svg.contains("<script") && !svg.contains("<i>"), "{svg}");
        assert!(svg.chars().all(|c| !c.is_control() || c == '\n'), "{svg:?}");
        assert!(!svg.contains(['\u{61c}', '\u{202e}', '\u{ffff}']));
        assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;"), "{svg}");
    }

    #[test]
    fn functions_too_narrow_to_see_are_one_box_with_their_number() {
        let stacks: Vec<(String, u64)> = (0..3_000).map(|n| (format!("main;f{n}"), 1)).collect();
        let mut borrowed: Vec<(&str, u64)> = stacks.iter().map(|(s, n)| (&**s, *n)).collect();
        borrowed.push(("main;big", 1_000));
        let svg = flame_graph(&tree(&borrowed), "many", GraphPlace::File);
        assert!(svg.contains("<title>3000 more \u{2014} 3000 samples, 75.0 %</title>"));
        assert!(svg.len() < 10_000, "{}", svg.len());
    }

    #[test]
    fn a_tree_of_any_shape_makes_a_bounded_graph() {
        let mut wide = CallTree::new("samples");
        for n in 0..300 {
            let frames: Vec<CallFrame> = (0..400)
                .map(|d| CallFrame::for_function(&format!("f{n}_{d}"), "", FrameOrigin::App))
                .collect();
            wide.add_stack(&frames, Amount::from_samples(1));
        }
        let drawn = lay_out_boxes(&wide, GraphPlace::File);
        assert!(!drawn.is_empty() && drawn.len() <= MOST_BOXES, "{}", drawn.len());
        assert!(flame_graph(&CallTree::new("samples"), "nothing", GraphPlace::Page).contains("0 samples"));
    }

    #[test]
    fn where_there_is_no_room_for_all_the_heaviest_have_boxes() {
        let mut tree = CallTree::new("samples");
        for n in 1..=100_u64 {
            let name = |part: &str| CallFrame::for_function(&format!("{part}{n}"), "", FrameOrigin::App);
            tree.add_stack([&name("outer"), &name("inner")], Amount::from_samples(n));
        }
        for most in [10, 50, 200, 1_000] {
            let boxes = lay_out(&tree, GRAPH_WIDTH, 0.0, most);
            assert!(boxes.len() <= most && boxes.len() > most.min(200) / 2 - 3, "{most}: {}", boxes.len());
            let lightest = boxes.iter().filter_map(|one| match one.shown {
                BoxContent::Node(index) => Some(tree.node(index).total.weight),
                BoxContent::Rest { .. } => None,
            });
            let (lightest, drawn) = (lightest.min().unwrap(), boxes.len());
            let heavier = tree.indices().filter(|at| tree.node(*at).total.weight > lightest).count();
            assert!(heavier < drawn, "{most}: none that is heavier was left out");
        }
    }

    #[test]
    fn a_page_has_no_style_of_the_graph() {
        let svg = flame_graph(&tree(&[("main;draw", 3)]), "a hang", GraphPlace::Page);
        assert!(!svg.contains("<style") && !svg.contains(" style="), "{svg}");
        assert_eq!(svg.matches("tabindex=\"0\"").count(), 1, "the script leads on from the first box");
    }

    #[test]
    fn a_difference_says_what_grew_in_words_too() {
        let (before, after) = (tree(&[("main;a", 6), ("main;b", 4)]), tree(&[("main;a", 9), ("main;b", 1)]));
        let svg = difference_graph(&TreeDifference::from_trees(&before, &after), "two", GraphPlace::File);
        assert!(svg.contains("a (Shop, app) \u{2014} 6 before, 9 after: +30.0 percentage points"), "{svg}");
        assert!(svg.contains("b (Shop, app) \u{2014} 4 before, 1 after: \u{2212}30.0 percentage points"));
        assert!(svg.contains(">+ a</text>") && svg.contains(">\u{2212} b</text>"));
    }
}
