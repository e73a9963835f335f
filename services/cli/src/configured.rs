//! The option that names a configuration file.

use clap::Args;
use std::path::PathBuf;

/// The configuration of commands that reach the servers themselves.
#[derive(Args, Clone)]
pub struct Configured {
    /// A TOML file; variables UNSLIDE_SECTION__KEY win over it
    #[arg(long, value_name = "FILE", env = "UNSLIDE_CONFIG")]
    pub config: Option<PathBuf>,
}
