//! Asking before something that cannot be undone, or that touches everything.

use crate::{BoxError, CommandError};
use std::io::{self, BufRead, IsTerminal, Write};

/// Returns true if a person is at a terminal.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns if `--yes` was given or a person at a terminal agrees.
///
/// # Errors
/// If there is neither.
pub fn confirm_action(what: &str, yes: bool) -> Result<(), BoxError> {
    if yes {
        return Ok(());
    }
    if !can_ask() {
        return Err(CommandError::usage(format!("{what} Give --yes to do it.")).into());
    }
    let mut asked = io::stderr().lock();
    write!(asked, "{} Go on? [y/N] ", unslide_report::text::escape_for_terminal(what))?;
    asked.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was done".into()),
    }
}
