//! How a command ends.

use std::error::Error;
use std::process::ExitCode;

/// Any error, on its way to the edge.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a command gives back: its exit code, or the error that is shown for it.
pub type Outcome = Result<ExitCode, BoxError>;

/// Shows an error with its causes. Causes that repeat what was said are left out.
pub fn show(error: &(dyn Error + 'static)) {
    let mut said = error.to_string();
    eprintln!("unslide: {said}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            eprintln!("  because {text}");
            said = text;
        }
        cause = error.source();
    }
}

/// The exit code of an outcome, its error shown.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        show(error.as_ref());
        ExitCode::FAILURE
    })
}
