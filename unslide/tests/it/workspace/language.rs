//! Counts habits of language that make a reader stop, in production code. A change must not add to them.
//!
//! The limits are those of "Language" in `docs/development.md`.

use super::layering::{sources, top};
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A habit, and how often the sources may have it.
struct Habit {
    name: &'static str,
    limit: Limit,
}

/// The most places with a habit.
#[derive(Clone, Copy)]
enum Limit {
    /// In all sources.
    Total(usize),
    /// Of 1,000 doc comments.
    PerThousandComments(usize),
    /// Of 1,000 functions.
    PerThousandFunctions(usize),
}

const COMMENT_BEGINS_WITH_WHAT: Habit =
    Habit { name: "a doc comment begins with \"What\"", limit: Limit::PerThousandComments(5) };
const WHERE_FOR_IF: Habit =
    Habit { name: "\"where\" that may mean \"if\"", limit: Limit::PerThousandComments(20) };
const UNUSUAL_WORD: Habit =
    Habit { name: "a word that the field does not use", limit: Limit::PerThousandComments(8) };
const SHORT_COMMENT: Habit = Habit {
    name: "a doc comment of at most four words in a service or feature",
    limit: Limit::PerThousandComments(20),
};
const FUNCTION_NAMED_OF: Habit =
    Habit { name: "a function named `of`", limit: Limit::PerThousandFunctions(2) };
const ONE_WORD_FUNCTION: Habit =
    Habit { name: "a function with a name of one word", limit: Limit::PerThousandFunctions(500) };
const TUPLE_PARAMETER: Habit = Habit { name: "a tuple as a parameter's pattern", limit: Limit::Total(10) };
/// An id of rows has a type of its own (`unslide_store::ids`); in front of the statements a UUID may be one.
const BARE_ID: Habit = Habit { name: "an id that is a bare `Uuid`", limit: Limit::Total(243) };
const NESTED_RESULT: Habit = Habit { name: "a `Result` of a `Result`", limit: Limit::Total(2) };
const SHARED_CONSTANT_NAME: Habit =
    Habit { name: "a short name of more than three constants", limit: Limit::Total(4) };

/// Shared names shorter than this say too little.
const SHORT_NAME_BYTES: usize = 9;
/// Constants that may share a short name.
const SHARED_NAME_LIMIT: usize = 3;
/// Words of a short comment.
const SHORT_COMMENT_WORDS: usize = 4;

/// The patterns by which habits are recognised.
struct Patterns {
    what: Regex,
    place: Regex,
    words: Regex,
    function: Regex,
    constant: Regex,
    tuple: Regex,
    bare_id: Regex,
}

impl Patterns {
    fn new() -> Patterns {
        let build = |pattern: &str| Regex::new(pattern).unwrap();
        Patterns {
            what: build(r"^What\b[^?]*$"),
            place: build(
                r"\b[Ww]here (it|its|the|there|they|a|an|no|none|nobody|that|this|these|one|each|two|several)\b",
            ),
            words: build(concat!(
                r"(?i)\b(whoever|whose|nobody|somebody|anybody|anew|meanwhile|becomes of|became of|stands for|",
                r"is told|are told|for good|by itself|so many|of whatever|in turns|",
                r"what is (?:left|there|new|known)|as it (?:came|comes|is)|is to blame)\b"
            )),
            function: build(r"^(?:pub(?:\([a-z:]+\))? )?(?:async )?(?:const )?(?:unsafe )?fn (\w+)"),
            constant: build(r"^(?:pub(?:\([a-z:]+\))? )?(?:const|static) ([A-Z][A-Z0-9_]+):"),
            tuple: build(r"[(,]\s*\((?:mut )?\w+(?:\s*,\s*(?:mut )?\w+)+\)\s*:\s*[(&]"),
            bare_id: build(r"[:<(&\[ ]Uuid(?:[,>)\] ;]|$)"),
        }
    }
}

/// Everything that was counted.
#[derive(Default)]
struct Count {
    comments: usize,
    functions: usize,
    places: BTreeMap<&'static str, Vec<String>>,
    constants: BTreeMap<String, Vec<String>>,
}

impl Count {
    fn add_place(&mut self, habit: &Habit, place: String) {
        self.places.entry(habit.name).or_default().push(place);
    }

    fn add_source(&mut self, path: &str, text: &str, patterns: &Patterns) {
        let is_service =
            ["services", "features", "commands", "tools", "unslide"].iter().any(|top| path.starts_with(top));
        let mut comment: Vec<&str> = Vec::new();
        for (index, row) in text.lines().chain([""]).enumerate() {
            let row = row.trim();
            if let Some(line) = row.strip_prefix("///").or_else(|| row.strip_prefix("//!")) {
                comment.push(line.trim());
                continue;
            }
            if !comment.is_empty() {
                let place = format!("{path}:{}", index + 1 - comment.len());
                self.add_comment(&comment, is_service, &place, patterns);
                comment.clear();
            }
            self.add_code(row, &format!("{path}:{}", index + 1), patterns);
        }
        self.add_tuples(path, text, patterns);
    }

