//! `unslide fault-analysis`: the switch of a tenant.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde_json::{Value, json};
use unslide_client::{ApiServer, Client, Console, Exit, FeatureCommand, Outcome, block_on, note, say};

/// The subcommands of the feature.
pub const FAULT_COMMANDS: &[FeatureCommand] =
    &[FeatureCommand { follows: "settings", command: Arguments::command, run }];

/// The switch in the API.
const SWITCH_PATH: &str = "/v1/fault-analysis";

/// Show whether crashes are analysed for what was wrong at their instruction, or change it
#[derive(Parser)]
#[command(
    name = "fault-analysis",
    after_help = "\
The key needs the scope tenant:admin. A change applies to reports that are symbolicated from then on.

Examples:
  unslide fault-analysis
  unslide fault-analysis off"
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
        say!("fault analysis is {}", if state["enabled"] == true { "on" } else { "off" });
        if state["announced"] == false {
            note!("the workers do not have the change yet; they will within minutes");
        }
        Ok(Exit::Ready)
    })
}
