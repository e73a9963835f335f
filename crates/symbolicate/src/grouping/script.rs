//! Grouping of an error with the stack of a script engine: by the name of the error and the lines of the stack,
//! without what changes between builds. The native functions are those of the engine, whatever the script.

use super::fingerprint::hash_parts;
use super::rules::{RuleAction, Subject};
use super::{GroupKind, Grouping, GroupingRules, title};
use unslide_report::CrashError;

/// The most lines that count.
const MOST_COUNTED: usize = 16;
/// Parts of lines about the libraries of a language: Dart and Flutter, C# and Unity, Lua, Python, Ruby, Java.
const LIBRARIES: &[&str] = &[
    "(dart:",
    "(package:flutter/",
    "[C]:",
    "[C]",
    "/lib/python",
    "/lib/ruby/",
    "site-packages/",
    "node_modules/",
];
/// Beginnings of the names of such functions.
const LIBRARY_PREFIXES: &[&str] =
    &["System.", "UnityEngine.", "UnityEditor.", "java.", "kotlin.", "kotlinx."];
/// What is removed from a line once its numbers are masked.
const PLACES: &[&str] = &[", line #", ":#", " [#]", " in <#>", "#.#"];

/// Returns the group of an error with these lines, as [`unslide_report::Report::script_stack`] returns them.
pub(super) fn group_script(error: &CrashError, lines: &[String], rules: &GroupingRules) -> Grouping {
    let kind = GroupKind::User;
    let (mut app, mut library) = (Vec::new(), Vec::new());
    for line in lines {
        let name = normalise_line(line);
        let rule = rules.find_match(Subject { function: Some(&name), ..Subject::default() });
        let is_library = match rule.map(|rule| rule.action) {
            Some(RuleAction::Ignore) => continue,
            Some(RuleAction::NotApp) => true,
            Some(RuleAction::App | RuleAction::Sentinel) => false,
            None => is_of_library(line, &name),
        };
        let counted = if is_library { &mut library } else { &mut app };
        if !name.is_empty() && !counted.contains(&name) && counted.len() < MOST_COUNTED {
            counted.push(name);
        }
    }
    let counted = if app.is_empty() { library } else { app };
    let masked = title::mask_text(error.reason.as_deref().unwrap_or_default());
    let mut parts = vec![kind.as_str(), error.exception.as_deref().unwrap_or_default(), "script"];
    if counted.is_empty() {
        parts.push(&masked);
    }
    parts.extend(counted.iter().map(String::as_str));
    let culprit = counted.first();
    Grouping {
        fingerprint: hash_parts(&parts),
        kind,
        provisional: false,
        title: title::build_title(kind, error, None, culprit.map(String::as_str)),
        headline: None,
        culprit: culprit.cloned(),
        culprit_frame: None,
        frames: Vec::new(),
        rules: rules.hash().to_owned(),
    }
}

/// Returns a line without its position in the stack, line numbers and addresses: `Cart.total (package:shop/cart.dart)` for
/// `#0      Cart.total (package:shop/cart.dart:12:7)`.
fn normalise_line(line: &str) -> String {
    let line = match line.strip_prefix('#') {
        Some(numbered) => numbered.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => line,
    };
    let line = line.trim_start();
    let line = line.strip_prefix("at ").unwrap_or(line);
    let mut name = title::mask_text(line);
    for place in PLACES {
        name = name.replace(place, "");
    }
    name.trim().to_owned()
}

fn is_of_library(line: &str, name: &str) -> bool {
    LIBRARIES.iter().any(|part| line.contains(part))
        || LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(lines: &[&str]) -> Grouping {
        let error = CrashError {
            kind: Some("user".into()),
            exception: Some("ScriptError".into()),
            reason: Some("attempt to index a nil value".into()),
            ..CrashError::default()
        };
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        group_script(&error, &lines, &GroupingRules::default())
    }

    /// Two builds of the same stack, the culprit, and another bug, for each language.
    const LANGUAGES: &[[&[&str]; 4]] = &[
        [
            &[
                "#0      Cart.total (package:shop/cart.dart:12:7)",
                "#1      main (package:shop/main.dart:3:1)",
            ],
            &[
                "#0      Cart.total (package:shop/cart.dart:19:3)",
                "#1      main (package:shop/main.dart:4:1)",
            ],
            &["Cart.total (package:shop/cart.dart)"],
            &["#0      Cart.sum (package:shop/cart.dart:12:7)", "#1      main (package:shop/main.dart:3:1)"],
        ],
        [
            &["[C]: in function 'error'", "cart.lua:12: in method 'total'", "main.lua:3: in main chunk"],
            &["[C]: in function 'error'", "cart.lua:14: in method 'total'", "main.lua:5: in main chunk"],
            &["cart.lua: in method 'total'"],
            &["[C]: in function 'error'", "cart.lua:12: in method 'sum'", "main.lua:3: in main chunk"],
        ],
        [
            &[
                "at System.Array.Get (System.Int32 i) [0x00012] in <a1b2c3d4e5f6>:0",
                "at Shop.Cart.Total () [0x00001] in <a1b2c3d4e5f6>:0",
            ],
            &[
                "at System.Array.Get (System.Int32 i) [0x0001f] in <0f1e2d3c4b5a>:0",
                "at Shop.Cart.Total () [0x00004] in <0f1e2d3c4b5a>:0",
            ],
            &["Shop.Cart.Total ()"],
            &[
                "at System.Array.Get (System.Int32 i) [0x00012] in <a1b2c3d4e5f6>:0",
                "at Shop.Cart.Sum () [0x00001] in <a1b2c3d4e5f6>:0",
            ],
        ],
        [
            &["File \"cart.py\", line 12, in total", "File \"main.py\", line 3, in <module>"],
            &["File \"cart.py\", line 15, in total", "File \"main.py\", line 8, in <module>"],
            &["File \"cart.py\", in total"],
            &["File \"cart.py\", line 12, in sum", "File \"main.py\", line 3, in <module>"],
        ],
    ];

    #[test]
    fn errors_of_scripts_go_by_the_functions_of_the_script() {
        let mut groups = std::collections::BTreeSet::new();
        for [first, second, culprit, other] in LANGUAGES {
            let found = grouped(first);
            assert_eq!(found.culprit.as_deref(), culprit.first().copied());
            assert_eq!(grouped(second).fingerprint, found.fingerprint, "{first:?}");
            groups.extend([found.fingerprint, grouped(other).fingerprint]);
        }
        assert_eq!(groups.len(), 2 * LANGUAGES.len());
    }

    #[test]
    fn a_rule_leaves_out_a_line_and_a_recursion_counts_once() {
        let error = CrashError::default();
        let rules = GroupingRules::parse("ignore function *in check").unwrap();
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let found = group_script(&error, &lines(&["a.lua:1: in check", "b.lua:2: in f"]), &rules);
        assert_eq!(found.culprit.as_deref(), Some("b.lua: in f"));
        let deep = |depth| grouped(&vec!["a.lua:1: in f"; depth]).fingerprint;
        assert_eq!(deep(2), deep(90));
        // Libraries alone count if there is nothing else.
        assert_eq!(
            grouped(&["[C]: in function 'error'"]).culprit.as_deref(),
            Some("[C]: in function 'error'")
        );
    }
}
