//! Answers that a person types, or that come on standard input.

use super::can_ask;
use std::io::{self, BufRead, Read, Write};
use unslide_model::Secret;

/// The most bytes of an answer. The rest of a longer line is not read.
const MAX_ANSWER_BYTES: u64 = 4 << 10;

/// Asks a person at a terminal for a line. Returns `default` if the answer is empty, or if there is no terminal.
///
/// # Errors
/// Returns an error if the terminal fails.
pub fn read_answer(question: &str, default: &str) -> io::Result<String> {
    if !can_ask() {
        return Ok(default.to_owned());
    }
    write!(io::stderr().lock(), "{question} [{default}]: ")?;
    let answer = read_line()?;
    Ok(if answer.trim().is_empty() { default.to_owned() } else { answer.trim().to_owned() })
}

/// Asks a person at a terminal for a secret, which is not echoed; elsewhere reads it from standard input.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn read_secret(question: &str) -> io::Result<Secret> {
    if !can_ask() {
        return Ok(Secret::new(read_line()?.trim()));
    }
    write!(io::stderr().lock(), "{question}: ")?;
    Ok(Secret::new(console::Term::stderr().read_secure_line()?.trim()))
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut line)?;
    Ok(line)
}
