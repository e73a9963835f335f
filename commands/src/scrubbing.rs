//! `unslide scrubbing`: shows and sets the rules that take personal data out of reports, and tries them on a text.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, note, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "settings", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("scrubbing")
};

/// The rules in the API.
const RULES_PATH: &str = "/v1/scrubbing";
/// The pause between two looks while waiting.
const STATUS_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The most bytes of a file of rules, and of a text, that are read.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Take personal data out of reports before they are stored: show, set and try the rules
#[derive(Parser)]
#[command(
    name = "scrubbing",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide scrubbing show
  unslide scrubbing set rules.json
  unslide scrubbing set rules.json --app com.example.shop
  unslide scrubbing test \"no cart of robin@example.com\" --rules rules.json
  unslide scrubbing preview --app com.example.shop --rules rules.json
  unslide scrubbing apply --wait
  unslide scrubbing remove --app com.example.shop

A file of rules is JSON, such as:
  {\"ready\": [{\"pattern\": \"email\", \"action\": \"mask\"}],
   \"own\": [{\"name\": \"member_number\", \"pattern\": \"M-[0-9]{8}\", \"action\": \"hash\"}],
   \"keys\": [{\"key\": \"email\", \"action\": \"drop\"}]}"
)]
struct Arguments {
    #[command(subcommand)]
    command: ScrubbingCommand,
}

#[derive(Subcommand)]
enum ScrubbingCommand {
    /// Show the rules
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Set the rules of an app, in place of those before
    Set(SetArguments),
    /// Show what rules take out of a text. Nothing is stored
    Test(TestArguments),
    /// Show what rules would take out of the newest reports of the last day, at most 20. Nothing is stored
    Preview(PreviewArguments),
    /// Apply the rules to stored reports; on a terminal it asks first
    Apply {
        #[command(flatten)]
        server: ApiServer,
        /// Wait until all reports were looked at
        #[arg(long)]
        wait: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Remove the rules of an app; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Bundle identifier of the app; the apps without rules of their own if absent
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
    /// File with the rules as JSON
    rules: PathBuf,
    /// Bundle identifier of the app; the apps without rules of their own if absent
    #[arg(long, default_value = "", hide_default_value = true)]
    app: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct TestArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The text
    text: String,
    /// File with rules as JSON; the stored ones if absent
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Bundle identifier of the app whose stored rules are tried
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "rules")]
    app: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PreviewArguments {
    #[command(flatten)]
    server: ApiServer,
    /// File with rules as JSON; the stored ones if absent
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Bundle identifier of the app; the newest reports of all apps if absent
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
            ScrubbingCommand::Show { server, json } => {
                print_rules(&Client::new(&server)?.get(RULES_PATH).await?, json)
            }
            ScrubbingCommand::Set(set) => {
                let body = json!({"app": set.app, "rules": read_rules(&set.rules)?});
                print_rules(&Client::new(&set.server)?.put(RULES_PATH, &body).await?, set.json)
            }
            ScrubbingCommand::Test(test) => test_rules(&test).await,
            ScrubbingCommand::Preview(preview) => preview_rules(&preview).await,
            ScrubbingCommand::Apply { server, wait, yes } => {
                confirm_action("What the rules take out of stored reports cannot be had back.", yes)?;
                apply_rules(&Client::new(&server)?, wait).await
            }
            ScrubbingCommand::Remove { server, app, yes } => {
                confirm_action("Reports of the app are no longer scrubbed by these rules.", yes)?;
                let _: Value =
                    Client::new(&server)?.put(RULES_PATH, &json!({"app": app, "rules": null})).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

async fn apply_rules(client: &Client, wait: bool) -> Outcome {
    let mut applied: Value = client.post(&format!("{RULES_PATH}/apply"), &json!({})).await?;
    while wait && applied["run"]["status"] == "running" {
        tokio::time::sleep(STATUS_POLL_INTERVAL).await;
        applied = client.get(RULES_PATH).await?;
    }
    say!("{}", describe_run(&applied["run"]));
    if applied["run"]["status"] == "failed" {
        note!("the run was given up: start it again");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Ready)
}

fn describe_run(run: &Value) -> String {
    let count = |name: &str| run[name].as_u64().unwrap_or_default();
    let mut line = format!(
        "stored reports: {}, {} looked at, {} changed",
        item_text(run, "status"),
        count("looked"),
        count("changed")
    );
    if count("unreadable") > 0 {
        line.push_str(&format!(", {} could not be read", count("unreadable")));
    }
    line
}

async fn test_rules(arguments: &TestArguments) -> Outcome {
    let rules = arguments.rules.as_deref().map(read_rules).transpose()?;
    let body = json!({"text": arguments.text, "app": arguments.app, "rules": rules});
    let tried: Value = Client::new(&arguments.server)?.post(&format!("{RULES_PATH}/try"), &body).await?;
    if arguments.json {
        Console::get().print_json(&tried)?;
        return Ok(Exit::Ready);
    }
    say!("{}", item_text(&tried, "text"));
    for (rule, count) in tried["taken"].as_object().into_iter().flatten() {
        note!("{rule}: {count}");
    }
    Ok(Exit::Ready)
}

async fn preview_rules(arguments: &PreviewArguments) -> Outcome {
    let rules = arguments.rules.as_deref().map(read_rules).transpose()?;
    let body = json!({"app": arguments.app, "rules": rules});
    let client = Client::new(&arguments.server)?;
    let preview: Value = client.post(&format!("{RULES_PATH}/preview"), &body).await?;
    if arguments.json {
        Console::get().print_json(&preview)?;
        return Ok(Exit::Ready);
    }
    for report in preview["items"].as_array().into_iter().flatten() {
        say!("{}", item_text(report, "id"));
        for text in report["texts"].as_array().into_iter().flatten() {
            say!("  - {}", item_text(text, "before"));
            say!("  + {}", item_text(text, "after"));
        }
    }
    note!("{} reports were looked at", preview["sample"]);
    for (rule, count) in preview["taken"].as_object().into_iter().flatten() {
        note!("{rule}: {count}");
    }
    Ok(Exit::Ready)
}

fn read_rules(path: &Path) -> Result<Value, CommandError> {
    let text = read_text_file(path, MAX_FILE_BYTES)?;
    serde_json::from_str(&text).map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))
}

fn print_rules(rules: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(rules)?;
        return Ok(Exit::Ready);
    }
    let apps = rules["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if apps.is_empty() {
        say!("no rules: reports are stored as they are");
    }
    for of_app in apps {
        match item_text(of_app, "app").as_str() {
            "" => say!("apps without rules of their own"),
            app => say!("{app}"),
        }
        let rules = &of_app["rules"];
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        for rule in items(&rules["ready"]) {
            say!("  {:4}  {}", item_text(&rule, "action"), item_text(&rule, "pattern"));
        }
        for rule in items(&rules["own"]) {
            let (name, pattern) = (item_text(&rule, "name"), item_text(&rule, "pattern"));
            say!("  {:4}  {name}: {pattern}", item_text(&rule, "action"));
        }
        for rule in items(&rules["keys"]) {
            say!("  {:4}  the key {}", item_text(&rule, "action"), item_text(&rule, "key"));
        }
        if let Some(keys) = rules["keep_only"]["keys"].as_array() {
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            say!("  {:4}  all keys but {}", item_text(&rules["keep_only"], "action"), keys.join(", "));
        }
    }
    if rules["run"].is_object() {
        say!("{}", describe_run(&rules["run"]));
    }
    Ok(Exit::Ready)
}
