//! Says in sentences how functions and builds differ.

use crate::changed_function::{ChangeState, FunctionChange};
use crate::outcome::{BuildCounts, BuildOutcome};

/// Functions that a summary names with their evidence.
const NAMED_FUNCTIONS: usize = 3;
/// Calls that a sentence names.
const NAMED_CALLS: usize = 3;
/// Characters of a name in a sentence.
const NAME_CHARS: usize = 120;

/// Says why builds are not compared; `None` if they are.
#[must_use]
pub fn describe_outcome(outcome: BuildOutcome) -> Option<&'static str> {
    match outcome {
        BuildOutcome::Compared => None,
        BuildOutcome::OtherFlags => Some(
            "Not compared: most functions differ, so the builds were made with another compiler, other flags or another optimisation.",
        ),
        BuildOutcome::OtherProgram => {
            Some("Not compared: most functions of one build are not in the other one by name.")
        }
        BuildOutcome::OtherCpu => Some("Not compared: the builds are for different CPUs."),
        BuildOutcome::NoLines => Some("Not compared: the symbols of one build have no source lines."),
    }
}

/// Says in a sentence how many functions differ between two builds.
#[must_use]
pub fn describe_counts(counts: &BuildCounts) -> String {
    let BuildCounts { after, changed, resized, new, gone, .. } = counts;
    if changed + resized + new + gone == 0 {
        return format!("None of {after} functions was edited.");
    }
    let parts = [
        (*changed, "edited"),
        (*new, "new"),
        (*gone, "gone"),
        (*resized, "with the same lines and other code"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    format!("Of {after} functions: {}.", parts.join(", "))
}

/// Says in a sentence which functions of a stack changed. `version` is that of the build after.
#[must_use]
pub fn summarise(changes: &[FunctionChange], version: Option<&str>) -> String {
    let version = version.filter(|version| !version.is_empty());
    let since = version.map(|version| format!(" in {version}")).unwrap_or_default();
    let in_state = |state| changes.iter().filter(move |change| change.state == state);
    let edited: Vec<&FunctionChange> =
        in_state(ChangeState::Changed).chain(in_state(ChangeState::New)).collect();
    let resized = match in_state(ChangeState::Resized).count() {
        0 => String::new(),
        1 => " One has the same lines and other code: something that it uses may have changed.".to_owned(),
        count => {
            format!(" {count} have the same lines and other code: something that they use may have changed.")
        }
    };
    if edited.is_empty() {
        return format!("No function of this stack was edited{since}.{resized}");
    }
    let named = edited.iter().take(NAMED_FUNCTIONS).map(|change| {
        let name = quote_name(&change.name);
        match change.state {
            ChangeState::New => format!("{name} is new{since}"),
            _ => format!("{name} changed{since}: {}", list_evidence(change)),
        }
    });
    let named: Vec<String> = named.collect();
    let rest = match edited.len() - named.len() {
        0 => "nothing else in this stack did".to_owned(),
        1 => "one more function of this stack did".to_owned(),
        more => format!("{more} more functions of this stack did"),
    };
    format!("{}; {rest}.{resized}", named.join("; "))
}

/// Says what became of a function.
pub(crate) fn describe_change(change: &FunctionChange) -> String {
    let name = quote_name(&change.name);
    match change.state {
        ChangeState::Changed => format!("{name} changed: {}.", list_evidence(change)),
        ChangeState::New => format!("{name} is new."),
        ChangeState::Gone => format!("{name} is gone."),
        ChangeState::Resized => {
            let bytes = describe_bytes(change).unwrap_or_else(|| "other code".to_owned());
            format!("{name} has the same lines and {bytes}: something that it uses may have changed.")
        }
        ChangeState::Affected => format!("{name} is the same; calls that are inlined into it differ."),
        ChangeState::NotCompared => {
            format!("{name} is not compared: symbols do not name its lines in both builds.")
        }
        ChangeState::Same => match (change.line, change.line_before) {
            (Some(line), Some(before)) if line != before => {
                format!("{name} is the same, at line {line} in place of {before}.")
            }
            _ => format!("{name} is the same."),
        },
    }
}

/// Lists what shows that a function was edited.
fn list_evidence(change: &FunctionChange) -> String {
    let mut evidence = Vec::new();
    match change.lines_more {
        0 if change.changed_line.is_some() => {}
        0 => evidence.extend(describe_bytes(change).map(|bytes| format!("the same lines and {bytes}"))),
        more => {
            let noun = if more.abs() == 1 { "line" } else { "lines" };
            let word = if more > 0 { "more" } else { "fewer" };
            evidence.push(format!("{} {noun} {word}", more.abs()));
        }
    }
    evidence.extend(change.changed_line.map(|line| format!("other code from line {line} on")));
    if !change.new_inlined_calls.is_empty() {
        evidence.push(format!("a new call of {}", list_names(&change.new_inlined_calls)));
    }
    if !change.lost_inlined_calls.is_empty() {
        evidence.push(format!("no call of {} any more", list_names(&change.lost_inlined_calls)));
    }
    if evidence.is_empty() {
        evidence.push("other inlined calls".to_owned());
    }
    evidence.join(", ")
}

fn describe_bytes(change: &FunctionChange) -> Option<String> {
    let (size, before) = (change.size?, change.size_before?);
    let word = if size > before { "more" } else { "fewer" };
    let bytes = size.abs_diff(before);
    let noun = if bytes == 1 { "byte" } else { "bytes" };
    (bytes > 0).then(|| format!("{bytes} {noun} {word}"))
}

fn list_names(names: &[String]) -> String {
    let mut list: Vec<String> = names.iter().take(NAMED_CALLS).map(|name| quote_name(name)).collect();
    if names.len() > NAMED_CALLS {
        list.push(format!("{} more", names.len() - NAMED_CALLS));
    }
    let last = list.pop().unwrap_or_default();
    if list.is_empty() { last } else { format!("{} and {last}", list.join(", ")) }
}

fn quote_name(name: &str) -> String {
    let mut cut: String = name.chars().take(NAME_CHARS).collect();
    if cut.len() < name.len() {
        cut.push('…');
    }
    format!("`{cut}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, state: ChangeState) -> FunctionChange {
        FunctionChange {
            name: name.to_owned(),
            symbol: None,
            state,
            text: String::new(),
            file: None,
            file_before: None,
            line: Some(12),
            last_line: Some(20),
            line_before: Some(10),
            changed_line: None,
            lines_more: 0,
            size: Some(40),
            size_before: Some(24),
            new_inlined_calls: Vec::new(),
            lost_inlined_calls: Vec::new(),
        }
    }

    #[test]
    fn a_summary_names_what_changed_with_the_evidence() {
        let total = FunctionChange {
            lines_more: 3,
            changed_line: Some(14),
            new_inlined_calls: vec!["Discount.of".to_owned()],
            ..change("Cart.total", ChangeState::Changed)
        };
        let stack = [total.clone(), change("main", ChangeState::Same)];
        assert_eq!(
            summarise(&stack, Some("2.4.1")),
            "`Cart.total` changed in 2.4.1: 3 lines more, other code from line 14 on, a new call of `Discount.of`; nothing else in this stack did."
        );
        let resized = [change("main", ChangeState::Resized)];
        assert_eq!(
            summarise(&resized, None),
            "No function of this stack was edited. One has the same lines and other code: something that it uses may have changed."
        );
        let many: Vec<_> = (0..5).map(|_| total.clone()).collect();
        assert!(summarise(&many, Some("")).ends_with("; 2 more functions of this stack did."));
        assert!(summarise(&[change("main", ChangeState::New)], Some("3")).starts_with("`main` is new in 3;"));
    }

    #[test]
    fn each_state_has_a_sentence() {
        assert_eq!(
            describe_change(&change("main", ChangeState::Changed)),
            "`main` changed: the same lines and 16 bytes more."
        );
        assert_eq!(
            describe_change(&change("main", ChangeState::Same)),
            "`main` is the same, at line 12 in place of 10."
        );
        assert!(describe_change(&change("main", ChangeState::Resized)).contains("16 bytes more"));
        let long = change(&"n".repeat(500), ChangeState::Gone);
        assert_eq!(describe_change(&long), format!("`{}…` is gone.", "n".repeat(120)));
    }

    #[test]
    fn counts_are_said_in_words() {
        let same = BuildCounts { before: 9, after: 9, ..BuildCounts::default() };
        assert_eq!(describe_counts(&same), "None of 9 functions was edited.");
        let edited = BuildCounts { changed: 1, new: 2, resized: 3, ..same };
        assert_eq!(
            describe_counts(&edited),
            "Of 9 functions: 1 edited, 2 new, 3 with the same lines and other code."
        );
    }

    #[test]
    fn names_of_calls_are_cut_off() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(list_names(&names), "`a`, `b`, `c` and 2 more");
        assert_eq!(list_names(&names[..2]), "`a` and `b`");
    }
}
