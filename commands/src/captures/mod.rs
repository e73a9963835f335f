//! Subcommands: captures of a running service, and files of a device without any. `demo` has the captures of `unslide demo`.

mod capture;
mod demo;
mod flame;
mod jetsam;
mod malloc_log;
mod memory_graph;

use clap::CommandFactory;
use unslide_cli::{ClientFeature, FeatureCommand};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature =
    ClientFeature { commands: COMMANDS, add_line: Some(demo::add_line), ..ClientFeature::new("captures") };

/// The subcommands of the feature.
const COMMANDS: &[FeatureCommand] = &[
    FeatureCommand {
        follows: "explain",
        command: flame::Arguments::command,
        run: flame::run,
        key_kind: None,
    },
    FeatureCommand {
        follows: "flame",
        command: malloc_log::Arguments::command,
        run: malloc_log::run,
        key_kind: None,
    },
    FeatureCommand {
        follows: "malloc-log",
        command: memory_graph::Arguments::command,
        run: memory_graph::run,
        key_kind: None,
    },
    FeatureCommand {
        follows: "memory-graph",
        command: jetsam::Arguments::command,
        run: jetsam::run,
        key_kind: None,
    },
    FeatureCommand {
        follows: "reports",
        command: capture::Arguments::command,
        run: capture::run,
        key_kind: None,
    },
];
