//! `unslide public-key`: the keys that apps carry, as the API has them. `unslide key` makes and revokes them.

mod erase;
mod send_test;
mod show;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use unslide_cli::{ClientFeature, FeatureCommand, Outcome};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "reports", command: Arguments::command, run }],
    ..ClientFeature::new("ingest")
};

/// Show what uses a public key, send a test report with one, or erase what came with one
#[derive(Parser)]
#[command(name = "public-key")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a public key: its state, the versions of apps that use it, and the reports that closing it would lose
    Show(show::Arguments),
    /// Send a test report to the URL of an app, and print its outcome
    Test(send_test::Arguments),
    /// Erase the reports and runs that apps sent with a public key in a range of time; on a terminal it asks first
    Erase(erase::Arguments),
}

fn run(matches: &ArgMatches) -> Outcome {
    match Arguments::from_arg_matches(matches)?.command {
        Command::Show(arguments) => show::run(&arguments),
        Command::Test(arguments) => send_test::run(&arguments),
        Command::Erase(arguments) => erase::run(&arguments),
    }
}
