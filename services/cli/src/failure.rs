//! Errors of commands, each with the exit code that it leads to.

use crate::Exit;
use std::error::Error;
use std::io;
use std::path::Path;

/// Any error, on its way to the edge.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The result of a command: how it ended, or the error that is shown for it.
pub type Outcome = Result<Exit, BoxError>;

/// An error that a command names itself, with the code that it ends with.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CommandError {
    /// Is that of the cause if there is none.
    exit: Option<Exit>,
    text: String,
    source: Option<BoxError>,
}

impl CommandError {
    /// Creates the error for a command line that is wrong in a way that clap does not know.
    pub fn usage(text: impl Into<String>) -> CommandError {
        CommandError { exit: Some(Exit::Usage), text: text.into(), source: None }
    }

    /// Creates the error for a requested thing that does not exist.
    pub fn missing(text: impl Into<String>) -> CommandError {
        CommandError { exit: Some(Exit::Missing), text: text.into(), source: None }
    }

    /// Creates the error for a file that could not be read, or that has the wrong content. If it does not
    /// exist or is a folder, the command line is wrong.
    pub fn cannot_read(path: &Path, source: impl Into<BoxError>) -> CommandError {
        let source = source.into();
        let kind = source.downcast_ref().map(io::Error::kind);
        if kind == Some(io::ErrorKind::IsADirectory) {
            return CommandError::usage(format!(
                "{0} is a folder: name files, such as {0}/*",
                path.display()
            ));
        }
        let exit = (kind == Some(io::ErrorKind::NotFound)).then_some(Exit::Usage);
        CommandError { exit, text: format!("cannot read {}", path.display()), source: Some(source) }
    }

    /// Creates the error for an argument that is no file, and nothing else that the command accepts.
    pub fn neither_file_nor(what: &str, named: &str) -> CommandError {
        CommandError::usage(format!("{named} is neither a file nor {what}"))
    }

    /// Returns its own exit code, or None if its cause decides.
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Creates the error for a failure of a server; the code is that of the cause.
    pub fn caused(text: impl Into<String>, source: impl Into<BoxError>) -> CommandError {
        CommandError { exit: None, text: text.into(), source: Some(source.into()) }
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
