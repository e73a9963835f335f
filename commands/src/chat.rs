//! `unslide chat`: the Slack app of a tenant.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, print_trial, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "settings",
        command: ChatArguments::command,
        run: run_chat,
        key_kind: None,
    }],
    ..ClientFeature::new("chat")
};

/// The Slack app in the API.
const SLACK_PATH: &str = "/v1/chat/slack";
/// The most bytes of a file with a secret.
const FILE_BYTES_LIMIT: u64 = 16 << 10;

/// Set, show, test or remove the Slack app that posts bugs to a channel
#[derive(Parser)]
#[command(
    name = "chat",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide chat set --channel C0123ABCD --token-file token.txt --signing-secret-file secret.txt --reports 10
  unslide chat test"
)]
struct ChatArguments {
    #[command(subcommand)]
    command: ChatCommand,
}

#[derive(Subcommand)]
enum ChatCommand {
    /// Set the Slack app
    Set(Box<ChatSetArguments>),
    /// Show the Slack app without its secrets
    Show(ChatTarget),
    /// Post a message to the channel, and show what was sent and answered
    Test(ChatTarget),
    /// Remove the Slack app with its secrets. Messages stay; on a terminal it asks first
    Remove {
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
struct ChatTarget {
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ChatSetArguments {
    #[command(flatten)]
    target: ChatTarget,
    /// Id of a channel that the bot is a member of
    #[arg(long, value_name = "ID")]
    channel: String,
    /// File with the bot token. Without it, the one that is set stays
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the signing secret. Without it, the one that is set stays
    #[arg(long, value_name = "FILE")]
    signing_secret_file: Option<PathBuf>,
    /// Post a new bug when it has this many reports; 1 without it
    #[arg(long, value_name = "REPORTS")]
    reports: Option<u32>,
    /// Only app whose bugs are posted
    #[arg(long, value_name = "BUNDLE-ID")]
    app: Option<String>,
    /// Id of the workspace, for --force
    #[arg(long, value_name = "ID")]
    team: Option<String>,
    /// Set it even if Slack cannot be asked now
    #[arg(long, requires = "team")]
    force: bool,
}

fn run_chat(matches: &ArgMatches) -> Outcome {
    let arguments = ChatArguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            ChatCommand::Set(set) => {
                let body = build_body(&set)?;
                let done: Value = Client::new(&set.target.server)?.put(SLACK_PATH, &body).await?;
                print_slack(&done, set.target.json)
            }
            ChatCommand::Show(target) => {
                let found: Value = Client::new(&target.server)?.get(SLACK_PATH).await?;
                if target.json {
                    Console::get().print_json(&found)?;
                    return Ok(Exit::Ready);
                }
                if found["slack"].is_null() {
                    say!("the tenant has no Slack app: `unslide chat set` sets one");
                    return Ok(Exit::Ready);
                }
                print_slack(&found["slack"], false)
            }
            ChatCommand::Test(target) => {
                let path = format!("{SLACK_PATH}/test");
                print_test(&Client::new(&target.server)?.post(&path, &json!({})).await?, target.json)
            }
            ChatCommand::Remove { server, yes } => {
                confirm_action("Buttons do nothing any more; messages stay in Slack.", yes)?;
                Client::new(&server)?.delete(SLACK_PATH).await?;
                say!("removed; to end the token itself, remove the app from the workspace");
                Ok(Exit::Ready)
            }
        }
    })
}

fn build_body(arguments: &ChatSetArguments) -> Result<Value, CommandError> {
    let mut body = json!({
        "channel": arguments.channel, "reports": arguments.reports, "app": arguments.app, "team": arguments.team,
        "force": arguments.force,
    });
    if let Some(path) = &arguments.token_file {
        body["bot_token"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    if let Some(path) = &arguments.signing_secret_file {
        body["signing_secret"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    Ok(body)
}

fn print_slack(slack: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(slack)?;
        return Ok(Exit::Ready);
    }
    let [team, channel, request_url] =
        ["team", "channel", "request_url"].map(|member| item_text(slack, member));
    say!("workspace    {team}");
    say!("channel      {channel}");
    say!("request URL  {request_url}");
    let noun = if slack["reports"] == 1 { "report" } else { "reports" };
    say!("posted       a new bug with {} {noun}", slack["reports"]);
    for (label, member) in [("app", "app"), ("problem", "problem"), ("waits until", "waits_until")] {
        if let Some(text) = slack[member].as_str() {
            say!("{label:<12} {text}");
        }
    }
    Ok(Exit::Ready)
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    print_trial(test, as_json, || {
        say!("sent      POST {}", item_text(test, "url"));
        say!("          {}", test["sent"]);
        say!(
            "answered  {}",
            test["status"].as_u64().map_or_else(|| "nothing".to_owned(), |status| status.to_string())
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_each_command_go_together() {
        ChatArguments::command().build();
        let set = ["chat", "set", "--channel", "C1", "--team", "T1", "--force"];
        assert!(ChatArguments::command().try_get_matches_from(set).is_ok());
        let no_team = ["chat", "set", "--channel", "C1", "--force"];
        assert!(ChatArguments::command().try_get_matches_from(no_team).is_err());
    }
}
