//! Asking before something that can't be undone, or that touches everything.

use crate::failure::{BoxError, CommandError};
use std::io::{self, BufRead, IsTerminal, Write};

/// Goes on where `--yes` was given or a person at a terminal agrees.
///
/// # Errors
/// Where neither is so.
pub fn confirm(what: &str, yes: bool) -> Result<(), BoxError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::usage(format!("{what} Give --yes to do it.")).into());
    }
    let mut asked = io::stderr().lock();
    write!(asked, "{} Go on? [y/N] ", unslide_report::text::printable(what))?;
    asked.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was done".into()),
    }
}
