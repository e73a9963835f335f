//! `unslide system-symbols`: the subcommands of the feature.

mod coverage;
mod import;
mod remove;

pub use import::{CacheTotals, measure_cache};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use unslide_cli::{ClientFeature, FeatureCommand, Outcome};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "symbols", command: Arguments::command, run, key_kind: None }],
    add_line: Some(coverage::add_line),
    ..ClientFeature::new("system-symbols")
};

/// Import names of an operating system's functions, and see which are missing
#[derive(Parser)]
#[command(name = "system-symbols")]
pub struct Arguments {
    #[command(subcommand)]
    command: SystemSymbolsCommand,
}

#[derive(Subcommand)]
enum SystemSymbolsCommand {
    /// Send the names that the server lacks, from dyld shared caches, DeviceSupport folders or libraries
    Import(Box<import::Arguments>),
    /// List the builds of recent reports that lack names
    Coverage(Box<coverage::Arguments>),
    /// Remove the names that only one build has
    Remove(Box<remove::Arguments>),
}

fn run(matches: &ArgMatches) -> Outcome {
    match Arguments::from_arg_matches(matches)?.command {
        SystemSymbolsCommand::Import(arguments) => import::run(&arguments),
        SystemSymbolsCommand::Coverage(arguments) => coverage::run(&arguments),
        SystemSymbolsCommand::Remove(arguments) => remove::run(&arguments),
    }
}
