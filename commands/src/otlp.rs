//! `unslide otlp`: how records of OpenTelemetry are taken, and the collector to which crashes are sent.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("otlp")
};

/// The settings in the API.
const OTLP_PATH: &str = "/v1/otlp";
/// The most bytes of a file of headers that are read.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// Take crashes over OTLP, and send crashes to an OTLP collector: set, show or remove the settings
#[derive(Parser)]
#[command(
    name = "otlp",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide otlp set --other-records refuse
  unslide otlp set --export-url https://otlp.example.com/v1/logs --headers headers.txt
  unslide otlp show
  unslide otlp remove

A file of headers has one on each line, such as: authorization: Bearer TOKEN"
)]
struct Arguments {
    #[command(subcommand)]
    command: OtlpCommand,
}

#[derive(Subcommand)]
enum OtlpCommand {
    /// Set how records are taken, and where crashes are sent. What is not given is as if it was never set
    Set(SetArguments),
    /// Show the settings without the values of headers, and how the export does
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Remove the settings. Crashes that wait for the collector are dropped; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// How records that are no crash are answered.
#[derive(Clone, Copy, ValueEnum)]
enum OtherRecords {
    Accept,
    Refuse,
}

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// How records that are no crash are answered: accepted and counted, or refused
    #[arg(long, value_enum, default_value = "accept")]
    other_records: OtherRecords,
    /// URL of the collector for logs. Without it, crashes are not sent
    #[arg(long, value_name = "URL")]
    export_url: Option<String>,
    /// File with headers for the collector, `name: value` on each line. Without it, those of the same URL stay
    #[arg(long, value_name = "FILE", requires = "export_url")]
    headers: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            OtlpCommand::Set(set) => set_otlp(&set).await,
            OtlpCommand::Show { server, json } => {
                print_state(&Client::new(&server)?.get(OTLP_PATH).await?, json)
            }
            OtlpCommand::Remove { server, yes } => {
                confirm_action(
                    "Crashes are no longer sent to the collector, and those that wait are dropped.",
                    yes,
                )?;
                Client::new(&server)?.delete(OTLP_PATH).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

async fn set_otlp(arguments: &SetArguments) -> Outcome {
    let other_records = match arguments.other_records {
        OtherRecords::Accept => "accept",
        OtherRecords::Refuse => "refuse",
    };
    let mut body = json!({ "other_records": other_records });
    if let Some(url) = &arguments.export_url {
        body["export"] = json!({ "url": url });
    }
    if let Some(path) = &arguments.headers {
        let text = read_text_file(path, MAX_HEADER_BYTES)?;
        body["export"]["headers"] = read_headers(&text).map_err(CommandError::usage)?.into();
    }
    let state: Value = Client::new(&arguments.server)?.put(OTLP_PATH, &body).await?;
    print_state(&state, arguments.json)
}

/// Reads headers, one on each line. The error names the line and never its text, which may be a secret.
fn read_headers(text: &str) -> Result<Map<String, Value>, String> {
    let mut headers = Map::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return Err(format!("line {} of the headers has no colon: write `name: value`", at + 1));
        };
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().into());
    }
    Ok(headers)
}

fn print_state(state: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(state)?;
        return Ok(Exit::Ready);
    }
    say!("other records  {}", item_text(state, "other_records"));
    let export = &state["export"];
    if export.is_null() {
        say!("export         none: `unslide otlp set --export-url` sets a collector");
        return Ok(Exit::Ready);
    }
    say!("export         {}", item_text(export, "url"));
    let headers: Vec<&str> =
        export["headers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    say!("headers        {}", if headers.is_empty() { "none".to_owned() } else { headers.join(", ") });
    say!("waiting        {}", export["waiting"]);
    say!("last sent      {}", export["sent_at"].as_str().unwrap_or("not yet"));
    if let Some(problem) = export["problem"].as_str() {
        say!("problem        {problem}");
    }
    if let Some(reason) = export["drop_reason"].as_str() {
        say!("dropped        {}, the last one: {reason}", export["dropped"]);
    }
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_by_line_and_an_error_does_not_show_them() {
        let headers = read_headers("Authorization: Bearer a:b\n\nx-team:shop\n").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-team"], "shop");
        let wrong = read_headers("x: y\nsecret").unwrap_err();
        assert!(wrong.contains("line 2") && !wrong.contains("secret"), "{wrong}");
    }
}
