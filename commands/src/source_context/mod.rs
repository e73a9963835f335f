//! `unslide sources`: the switch of a tenant. `collect` makes bundles of the source files that dSYMs name, and `send` sends them.

mod collect;
mod send;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use collect::BundleWriter;
use serde_json::{Value, json};
use std::io::Cursor;
use unslide_cli::{
    AddedLine, ApiServer, BoxError, Client, ClientFeature, CoreCommand, FeatureCommand, Outcome,
    SwitchPosition, run_switch,
};
use unslide_model::DebugId;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    add_line: Some(add_line),
    ..ClientFeature::new("source-context")
};

/// The switch in the API.
const SWITCH_PATH: &str = "/v1/sources";

/// Turns it on for `unslide demo --traffic`, and sends the source files of the demo.
fn add_line<'c>(client: &'c Client, command: CoreCommand<'c>) -> AddedLine<'c> {
    Box::pin(async move {
        let CoreCommand::DemoBegin(programs) = command else { return Ok(None) };
        let _: Value = client.put(SWITCH_PATH, &json!({ "enabled": true })).await?;
        for program in programs {
            for debug_id in program.debug_ids {
                let bundle = write_bundle(program.sources, debug_id)?;
                let _: Value = client.send_bytes(send::BUNDLES_PATH, &bundle.into()).await?;
            }
        }
        Ok(Some("source files are kept, and those of the Cafe are sent (unslide sources send)".to_owned()))
    })
}

/// Writes the bundle of the source files of a build.
fn write_bundle(sources: &[(&str, &str)], debug_id: &DebugId) -> Result<Vec<u8>, BoxError> {
    let mut bundle = Cursor::new(Vec::new());
    let mut writer = BundleWriter::start(&mut bundle)?;
    for (path, text) in sources {
        writer.add_file(path, text.as_bytes())?;
    }
    writer.finish(&debug_id.to_string(), "arm64")?;
    Ok(bundle.into_inner())
}

/// Show whether source files are kept beside symbols, change it, or send them
#[derive(Parser)]
#[command(
    name = "sources",
    args_conflicts_with_subcommands = true,
    after_help = "\
The key needs the scope tenant:admin. While it is off, bundles of source files are not stored, and no source lines of stored
ones are shown.

Examples:
  unslide sources
  unslide sources on
  unslide sources send build/MyApp.xcarchive"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Turn it on or off; without it the switch is shown
    switch: Option<SwitchPosition>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<SourcesCommand>,
}

#[derive(Subcommand)]
enum SourcesCommand {
    /// Send the source files that dSYMs name and that lie in the source root
    Send(Box<send::Arguments>),
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server, switch, json, command } = Arguments::from_arg_matches(matches)?;
    if let Some(SourcesCommand::Send(arguments)) = command {
        return send::run(&arguments);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_and_the_subcommand_exclude_each_other() {
        let parse = |line: &[&str]| Arguments::try_parse_from(line).ok();
        assert!(parse(&["sources", "on", "--json"]).is_some_and(|arguments| arguments.switch.is_some()));
        assert!(parse(&["sources", "send", "a.dSYM"]).is_some_and(|arguments| arguments.command.is_some()));
        assert!(parse(&["sources", "on", "send", "a.dSYM"]).is_none());
        assert!(parse(&["sources", "send"]).is_none());
    }
}
