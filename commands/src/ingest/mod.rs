//! `unslide public-key`: the keys that apps carry, as the API has them. `unslide key` makes and revokes them.

mod erase;
mod replace;
mod send_test;
mod show;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use unslide_cli::{ClientFeature, ClientKeyKind, CommandError, FeatureCommand, Outcome};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "reports",
        command: Arguments::command,
        run,
        key_kind: Some(ClientKeyKind { name: "public", path: KEYS, is_public: true }),
    }],
    ..ClientFeature::new("ingest")
};

/// The path of public keys in the API.
const KEYS: &str = "/v1/public-keys";

/// Show what uses a public key, send a test report with one, replace one, or erase what came with one
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
    /// Make a key for the same apps, print it, and retire the old one, which is still accepted until it is revoked
    Rotate(replace::Arguments),
    /// Retire a public key: it is still accepted, and new versions of the app are to use another
    Retire(replace::Arguments),
    /// Put a public key in use again: a retired one, or one that was revoked in the last 30 days
    Activate(replace::Arguments),
    /// Erase the reports and runs that apps sent with a public key in a range of time; on a terminal it asks first
    Erase(erase::Arguments),
}

fn run(matches: &ArgMatches) -> Outcome {
    match Arguments::from_arg_matches(matches)?.command {
        Command::Show(arguments) => show::run(&arguments),
        Command::Test(arguments) => send_test::run(&arguments),
        Command::Rotate(arguments) => replace::rotate(&arguments),
        Command::Retire(arguments) => replace::change_state(&arguments, "retired"),
        Command::Activate(arguments) => replace::change_state(&arguments, "active"),
        Command::Erase(arguments) => erase::run(&arguments),
    }
}

/// Returns the path of a public key in the API.
fn key_path(id: &str) -> Result<String, CommandError> {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(CommandError::usage(format!(
            "{id}: not the id of a public key, which has 8 hexadecimal digits: `unslide key list --kind public` shows them"
        )));
    }
    Ok(format!("{KEYS}/{id}"))
}
