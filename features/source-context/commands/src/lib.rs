//! `unslide sources`: the switch of a tenant. `collect` makes bundles of source files for `unslide upload`.

mod collect;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::json;
use unslide_cli::{ApiServer, ClientFeature, FeatureCommand, Outcome, SwitchPosition, run_switch};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run }],
    source_bundler: Some(collect::SOURCE_BUNDLER),
    ..ClientFeature::new("source-context")
};

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
    switch: Option<SwitchPosition>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server, switch, json } = Arguments::from_arg_matches(matches)?;
    let change = switch.map(|switch| json!({ "enabled": switch == SwitchPosition::On }));
    run_switch(&server, SWITCH_PATH, change.as_ref(), json, |state| {
        let stored = state["bundles"].as_u64().map(|bundles| {
            let (files, bytes) = (&state["files"], &state["bytes"]);
            format!("; {bundles} bundles with {files} source files are stored, {bytes} bytes")
        });
        let word = SwitchPosition::describe(&state["enabled"]);
        format!("keeping source files is {word}{}", stored.unwrap_or_default())
    })
}
