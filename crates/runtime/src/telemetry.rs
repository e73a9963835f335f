//! Logs on standard error: one line per event, as JSON for machines or coloured for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Pretty on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// Text in a form for people.
    Pretty,
}

/// The section `log` of a configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Format of log lines: text for people, or JSON.
    pub format: Format,
    /// Filter of log lines, as in `tracing-subscriber`: a level, or `target=level` parts with commas.
    pub filter: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { format: Format::Auto, filter: "info".to_owned() }
    }
}

impl Settings {
    /// Returns the problems of these settings.
    #[must_use]
    pub fn validate(&self) -> Vec<crate::ConfigProblem> {
        match self.filter.parse::<EnvFilter>() {
            Ok(_) => Vec::new(),
            Err(error) => vec![crate::ConfigProblem::new("log.filter", error.to_string())],
        }
    }
}

/// The reason why logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is malformed.
    #[error("the log filter is malformed")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A subscriber is already set.
    #[error("logs are set up already")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up the process's logs, once. A panic also becomes a log line.
///
/// # Errors
/// Returns [`Error`] if the filter is malformed, or if logs are already set up.
pub fn init_logging(settings: &Settings) -> Result<(), Error> {
    let json = match settings.format {
        Format::Auto => !std::io::stderr().is_terminal(),
        Format::Json => true,
        Format::Pretty => false,
    };
    let registry = tracing_subscriber::registry().with(settings.filter.parse::<EnvFilter>()?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    if json {
        registry
            .with(lines.json().flatten_event(true).with_current_span(true).with_span_list(false))
            .try_init()?;
    } else {
        registry.with(lines.with_target(false).with_ansi(std::io::stderr().is_terminal())).try_init()?;
    }
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(panic.place = place, panic.text = panic.payload_as_str(), "a thread panicked");
        if !json {
            default(panic);
        }
    }));
    Ok(())
}
