//! Subcommands that features add, and the runtime that commands run on.

use crate::{BoxError, Client, Outcome};
use clap::ArgMatches;
use std::pin::Pin;
use std::time::Duration;

/// A subcommand that a feature adds to the command line.
#[derive(Clone, Copy)]
pub struct FeatureCommand {
    /// The subcommand after which `unslide --help` lists it.
    pub follows: &'static str,
    /// Returns its name, arguments and help.
    pub command: fn() -> clap::Command,
    /// Runs it with its parsed arguments.
    pub run: fn(&ArgMatches) -> Outcome,
}

/// A line of `unslide doctor`; `None` if there is nothing to say.
pub type DoctorLine<'c> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'c>>;

/// A check that a feature adds to `unslide doctor`. It only reads, with a key that may read reports.
pub type DoctorCheck = for<'c> fn(&'c Client) -> DoctorLine<'c>;

/// Runs a command's async part. Does not wait for blocking work that it has left behind.
///
/// # Errors
/// Returns the command's own error, or one if the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}
