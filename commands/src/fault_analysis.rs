//! `unslide fault-analysis`: the switches of a tenant.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::{Value, json};
use unslide_cli::{
    AddedLine, ApiServer, Client, ClientFeature, CoreCommand, FeatureCommand, Outcome, SwitchPosition,
    run_switch,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    symbolizer: unslide_fault_analysis_analyses::SYMBOLIZER,
    add_line: Some(add_line),
    ..ClientFeature::new("fault-analysis")
};

/// The switches in the API.
const SWITCH_PATH: &str = "/v1/fault-analysis";

/// Turns the values of variables on for `unslide demo --traffic`.
fn add_line<'c>(client: &'c Client, command: CoreCommand<'c>) -> AddedLine<'c> {
    Box::pin(async move {
        let CoreCommand::DemoBegin(_) = command else { return Ok(None) };
        let _: Value = client.put(SWITCH_PATH, &json!({ "variables": true })).await?;
        Ok(Some("values of variables are on (unslide fault-analysis --variables on)".to_owned()))
    })
}

/// Show whether crashes are analysed for what was wrong at their instruction, or change it
#[derive(Parser)]
#[command(
    name = "fault-analysis",
    after_help = "\
The key needs the scope tenant:admin. A change applies to reports that are symbolicated from then on. Without a change, the
switches are shown.

Examples:
  unslide fault-analysis
  unslide fault-analysis off
  unslide fault-analysis --variables on"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Turn the analysis on or off
    switch: Option<SwitchPosition>,
    /// Turn the values of variables at the instruction on or off: they may be data of users
    #[arg(long, value_name = "POSITION")]
    variables: Option<SwitchPosition>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server, switch, variables, json } = Arguments::from_arg_matches(matches)?;
    let is_on = |position: Option<SwitchPosition>| position.map(|position| position == SwitchPosition::On);
    let change = json!({ "enabled": is_on(switch), "variables": is_on(variables) });
    let change = (switch.is_some() || variables.is_some()).then_some(&change);
    run_switch(&server, SWITCH_PATH, change, json, |state| {
        let [fault, variables] = ["enabled", "variables"].map(|name| SwitchPosition::describe(&state[name]));
        format!("fault analysis is {fault}, values of variables are {variables}")
    })
}
