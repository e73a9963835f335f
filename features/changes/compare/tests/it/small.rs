//! What answers say of single functions.

use crate::builds::{Build, Compiler, read_sources};
use unslide_changes_compare::{
    BuildComparison, BuildOutcome, ChangeState, describe_outcome, list_stack_functions, summarise,
};
use unslide_symbolicate::symcache::SymCache;

/// Builds the corpus as it is and with replaced texts.
fn build_pair(level: &'static str, replaced: &[(&str, &str)]) -> (SymCache, SymCache) {
    let compiler = Compiler::new();
    let before = compiler.build(&Build::new(read_sources(), level));
    let sources =
        read_sources().map(|text| replaced.iter().fold(text, |text, (from, to)| text.replace(from, to)));
    (before, compiler.build(&Build::new(sources, level)))
}

#[test]
fn an_edited_callee_is_named_with_its_new_call_and_not_the_function_around_it() {
    let (before, after) = build_pair(
        "-O2",
        &[
            (
                "    int cut = price * percent / 100;\n",
                "    int cut = price * percent / 100;\n    cut = rounded(cut);\n",
            ),
            (
                "struct Discount {\n",
                "static inline int rounded(int value) { return value - value % 5; }\n\nstruct Discount {\n",
            ),
        ],
    );
    let comparison = BuildComparison::from_symcaches(&before, &after).unwrap();
    assert_eq!(comparison.outcome(), BuildOutcome::Compared);
    let discount = comparison.find_by_name("shop::Discount::of").remove(0);
    assert_eq!(discount.state, ChangeState::Changed);
    assert!(discount.new_inlined_calls[0].starts_with("shop::rounded"), "{discount:?}");
    // It lies in the function that inlines it.
    let worth = comparison.find_by_name("shop::Shelf::worth").remove(0);
    assert_eq!(worth.state, ChangeState::Affected, "{worth:?}");
    let moved = comparison.find_by_name("shop::digits").remove(0);
    assert_eq!(moved.state, ChangeState::Same);
    assert!(moved.line.unwrap() > moved.line_before.unwrap(), "{moved:?}");

    // The stack inside of the inlined call.
    let address = after.ranges().find_map(|(start, answer)| {
        let calls: Vec<String> = answer?.calls().map(|call| call.function.decode().into_owned()).collect();
        calls.first()?.starts_with("shop::rounded").then_some(start)
    });
    let stack = list_stack_functions(&after, address.unwrap());
    let changes = comparison.find_in_stack(&stack);
    let states: Vec<ChangeState> = changes.iter().map(|change| change.state).collect();
    assert_eq!(states[..2], [ChangeState::New, ChangeState::Changed], "{changes:?}");
    let summary = summarise(&changes, Some("2.4.1"));
    assert!(summary.starts_with("`shop::Discount::of(int) const` changed in 2.4.1: "), "{summary}");
    assert!(summary.contains("`shop::rounded(int)` is new in 2.4.1"), "{summary}");
    assert!(summary.ends_with("; nothing else in this stack did."), "{summary}");
}

#[test]
fn new_and_gone_functions_are_told_apart() {
    let (before, after) = build_pair("-O0", &[("checksum", "text_sum")]);
    let comparison = BuildComparison::from_symcaches(&before, &after).unwrap();
    let state = |name| comparison.find_by_name(name).first().map(|change| change.state);
    assert_eq!(state("text_sum"), Some(ChangeState::New));
    assert_eq!(state("checksum"), Some(ChangeState::Gone));
    assert_eq!(state("no_such_function"), None);
    assert_eq!((comparison.counts().new, comparison.counts().gone), (1, 1));
}

#[test]
fn other_flags_are_said() {
    let compiler = Compiler::new();
    let before = compiler.build(&Build::new(read_sources(), "-O0"));
    let after = compiler.build(&Build::new(read_sources(), "-O2"));
    let comparison = BuildComparison::from_symcaches(&before, &after).unwrap();
    assert_eq!(comparison.outcome(), BuildOutcome::OtherFlags);
    let sentence = describe_outcome(comparison.outcome()).unwrap();
    assert!(sentence.contains("another compiler, other flags"), "{sentence}");
}
