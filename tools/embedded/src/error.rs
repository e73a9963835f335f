//! The errors of an embedded server.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why an embedded server cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that is needed is not installed.
    #[error("`{tool}` is not installed. Install it, on Debian with: apt-get install -y {package}")]
    Missing {
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A file or folder cannot be used.
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        source: std::io::Error,
    },
    /// A program could not be started or ended with a failure.
    #[error("{what} failed ({outcome}); its last lines:\n{tail}")]
    Failed {
        /// The program and its task.
        what: &'static str,
        /// Exit status, or why it could not be started.
        outcome: String,
        /// The end of its output.
        tail: String,
    },
    /// A server was not ready in time.
    #[error("{what} was not ready after {} s; its last lines:\n{tail}", after.as_secs())]
    NotReady {
        what: &'static str,
        after: Duration,
        /// The end of its log.
        tail: String,
    },
    /// Another process uses the data folder.
    #[error("another process is using {}", .0.display())]
    InUse(PathBuf),
    /// There are no PostgreSQL binaries for this machine.
    #[error("there is no embedded PostgreSQL for {0}")]
    Platform(String),
    /// No free TCP port, or the wanted one is taken.
    #[error("cannot listen on {address}")]
    Port { address: String, source: std::io::Error },
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// Adds the path to an I/O error.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::File { action, path: path.to_path_buf(), source })
    }
}

/// Returns the last lines of a log file, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
