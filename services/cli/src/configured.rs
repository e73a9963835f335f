//! The option that names a configuration file.

use clap::{Args, Command};
use std::path::PathBuf;

/// The configuration of commands that reach the servers themselves.
#[derive(Args, Clone)]
pub struct Configured {
    /// A TOML file; variables UNSLIDE_SECTION__KEY win over it
    #[arg(long, value_name = "FILE", env = "UNSLIDE_CONFIG")]
    pub config: Option<PathBuf>,
}

impl Configured {
    /// Adds the option to a command that also works without it.
    pub fn extend_command(command: Command) -> Command {
        // The arguments bring a text of their own.
        let about = command.get_about().cloned().unwrap_or_default();
        Configured::augment_args(command).about(about)
    }

    /// Returns true if a configuration of the services is here: a file, or a variable of a setting.
    pub fn is_given(&self) -> bool {
        let is_setting =
            |name: &str| name.strip_prefix("UNSLIDE_").is_some_and(|setting| setting.contains("__"));
        self.config.is_some() || std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_setting))
    }
}
