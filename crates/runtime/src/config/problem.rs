//! Problems of a configuration.

use super::variable_name;
use std::fmt;

/// The message of sections for a required key without a value.
const UNSET: &str = "is not set";

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The key with dots, such as `kafka.bootstrap`. Empty if the problem belongs to no single key.
    pub key: String,
    /// The problem, as a phrase that follows the key.
    pub message: String,
    /// The file or variable that set the value, or `None` for a default.
    pub origin: Option<String>,
}

impl ConfigProblem {
    /// Creates a problem of a key. [`ConfigReader`](super::ConfigReader) adds the origin of the value.
    #[must_use]
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem { key: key.into(), message: message.into(), origin: None }
    }

    /// Converts the problems of a section's own keys: puts the section's name before each key. If a key is not set,
    /// adds how to set it.
    pub fn in_section<K: fmt::Display>(
        section: &str,
        problems: impl IntoIterator<Item = (K, String)>,
    ) -> impl Iterator<Item = ConfigProblem> {
        problems.into_iter().map(move |(key, message)| {
            let full = format!("{section}.{key}");
            let how = format!(
                ": set {}, or `{key}` in the section [{section}] of the file that --config or UNSLIDE_CONFIG names",
                variable_name(&full)
            );
            let unset = message == UNSET;
            ConfigProblem::new(full, if unset { message + &how } else { message })
        })
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        match &self.origin {
            Some(origin) => write!(f, " (from {origin})"),
            None => Ok(()),
        }
    }
}

/// All problems of a configuration. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<ConfigProblem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "the configuration is wrong: {one}"),
            many => {
                write!(f, "The configuration has {} errors:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}
