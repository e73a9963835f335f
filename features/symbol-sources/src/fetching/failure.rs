//! Requests to sources that got no answer about the file.

use std::error::Error;
use time::Duration;

/// A request that got no answer about the file: the source is asked later.
#[derive(Clone, Debug)]
pub struct SourceFailure {
    /// The reason, for the tenant.
    pub text: String,
    /// The status of the answer; None without one.
    pub status: Option<u16>,
    /// The pause that the source wants.
    pub pause: Option<Duration>,
}

impl SourceFailure {
    pub fn new(text: impl Into<String>) -> SourceFailure {
        SourceFailure { text: text.into(), status: None, pause: None }
    }
}

/// Describes an error of the connection for the tenant. The cause is for the operator's log.
pub fn describe_error(error: reqwest::Error, text: &str) -> SourceFailure {
    let error = &error.without_url() as &dyn Error;
    tracing::warn!(error, "a symbol source cannot be reached");
    SourceFailure::new(text)
}
