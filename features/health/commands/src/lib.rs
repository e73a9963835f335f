//! Subcommands, which need no server.

mod metrics;

use clap::CommandFactory;
use unslide_cli::FeatureCommand;

/// The subcommands of the feature.
pub const COMMANDS: &[FeatureCommand] =
    &[FeatureCommand { follows: "explain", command: metrics::Arguments::command, run: metrics::run }];
