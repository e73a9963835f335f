//! `unslide body-cap`: shows and sets how many bodies of reports are kept of a group and day.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, Console, Exit, FeatureCommand, Outcome, block_on, confirm_action, note,
    say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("body-cap")
};

/// The caps in the API.
const CAP_PATH: &str = "/v1/body-cap";

/// Keep at most some bodies of reports of a group and day: show and set the caps
#[derive(Parser)]
#[command(
    name = "body-cap",
    after_help = "\
All reports are stored and counted. Of a group and day the bodies of the first and the newest report are kept,
one for each version, model and system, then the oldest.
The key of the API needs the scope tenant:admin.

Examples:
  unslide body-cap show
  unslide body-cap set 200
  unslide body-cap set 50 --app com.example.shop
  unslide body-cap remove --app com.example.shop"
)]
struct Arguments {
    #[command(subcommand)]
    command: BodyCapCommand,
}

#[derive(Subcommand)]
enum BodyCapCommand {
    /// Show the caps
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Set the cap of an app, for reports that arrive from now on
    Set(SetArguments),
    /// Remove the cap of an app; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Bundle identifier of the app; the apps without a cap of their own if absent
        #[arg(long, default_value = "", hide_default_value = true)]
        app: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bodies that are kept of a group and day
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    bodies: u32,
    /// Bundle identifier of the app; the apps without a cap of their own if absent
    #[arg(long, default_value = "", hide_default_value = true)]
    app: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            BodyCapCommand::Show { server, json } => {
                print_caps(&Client::new(&server)?.get(CAP_PATH).await?, json)
            }
            BodyCapCommand::Set(set) => {
                let body = json!({"app": set.app, "bodies": set.bodies});
                print_caps(&Client::new(&set.server)?.put(CAP_PATH, &body).await?, set.json)
            }
            BodyCapCommand::Remove { server, app, yes } => {
                confirm_action("The bodies of all reports of the app are kept from now on.", yes)?;
                let _: Value =
                    Client::new(&server)?.put(CAP_PATH, &json!({"app": app, "bodies": null})).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

fn print_caps(caps: &Value, json: bool) -> Outcome {
    if json {
        Console::get().print_json(caps)?;
        return Ok(Exit::Ready);
    }
    let items = caps["items"].as_array();
    if items.is_none_or(Vec::is_empty) {
        note!("no cap: the bodies of all reports are kept");
    }
    for cap in items.into_iter().flatten() {
        let app = match item_text(cap, "app") {
            app if app.is_empty() => "other apps".to_owned(),
            app => app,
        };
        say!("{app}: {} bodies of a group and day, since {}", cap["bodies"], item_text(cap, "since"));
    }
    Ok(Exit::Ready)
}
