//! `unslide testflight`: crashes that testers have sent to Apple.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, say,
};
use unslide_model::{Clock, Moment, SystemClock};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("testflight")
};

/// The inbox in the API.
const INBOX_PATH: &str = "/v1/testflight";
/// The most bytes of a private key that are read.
const MAX_KEY_BYTES: u64 = 4_000;

/// Take crashes that testers send with TestFlight: set, show or remove the key of App Store Connect, or ask Apple now
#[derive(Parser)]
#[command(
    name = "testflight",
    after_help = "\
The key of the API needs the scope tenant:admin. The key of App Store Connect needs the role Developer.

Examples:
  unslide testflight set --issuer-id 57246542-96fe-1a63-e053-0824d011072a --private-key AuthKey_2X9R4HXF34.p8 --app com.example.shop
  unslide testflight show
  unslide testflight poll"
)]
struct Arguments {
    #[command(subcommand)]
    command: TestFlightCommand,
}

#[derive(Subcommand)]
enum TestFlightCommand {
    /// Set the key of App Store Connect, and the apps whose crashes are taken
    Set(Box<SetArguments>),
    /// Show the key without its private key, the last poll, and the newest submissions
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Remove the key. Reports that came with it stay; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Ask Apple now; otherwise it is asked every 15 minutes
    Poll {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Issuer id, above the list of team keys in App Store Connect. Without it, the key is one of a person
    #[arg(long, value_name = "ID")]
    issuer_id: Option<String>,
    /// Id of the key. Without it, the one in the name of the file
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// File with the private key, as App Store Connect gives it once. Without it, the private key of the same key id stays
    #[arg(long, value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Bundle identifier of an app whose crashes are taken; several times for several
    #[arg(long = "app", value_name = "BUNDLE-ID", required = true)]
    apps: Vec<String>,
    /// When the key is no longer to be used: a day, a time, or a duration from now such as 90d
    #[arg(long, value_name = "TIME")]
    expires: Option<Moment>,
    /// Set it even if Apple refuses it or cannot be asked now
    #[arg(long)]
    force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            TestFlightCommand::Set(set) => set_key(&set).await,
            TestFlightCommand::Show { server, json } => {
                print_state(&Client::new(&server)?.get(INBOX_PATH).await?, json)
            }
            TestFlightCommand::Remove { server, yes } => {
                confirm_action("Apple is not asked any more for crashes of testers.", yes)?;
                Client::new(&server)?.delete(INBOX_PATH).await?;
                say!("removed; to end the key itself, revoke it in App Store Connect");
                Ok(Exit::Ready)
            }
            TestFlightCommand::Poll { server, json } => {
                let state: Value = Client::new(&server)?.post("/v1/testflight/poll", &json!({})).await?;
                print_state(&state, json)
            }
        }
    })
}

async fn set_key(arguments: &SetArguments) -> Outcome {
    let named = arguments.private_key.as_deref().and_then(find_key_id);
    let Some(key_id) = arguments.key_id.clone().or(named) else {
        return Err(CommandError::usage("give --key-id, or a file with its name AuthKey_KEYID.p8").into());
    };
    let mut body = json!({ "key_id": key_id, "apps": arguments.apps, "force": arguments.force });
    if let Some(path) = &arguments.private_key {
        let text = read_text_file(path, MAX_KEY_BYTES)?;
        body["private_key"] = text.into();
    }
    if let Some(issuer) = &arguments.issuer_id {
        body["issuer_id"] = issuer.as_str().into();
    }
    if let Some(expires) = arguments.expires {
        let end = match expires {
            // A duration goes into the future.
            Moment::For(millis) => Moment::For(-millis),
            other => other,
        };
        body["expires_at"] = end.as_text(SystemClock.now_micros() / 1_000).into();
    }
    let state: Value = Client::new(&arguments.server)?.put(INBOX_PATH, &body).await?;
    print_state(&state, arguments.json)
}

/// Returns the id of a key in the name of its file.
fn find_key_id(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix("AuthKey_")?.strip_suffix(".p8")?.to_owned())
}

fn print_state(state: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(state)?;
        return Ok(Exit::Ready);
    }
    let key = &state["key"];
    if key.is_null() {
        say!("the tenant has no key of App Store Connect: `unslide testflight set` sets one");
    } else {
        say!("key            {}", item_text(key, "key_id"));
        say!("issuer         {}", key["issuer_id"].as_str().unwrap_or("none: a key of one person"));
        let apps: Vec<&str> =
            key["apps"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        say!("apps           {}", apps.join(", "));
        if let Some(end) = key["expires_at"].as_str() {
            say!("until          {end}");
        }
        say!("last poll      {}", key["polled_at"].as_str().unwrap_or("not yet"));
        say!("next poll      {}", item_text(key, "next_poll_at"));
        if let Some(problem) = key["problem"].as_str() {
            say!("problem        {problem}");
        }
    }
    let counts = &state["submissions"];
    say!(
        "submissions    {} sent, {} waiting, {} refused, {} without a log",
        counts["sent"],
        counts["waiting"],
        counts["refused"],
        counts["no_log"]
    );
    for one in state["recent"].as_array().into_iter().flatten() {
        let [at, state, app, submission] =
            ["submitted_at", "state", "app", "submission"].map(|member| item_text(one, member));
        let more = one["report"].as_str().or(one["detail"].as_str()).unwrap_or_default();
        say!("{}", format!("{state:<14} {at} {app} {submission} {more}").trim_end());
    }
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_key_file_has_the_id_of_the_key() {
        assert_eq!(find_key_id(Path::new("keys/AuthKey_2X9R4HXF34.p8")).as_deref(), Some("2X9R4HXF34"));
        assert_eq!(find_key_id(Path::new("key.p8")), None);
    }
}
