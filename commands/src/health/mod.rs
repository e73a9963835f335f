//! Subcommands, which need no server.

mod metrics;

use clap::CommandFactory;
use unslide_cli::{ClientFeature, FeatureCommand};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "explain",
        command: metrics::Arguments::command,
        run: metrics::run,
        key_kind: None,
    }],
    ..ClientFeature::new("health")
};
