//! `unslide sources`: the switch of a tenant.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde_json::{Value, json};
use unslide_client::{ApiServer, Client, Console, Exit, FeatureCommand, Outcome, block_on, say};

/// The subcommands of the feature.
pub const SOURCE_COMMANDS: &[FeatureCommand] =
    &[FeatureCommand { follows: "settings", command: Arguments::command, run }];

/// The switch in the API.
const SWITCH_PATH: &str = "/v1/sources";

/// Show whether source files are kept beside symbols, or change it
#[derive(Parser)]
#[command(
    name = "sources",
    after_help = "\
The key needs the scope tenant:admin. While it is off, bundles of source files are not stored, and no source lines of stored
ones are shown.

Examples:
  unslide sources
  unslide sources on"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Turn it on or off; without it the switch is shown
    switch: Option<Switch>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let state: Value = match arguments.switch {
            None => client.get(SWITCH_PATH).await?,
            Some(switch) => client.put(SWITCH_PATH, &json!({ "enabled": switch == Switch::On })).await?,
        };
        if arguments.json {
            Console::get().print_json(&state)?;
            return Ok(Exit::Ready);
        }
        let stored = state["bundles"].as_u64().map(|bundles| {
            let (files, bytes) = (&state["files"], &state["bytes"]);
            format!("; {bundles} bundles with {files} source files are stored, {bytes} bytes")
        });
        let word = if state["enabled"] == true { "on" } else { "off" };
        say!("keeping source files is {word}{}", stored.unwrap_or_default());
        Ok(Exit::Ready)
    })
}
