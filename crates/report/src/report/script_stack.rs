//! The stack that a script engine gives with an error: `crash.error.user_reported` of KSCrash, for languages other than
//! JavaScript.

use super::{ErrorKind, Report};
use crate::json::Value;
use crate::report::summary::facts::PartFacts;

/// The maximum number of lines that are read.
const MOST_LINES: usize = 128;
/// The maximum number of characters of a line.
const MOST_CHARS: usize = 500;
/// The maximum number of bytes of a text with many lines.
const MOST_BYTES: usize = 64 << 10;

impl Report<'_> {
    /// Returns the lines of the stack that a script engine has reported, as the report has them: `backtrace`, or else
    /// `line_of_code`. An entry that is an object gives its members as text. Empty for other reports.
    #[must_use]
    pub fn script_stack(&self) -> Vec<String> {
        let facts = PartFacts::for_part(self, self.main_part());
        if facts.part().is_none_or(|part| part.error_kind() != ErrorKind::User) {
            return Vec::new();
        }
        let Some(user) = facts.error_member(&["user_reported"]) else { return Vec::new() };
        let [backtrace, line] = user.find_members(["backtrace", "line_of_code"]);
        let mut lines = Vec::new();
        if let Some(backtrace) = backtrace {
            match backtrace.as_text() {
                Some(_) => add_text(backtrace, &mut lines),
                None => backtrace.each_item(|entry| add_entry(entry, &mut lines)),
            }
        }
        if lines.is_empty()
            && let Some(line) = line
        {
            add_text(line, &mut lines);
        }
        lines
    }
}

/// Adds an entry of a list: a text, or an object with a function and a file, whatever they are called.
fn add_entry(entry: Value<'_>, lines: &mut Vec<String>) {
    if !entry.is_object() {
        return add_text(entry, lines);
    }
    let [function, method, name, file, filename, source] =
        entry.find_members(["function", "method", "name", "file", "filename", "source"]);
    let texts = [function.or(method).or(name), file.or(filename).or(source)].into_iter().flatten();
    let texts: Vec<String> = texts.filter_map(Value::decode_string).collect();
    push_line(&texts.join(" in "), lines);
}

fn add_text(value: Value<'_>, lines: &mut Vec<String>) {
    let text = value.as_text().filter(|text| text.raw().len() <= MOST_BYTES);
    for line in text.map(|text| text.decode().into_owned()).unwrap_or_default().lines() {
        push_line(line, lines);
    }
}

fn push_line(line: &str, lines: &mut Vec<String>) {
    let line = line.trim();
    if !line.is_empty() && lines.len() < MOST_LINES {
        lines.push(line.chars().take(MOST_CHARS).collect());
    }
}

#[cfg(test)]
mod tests {
    use crate::{ReadLimits, Report};

    fn stack(error: &str) -> Vec<String> {
        let text = format!(r#"{{"crash":{{"error":{error},"threads":[]}}}}"#);
        Report::read(text.as_bytes(), &ReadLimits::default()).unwrap().script_stack()
    }

    #[test]
    fn the_lines_of_a_script_engine_are_read_in_each_form() {
        let user = |user: &str| stack(&format!(r#"{{"type":"user","user_reported":{user}}}"#));
        assert_eq!(
            user(r#"{"backtrace":["a.lua:1: in f"," ","b.lua:2: in g"]}"#),
            ["a.lua:1: in f", "b.lua:2: in g"]
        );
        assert_eq!(
            user(r##"{"backtrace":"#0 f (a.dart:1)\n#1 g (b.dart:2)"}"##),
            ["#0 f (a.dart:1)", "#1 g (b.dart:2)"]
        );
        assert_eq!(
            user(r#"{"backtrace":[{"function":"f","file":"a.py"},{"method":"g"},7]}"#),
            ["f in a.py", "g"]
        );
        assert_eq!(user(r#"{"line_of_code":"a.lua, line 3","backtrace":[]}"#), ["a.lua, line 3"]);
        assert_eq!(user(r#"{"backtrace":null}"#), [""; 0]);
        assert_eq!(stack(r#"{"type":"mach","user_reported":{"backtrace":["a"]}}"#), [""; 0]);
    }

    /// Proves: bounded-input
    #[test]
    fn a_long_stack_is_cut() {
        let lines = vec![format!("\"{}\"", "é".repeat(2_000)); 1_000].join(",");
        let read = stack(&format!(r#"{{"type":"user","user_reported":{{"backtrace":[{lines}]}}}}"#));
        assert_eq!((read.len(), read[0].chars().count()), (super::MOST_LINES, super::MOST_CHARS));
    }
}
