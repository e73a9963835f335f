//! How a command ends.

pub mod exit;

use crate::client::ClientError;
use crate::output::note;
pub use exit::Exit;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use unslide_runtime::config::Problems;
use unslide_store::StoreError;
use unslide_stream::StreamError;
use unslide_stream::audit::AuditError;

/// Any error, on its way to the edge.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The result of a command: how it ended, or the error that is shown for it.
pub type Outcome = Result<Exit, BoxError>;

/// An error that a command names itself, with the code that it ends with.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CommandError {
    exit: Exit,
    text: String,
    source: Option<BoxError>,
}

impl CommandError {
    /// Creates the error for a command line that is wrong in a way that clap does not know.
    pub fn usage(text: impl Into<String>) -> CommandError {
        CommandError { exit: Exit::Usage, text: text.into(), source: None }
    }

    /// Creates the error for a requested thing that does not exist.
    pub fn missing(text: impl Into<String>) -> CommandError {
        CommandError { exit: Exit::Missing, text: text.into(), source: None }
    }

    /// Creates the error for a file that could not be read, or that has the wrong content. If it does not
    /// exist, the command line is wrong.
    pub fn cannot_read(path: &Path, source: impl Into<BoxError>) -> CommandError {
        let source = source.into();
        let is_absent =
            source.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::NotFound);
        let exit = if is_absent { Exit::Usage } else { exit_of(source.as_ref()) };
        CommandError { exit, text: format!("cannot read {}", path.display()), source: Some(source) }
    }

    /// Creates the error for an argument that is no file, and nothing else that the command accepts.
    pub fn neither_file_nor(what: &str, named: &str) -> CommandError {
        CommandError::usage(format!("{named} is neither a file nor {what}"))
    }

    /// Creates the error for a failure of a server; the code is that of the cause.
    pub fn caused(text: impl Into<String>, source: impl Into<BoxError>) -> CommandError {
        let source = source.into();
        CommandError { exit: exit_of(source.as_ref()), text: text.into(), source: Some(source) }
    }
}

/// Checks that the files and folders that a command line names are there, before anything is done. `-` is standard
/// input.
///
/// # Errors
/// [`CommandError::cannot_read`].
pub fn check_paths<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<(), CommandError> {
    let mut named = paths.into_iter().filter(|path| path.as_os_str() != "-");
    named.try_for_each(|path| {
        path.metadata().map(drop).map_err(|error| CommandError::cannot_read(path, error))
    })
}

/// Returns the code for an error: that of the first of its causes that has one.
fn exit_of(error: &(dyn Error + 'static)) -> Exit {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(exit) = own_exit(error) {
            return exit;
        }
        cause = error.source();
    }
    Exit::Failed
}

fn own_exit(error: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(error) = error.downcast_ref::<CommandError>() {
        return Some(error.exit);
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return Some(error.exit());
    }
    if error.is::<Problems>() {
        return Some(Exit::Usage);
    }
    if let Some(AuditError::Stream(error)) = error.downcast_ref() {
        return own_exit(error);
    }
    if let Some(StreamError::Refused(_)) = error.downcast_ref() {
        return Some(Exit::NotAllowed);
    }
    let unreachable = match error.downcast_ref::<StoreError>() {
        Some(error) => error.is_retriable(),
        None => error.downcast_ref::<StreamError>().is_some_and(|error| match error {
            // Kafka answers: it is a producer's transaction that stays open.
            StreamError::Unstable { .. } => false,
            error => error.is_transient(),
        }),
    };
    unreachable.then_some(Exit::Unreachable)
}

/// Prints an error with its causes, each on a line. Leaves out a cause if its text was printed before.
pub fn show(error: &(dyn Error + 'static)) {
    if let Some(Problems(problems)) = error.downcast_ref().filter(|Problems(problems)| problems.len() > 1) {
        note!("The configuration has {} errors:", problems.len());
        problems.iter().for_each(|problem| note!("  {problem}"));
        return;
    }
    let mut said = error.to_string();
    note!("{said}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            note!("because {text}");
            said = text;
        }
        cause = error.source();
    }
}

/// Returns the exit code of an outcome, and shows its error.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        show(error.as_ref());
        exit_of(error.as_ref())
    });
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_that_of_the_first_cause_that_has_one() {
        let missing = || CommandError::missing("no tenant acme");
        assert_eq!(exit_of(&missing()), Exit::Missing);
        assert_eq!(exit_of(&CommandError::caused("cannot list keys", missing())), Exit::Missing);
        assert_eq!(exit_of(BoxError::from("anything").as_ref()), Exit::Failed);
        assert_eq!(exit_of(&Problems(Vec::new())), Exit::Usage);
        assert_eq!(exit_of(&StreamError::Silent("kafka".to_owned())), Exit::Unreachable);
    }

    #[test]
    fn a_path_that_is_not_there_is_a_wrong_command_line() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(check_paths([here, Path::new("-")]).is_ok());
        let error = check_paths([here, Path::new("no/such/file")]).unwrap_err();
        assert_eq!(
            (exit_of(&error), error.to_string()),
            (Exit::Usage, "cannot read no/such/file".to_owned())
        );
        let other = CommandError::cannot_read(here, io::Error::from(io::ErrorKind::InvalidData));
        assert_eq!(exit_of(&other), Exit::Failed);
    }

    #[test]
    fn the_help_names_every_code() {
        let codes = [
            Exit::Ready,
            Exit::Failed,
            Exit::Usage,
            Exit::Missing,
            Exit::Unreachable,
            Exit::NotAllowed,
            Exit::Unbalanced,
        ];
        let lines: Vec<&str> = Exit::HELP.lines().skip(1).collect();
        assert_eq!(lines.len(), codes.len());
        for (line, code) in lines.iter().zip(codes) {
            assert!(line.starts_with(&format!("  {}  ", code as u8)), "{line}");
        }
    }
}
