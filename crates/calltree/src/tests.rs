//! Trees that are made by hand, and what they count.

use super::*;

impl CallTree {
    /// Adds a stack, the outermost frame first.
    pub(crate) fn add_stack<'f>(&mut self, frames: impl IntoIterator<Item = &'f CallFrame>, amount: Amount) {
        let at = frames.into_iter().fold(CallTree::ROOT, |at, frame| self.find_or_add_child(at, frame, None));
        self.add_amount(at, amount);
    }
}

/// A tree of folded stacks; names that begin with `s_` are the system's.
pub(crate) fn tree(stacks: &[(&str, u64)]) -> CallTree {
    let mut tree = CallTree::new("samples");
    for (stack, count) in stacks {
        let frames: Vec<CallFrame> = stack.split(';').map(frame).collect();
        tree.add_stack(&frames, Amount::from_samples(*count));
    }
    tree
}

fn frame(name: &str) -> CallFrame {
    let origin = if name.starts_with("s_") { FrameOrigin::System } else { FrameOrigin::App };
    CallFrame::for_function(name, "Shop", origin)
}

#[test]
fn stacks_share_the_nodes_of_their_common_callers() {
    let tree = tree(&[("main;a", 2), ("main;b", 3), ("main", 1), ("main;a", 1)]);
    assert_eq!((tree.node_count(), tree.total()), (4, Amount::from_samples(7)));
    let main = tree.children(CallTree::ROOT)[0];
    assert_eq!(tree.own_amount(main), Amount::from_samples(1));
    let names: Vec<&str> = tree.children(main).iter().map(|child| &*tree.frame(*child).name).collect();
    assert_eq!(names, ["a", "b"], "equal weights go by name");
}

#[test]
fn merged_trees_are_the_tree_of_all_stacks() {
    let (one, two) = ([("main;a", 2), ("main", 1)], [("main;a;c", 4), ("other", 5)]);
    let mut merged = tree(&one);
    merged.merge(&tree(&two));
    assert_eq!(merged.to_folded(), tree(&[&one[..], &two].concat()).to_folded());
}

#[test]
fn amounts_that_say_less_than_what_is_called_are_raised() {
    let mut tree = CallTree::new("samples");
    let main = tree.find_or_add_child(CallTree::ROOT, &frame("main"), None);
    let called = tree.find_or_add_child(main, &frame("called"), None);
    tree.add_inclusive(main, Amount::from_samples(1));
    tree.add_inclusive(called, Amount::from_samples(7));
    tree.raise_to_children();
    assert_eq!((tree.total(), tree.own_amount(main)), (Amount::from_samples(7), Amount::default()));
}

#[test]
fn a_stack_deeper_than_the_limit_ends_at_it() {
    let deep = vec![frame("recursive"); MOST_DEPTH + 10];
    let mut tree = CallTree::new("samples");
    tree.add_stack(&deep, Amount::from_samples(1));
    assert_eq!((tree.node_count(), tree.cut_frames()), (MOST_DEPTH + 1, 10));
}

#[test]
fn a_tree_has_no_more_functions_than_nodes() {
    let mut tree = CallTree::with_node_limit("samples", 3);
    let [a, b] = ["a", "b"].map(|name| tree.frame_number(&frame(name)));
    assert!(a.is_some() && b.is_some());
    assert_eq!((tree.frame_number(&frame("c")), tree.frame_number(&frame("a"))), (None, a));
}

#[test]
fn the_frames_of_an_image_share_its_name() {
    let mut tree = CallTree::new("samples");
    let before = tree.memory_bytes();
    let [first, second] = ["a", "b"].map(|name| tree.find_or_add_child(CallTree::ROOT, &frame(name), None));
    assert!(Arc::ptr_eq(&tree.frame(first).image, &tree.frame(second).image));
    assert_eq!(tree.memory_bytes() - before, 2 * NODE_BYTES + 2 + "Shop".len() as u64);
}

#[test]
fn different_lines_of_one_function_leave_none() {
    let mut tree = CallTree::new("samples");
    let place = |line| SourcePlace { file: "a.c".into(), line };
    let node = tree.find_or_add_child(CallTree::ROOT, &frame("a"), Some(&place(3)));
    assert_eq!(tree.find_or_add_child(CallTree::ROOT, &frame("a"), Some(&place(3))), node);
    assert_eq!(tree.node(node).place, Some(place(3)));
    tree.find_or_add_child(CallTree::ROOT, &frame("a"), Some(&place(4)));
    assert_eq!(tree.node(node).place, None);
}
