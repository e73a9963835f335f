use super::super::fingerprint::build_grouping;
use super::*;

fn function(name: &str, file: &str, in_app: bool) -> Candidate<'static> {
    let function = NamedFunction {
        name: name.to_owned(),
        path: Some(format!("/src/{file}")),
        is_rust: false,
        no_return: None,
        has_debug_info: true,
    };
    Candidate::from_function(0, function, name.to_owned(), in_app, None, None)
}

fn counted(list: Vec<Candidate<'static>>) -> Vec<String> {
    let candidates = Candidates { list, trap: None };
    let chosen = candidates.choose_counted(GroupKind::Crash);
    chosen.into_iter().map(|at| candidates.list[at].counted.function.clone()).collect()
}

#[test]
fn a_function_that_repeats_itself_counts_once() {
    let user = || function("first_title", "shop.cpp", true);
    for depth in [1, 2, 20] {
        let mut list: Vec<_> = (0..depth).map(|_| function("Tree::walk", "tree.hpp", true)).collect();
        list.push(user());
        let candidates = Candidates { list, trap: None };
        let chosen = candidates.choose_counted(GroupKind::Crash);
        let functions: Vec<&str> = chosen.iter().map(|at| candidates.function_at(*at)).collect();
        assert_eq!(functions, ["Tree::walk", "first_title"], "{depth}");
        if depth > 1 {
            assert_eq!(candidates.verdict_at(GroupKind::Crash, &chosen, 1), GroupingVerdict::Repeated);
        }
    }
    let system = |names: &[&str]| counted(names.iter().map(|name| function(name, "a.c", false)).collect());
    assert_eq!(system(&["walk", "walk", "visit", "walk", "layout", "draw"]), ["walk", "visit", "layout"]);
}

#[test]
fn a_turn_of_many_functions_counts_the_same_wherever_it_stops() {
    let turn = |first: usize, in_app: bool| {
        let name = |n: usize| format!("f{:02}", n % 20);
        let list = (first..first + 20).map(|n| function(&name(n), "a.cpp", in_app)).collect();
        let candidates = Candidates { list, trap: None };
        let chosen = candidates.choose_counted(GroupKind::StackOverflow);
        chosen.into_iter().map(|at| candidates.function_at(at).to_owned()).collect::<Vec<_>>()
    };
    for in_app in [true, false] {
        assert_eq!(turn(0, in_app).len(), if in_app { MOST_COUNTED } else { SYSTEM_FUNCTIONS });
        assert!((1..20).all(|first| turn(first, in_app) == turn(0, in_app)));
    }
}

#[test]
fn a_trap_outside_of_the_function_that_counts_is_of_something_else() {
    let at = |frame: usize, name: &str, in_app: bool| {
        let mut candidate = function(name, "Cart.swift", in_app);
        candidate.counted.frame = frame;
        candidate
    };
    let trapped = |frame: usize, in_app: bool| {
        let trap = Some(Trap { frame, reason: "arithmetic overflow".to_owned() });
        let list = vec![at(0, "memmove_of_ours", false), at(1, "Cart.total", in_app), at(2, "draw", in_app)];
        let candidates = Candidates { list, trap };
        let chosen = candidates.choose_counted(GroupKind::Crash);
        candidates.trap_inside(&chosen).map(str::to_owned)
    };
    for frame in [0, 1] {
        assert_eq!(trapped(frame, true).as_deref(), Some("arithmetic overflow"), "{frame}");
    }
    assert_eq!(trapped(2, true), None);
    // Functions of the system have no function that is to blame.
    assert_eq!(trapped(2, false).as_deref(), Some("arithmetic overflow"));
}

#[test]
fn a_function_of_a_header_counts_with_the_function_that_uses_it() {
    let at = || function("Shelf::at", "shelf.hpp", true);
    let used = || {
        let system = function("qsort", "qsort.c", false);
        vec![at(), system, function("first_title", "shop.cpp", true), function("main_view", "a.m", true)]
    };
    assert_eq!(counted(used()), ["Shelf::at", "first_title"]);
    let group = |list: Vec<Candidate<'static>>| {
        let candidates = Candidates { list, trap: None };
        let chosen = candidates.choose_counted(GroupKind::Crash);
        let (error, rules) = (CrashError::default(), GroupingRules::default());
        build_grouping(GroupKind::Crash, &error, &rules, &candidates, &chosen, &chosen)
    };
    let first = group(used());
    assert_eq!(first.culprit.as_deref(), Some("first_title (shop.cpp)"));
    let other = group(vec![at(), function("last_badge", "shop.cpp", true)]);
    assert_ne!(other.fingerprint, first.fingerprint);
    // Nothing else is there.
    assert_eq!(group(vec![at()]).culprit.as_deref(), Some("Shelf::at (shelf.hpp)"));
    assert_eq!(counted(vec![function("Cart.total", "Cart.swift", true), at()]), ["Cart.total"]);
}
