//! The output of commands: every line on standard output and standard error goes through here.
//!
//! A reader that closes the output (`unslide key list | head -1`) ends no command. Later output is dropped,
//! so the work goes on and the exit code says how the work ended. Names and texts come from reports, archives
//! and customers, so this module escapes every character that a terminal obeys. A line stays one line: a line
//! break in an argument is escaped too, because a build system takes some lines for commands.

mod age;
mod confirm;
mod facts;
mod secret;
mod table;

pub use age::describe_age;
pub use confirm::{can_ask, confirm_action};
pub use facts::print_facts;
pub use secret::{read_answer, read_secret};
pub use table::Table;

use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use unslide_report::text::{escape_for_terminal, is_obeyed};

/// Prints one line on standard output.
#[macro_export]
macro_rules! say {
    ($($format:tt)*) => { $crate::Console::get().say(format_args!($($format)*)) };
}
/// Prints a line of progress on standard output; with `--quiet` none.
#[macro_export]
macro_rules! inform {
    ($($format:tt)*) => { $crate::Console::get().inform(format_args!($($format)*)) };
}
/// Prints one line on standard error, after the program's name.
#[macro_export]
macro_rules! note {
    ($($format:tt)*) => { $crate::Console::get().note(format_args!($($format)*)) };
}
/// The output of this process.
pub struct Console {
    state: Mutex<State>,
}

struct State {
    quiet: bool,
    /// True if the reader has closed standard output.
    closed: bool,
    /// The reason why standard output could not be written, if it is still read.
    failed: Option<io::Error>,
}

static OUTPUT: Console = Console { state: Mutex::new(State { quiet: false, closed: false, failed: None }) };

impl Console {
    /// Returns the console of this process.
    pub fn get() -> &'static Console {
        &OUTPUT
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops progress from here on.
    pub fn be_quiet(&self) {
        self.lock_state().quiet = true;
    }

    /// Returns true if standard output is closed or fails: a command that only lists can stop.
    pub fn is_closed(&self) -> bool {
        let state = self.lock_state();
        state.closed || state.failed.is_some()
    }

    /// Returns the width of the terminal that shows standard output, or None if it is none.
    pub fn terminal_columns(&self) -> Option<usize> {
        let (_, columns) = console::Term::stdout().size_checked()?;
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    }

    /// Prints one line on standard output. See [`say!`].
    pub fn say(&self, line: fmt::Arguments<'_>) {
        let mut line = escape_for_terminal(&line.to_string()).into_owned();
        line.push('\n');
        self.write_bytes(line.as_bytes());
    }

    /// Prints a text of several lines on standard output, such as a page of help. The caller escapes the line breaks of
    /// texts from outside that it puts in.
    pub fn say_lines(&self, text: &str) {
        text.split('\n').for_each(|line| self.say(format_args!("{line}")));
    }

    /// Prints a line of progress. See [`inform!`].
    pub fn inform(&self, line: fmt::Arguments<'_>) {
        if !self.lock_state().quiet {
            self.say(line);
        }
    }

    /// Prints one line on standard error. See [`note!`].
    pub fn note(&self, line: fmt::Arguments<'_>) {
        // There is no other place for text that standard error does not accept.
        let _ = writeln!(io::stderr().lock(), "unslide: {}", escape_for_terminal(&line.to_string()));
    }

    /// Prints a JSON document on standard output. Also escapes characters that a terminal obeys and JSON does
    /// not escape, such as DEL and those that change the direction of writing.
    ///
    /// # Errors
    /// Returns an error if the value cannot be written as JSON.
    pub fn print_json(&self, value: &impl Serialize) -> serde_json::Result<()> {
        self.write_bytes(json_text(value, true)?.as_bytes());
        Ok(())
    }

    /// Writes bytes to standard output unchanged.
    pub fn write_bytes(&self, bytes: &[u8]) {
        let mut state = self.lock_state();
        if state.closed || state.failed.is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => state.closed = true,
            Err(error) => state.failed = Some(error),
        }
    }

    /// Checks at the end that standard output could be written. A reader that closed it is no failure.
    ///
    /// # Errors
    /// Returns an error such as that of a full disk.
    pub fn check_output(&self) -> io::Result<()> {
        self.lock_state().failed.take().map_or(Ok(()), Err)
    }
}

/// Returns a JSON document as [`Console::print_json`] prints it, or on one line.
///
/// # Errors
/// Returns an error if the value cannot be written as JSON.
pub fn json_text(value: &impl Serialize, is_indented: bool) -> serde_json::Result<String> {
    let json = match is_indented {
        true => serde_json::to_string_pretty(value)?,
        false => serde_json::to_string(value)?,
    };
    let mut shown = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        // Such a character is always within a string: between values JSON has line ends and blanks only.
        if is_obeyed(c) && c != '\n' {
            // Writing to a string has no error.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.push('\n');
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_control_characters_and_says_the_same() {
        let value = serde_json::json!({ "a\u{9b}": "b\u{7f}\u{1b}\n\u{202e}\u{e4}" });
        for (is_indented, lines) in [(true, 3), (false, 1)] {
            let text = json_text(&value, is_indented).unwrap();
            assert!(!text.chars().any(|c| is_obeyed(c) && c != '\n'), "{text:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
            assert_eq!(text.lines().count(), lines);
        }
    }
}