    fn add_comment(&mut self, lines: &[&str], is_service: bool, place: &str, patterns: &Patterns) {
        self.comments += 1;
        let whole = lines.join(" ");
        if patterns.what.is_match(lines[0]) {
            self.add_place(&COMMENT_BEGINS_WITH_WHAT, format!("{place}: {}", lines[0]));
        }
        for found in patterns.place.find_iter(&whole) {
            self.add_place(&WHERE_FOR_IF, format!("{place}: {}", found.as_str()));
        }
        for found in patterns.words.find_iter(&whole) {
            self.add_place(&UNUSUAL_WORD, format!("{place}: {}", found.as_str()));
        }
        if is_service && lines.len() == 1 && whole.split_whitespace().count() <= SHORT_COMMENT_WORDS {
            self.add_place(&SHORT_COMMENT, format!("{place}: {whole}"));
        }
    }

    fn add_code(&mut self, row: &str, place: &str, patterns: &Patterns) {
        if let Some(found) = patterns.function.captures(row) {
            let name = &found[1];
            self.functions += 1;
            if !name.trim_matches('_').contains('_') {
                self.add_place(&ONE_WORD_FUNCTION, format!("{place}: {name}"));
            }
            if name == "of" || name.starts_with("of_") {
                self.add_place(&FUNCTION_NAMED_OF, format!("{place}: {name}"));
            }
        }
        if let Some(found) = patterns.constant.captures(row) {
            self.constants.entry(found[1].to_owned()).or_default().push(place.to_owned());
        }
        let is_quoted = row.starts_with("use ") || row.contains("= Uuid, Path") || row.contains("value_type");
        if !is_quoted && patterns.bare_id.is_match(row) {
            self.add_place(&BARE_ID, format!("{place}: {row}"));
        }
        if row.contains("Result<Result<") {
            self.add_place(&NESTED_RESULT, format!("{place}: {row}"));
        }
    }

    fn add_tuples(&mut self, path: &str, text: &str, patterns: &Patterns) {
        for found in patterns.tuple.find_iter(text) {
            let before = text.get(..found.start()).unwrap_or_default();
            let Some(head) = before.rfind("fn ") else { continue };
            if !before.get(head..).unwrap_or_default().contains(['{', ';']) {
                let line = before.lines().count();
                self.add_place(&TUPLE_PARAMETER, format!("{path}:{line}"));
            }
        }
    }

    fn add_shared_constants(&mut self) {
        for (name, places) in std::mem::take(&mut self.constants) {
            if places.len() > SHARED_NAME_LIMIT && name.len() < SHORT_NAME_BYTES {
                self.add_place(&SHARED_CONSTANT_NAME, format!("{name}: {}", places.join(", ")));
            }
        }
    }

    fn most_allowed(&self, limit: Limit) -> usize {
        match limit {
            Limit::Total(places) => places,
            Limit::PerThousandComments(rate) => self.comments * rate / 1000,
            Limit::PerThousandFunctions(rate) => self.functions * rate / 1000,
        }
    }
}

/// Every habit that is counted.
const HABITS: [&Habit; 10] = [
    &COMMENT_BEGINS_WITH_WHAT,
    &WHERE_FOR_IF,
    &UNUSUAL_WORD,
    &SHORT_COMMENT,
    &FUNCTION_NAMED_OF,
    &ONE_WORD_FUNCTION,
    &TUPLE_PARAMETER,
    &BARE_ID,
    &NESTED_RESULT,
    &SHARED_CONSTANT_NAME,
];

/// Returns true for sources that run in production.
fn is_production(path: &str) -> bool {
    let is_test = |part: &str| {
        let part = part.strip_suffix(".rs").unwrap_or(part);
        matches!(part, "test" | "tests" | "fixtures" | "generated" | "benches" | "testkit" | "harness")
    };
    path.contains("/src/") && !path.split('/').any(is_test)
}

#[test]
fn the_text_of_the_sources_reads_as_the_field_writes() {
    let patterns = Patterns::new();
    let mut count = Count::default();
    for path in sources() {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        if is_production(&shown) {
            let text = std::fs::read_to_string(&path).unwrap();
            let production = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            count.add_source(&shown, production, &patterns);
        }
    }
    count.add_shared_constants();
    assert!(count.functions > 4000 && count.comments > 4000, "the sources are read");
    let mut wrong = String::new();
    for habit in HABITS {
        let places = count.places.get(habit.name).map_or(&[] as &[String], Vec::as_slice);
        let most = count.most_allowed(habit.limit);
        if places.len() > most {
            let list = places.join("\n  ");
            writeln!(wrong, "{}: {} times, {most} are allowed:\n  {list}", habit.name, places.len()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_habit_is_recognised() {
    let patterns = Patterns::new();
    let mut count = Count::default();
    let text = "/// What a lane works with, where it can, for whoever asks.
struct Lane { id: Uuid }
/// The topic.
fn of((a, b): (u8, u8)) -> Result<Result<u8, u8>, u8> {}
const WAIT: u8 = 1;
const WAIT: u8 = 2;
const WAIT: u8 = 3;
const WAIT: u8 = 4;
";
    count.add_source("services/x/src/lane.rs", text, &patterns);
    count.add_shared_constants();
    for habit in HABITS {
        assert_eq!(count.places.get(habit.name).map_or(0, Vec::len), 1, "{}", habit.name);
    }
}
