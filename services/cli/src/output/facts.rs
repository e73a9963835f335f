//! One thing for people: a line for each of its facts.

use super::Console;
use super::age::describe_age;
use unslide_model::{Clock, SystemClock};
use unslide_report::text::escape_line;

/// Prints a line for each fact that has a value, with the values below each other. A terminal also gets the age of
/// times.
pub fn print_facts(facts: &[(&str, String)]) {
    let now = Console::get().terminal_columns().map(|_| SystemClock.now());
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let age = now.and_then(|now| describe_age(value, now));
        let age = age.map(|age| format!("  ({age})")).unwrap_or_default();
        Console::get().say(format_args!("{name:width$}  {}{age}", escape_line(value)));
    }
}
