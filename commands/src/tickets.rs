//! `unslide tracker` and `unslide ticket`: tickets of groups in Jira, GitHub, GitLab and Linear.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, Console, Exit, FeatureCommand, Outcome, block_on, confirm_action,
    print_trial, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[
        FeatureCommand {
            follows: "settings",
            command: TrackerArguments::command,
            run: run_tracker,
            key_kind: None,
        },
        FeatureCommand {
            follows: "groups",
            command: TicketArguments::command,
            run: run_ticket,
            key_kind: None,
        },
    ],
    ..ClientFeature::new("tickets")
};

/// The trackers in the API.
const TRACKERS_PATH: &str = "/v1/trackers";
/// The most bytes of a file with a token, a secret or fields.
const FILE_BYTES_LIMIT: u64 = 16 << 10;

/// Set, show, test or remove a tracker in which groups get tickets: Jira, GitHub, GitLab or Linear
#[derive(Parser)]
#[command(
    name = "tracker",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide tracker set main --kind github --project example/shop --token-file token.txt
  unslide tracker set jira --kind jira_cloud --tracker-url https://example.atlassian.net --project SHOP --account robin@example.com --token-file token.txt
  unslide tracker test main"
)]
struct TrackerArguments {
    #[command(subcommand)]
    command: TrackerCommand,
}

#[derive(Subcommand)]
enum TrackerCommand {
    /// Set a tracker. The secret of its hooks is shown once, if it was made
    Set(Box<TrackerSetArguments>),
    /// Show the trackers without their tokens
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Ask a tracker for its project, and show what was sent and answered
    Test {
        /// Name of the tracker
        name: String,
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Remove a tracker with its token. Its tickets stay; on a terminal it asks first
    Remove {
        /// Name of the tracker
        name: String,
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
struct TrackerSetArguments {
    /// Name of the tracker: lower case letters, digits and -
    name: String,
    #[command(flatten)]
    server: ApiServer,
    /// Product: github, gitlab, jira_cloud, jira_data_center or linear
    #[arg(long, value_name = "KIND")]
    kind: String,
    /// Address of its API; not needed for GitHub, GitLab.com and Linear
    #[arg(long, value_name = "URL")]
    tracker_url: Option<String>,
    /// Repository (owner/name), path of a project, key of a project, or id of a team
    #[arg(long)]
    project: String,
    /// E-mail address that the token belongs to, for Jira Cloud
    #[arg(long, value_name = "EMAIL")]
    account: Option<String>,
    /// File with the token. Without it, the token of the same product and address stays
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the secret of hooks. Without it, the one that is set stays, or one is made
    #[arg(long, value_name = "FILE")]
    hook_secret_file: Option<PathBuf>,
    /// Type of new issues, for Jira; Bug without it
    #[arg(long, value_name = "TYPE")]
    issue_type: Option<String>,
    /// Label of new tickets; several times for several
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// File with a JSON object of further fields, for Jira
    #[arg(long, value_name = "FILE")]
    fields: Option<PathBuf>,
    /// Make a ticket of a new group when it has this many reports
    #[arg(long, value_name = "REPORTS")]
    rule_reports: Option<u32>,
    /// Only app of that rule
    #[arg(long, value_name = "BUNDLE-ID")]
    rule_app: Option<String>,
    /// Set it even if the tracker refuses the token or cannot be asked now
    #[arg(long)]
    force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Make, link or show the ticket of a group in a tracker
#[derive(Parser)]
#[command(
    name = "ticket",
    after_help = "\
The key of the API needs the scope groups:write, or reports:read to show a ticket.

Examples:
  unslide ticket create SHOP-1A2B
  unslide ticket link SHOP-1A2B https://github.com/example/shop/issues/17
  unslide ticket show SHOP-1A2B"
)]
struct TicketArguments {
    #[command(subcommand)]
    command: TicketCommand,
}

#[derive(Subcommand)]
enum TicketCommand {
    /// Make a ticket of a group. A group has at most one
    Create {
        /// Id or short id of the group
        group: String,
        #[command(flatten)]
        target: TicketTarget,
    },
    /// Link a group to a ticket that exists
    Link {
        /// Id or short id of the group
        group: String,
        /// Number, name or address of the ticket
        ticket: String,
        #[command(flatten)]
        target: TicketTarget,
    },
    /// Show the ticket of a group
    Show {
        /// Id or short id of the group
        group: String,
        #[command(flatten)]
        server: ApiServer,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct TicketTarget {
    #[command(flatten)]
    server: ApiServer,
    /// Name of the tracker; not needed if there is one, or one with a rule for the app
    #[arg(long, value_name = "NAME")]
    tracker: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run_tracker(matches: &ArgMatches) -> Outcome {
    let arguments = TrackerArguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            TrackerCommand::Set(set) => set_tracker(&set).await,
            TrackerCommand::Show { server, json } => {
                let list: Value = Client::new(&server)?.get(TRACKERS_PATH).await?;
                print_trackers(&list, json)
            }
            TrackerCommand::Test { name, server, json } => {
                let path = format!("{TRACKERS_PATH}/{name}/test");
                print_test(&Client::new(&server)?.post(&path, &json!({})).await?, json)
            }
            TrackerCommand::Remove { name, server, yes } => {
                confirm_action("Tickets are not followed any more; they stay in the tracker.", yes)?;
                Client::new(&server)?.delete(&format!("{TRACKERS_PATH}/{name}")).await?;
                say!("removed; to end the token itself, revoke it in the tracker");
                Ok(Exit::Ready)
            }
        }
    })
}

fn run_ticket(matches: &ArgMatches) -> Outcome {
    let arguments = TicketArguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            TicketCommand::Create { group, target } => {
                let client = Client::new(&target.server)?;
                let body = json!({ "tracker": target.tracker });
                print_ticket(&client.post(&ticket_path(&group), &body).await?, target.json)
            }
            TicketCommand::Link { group, ticket, target } => {
                let client = Client::new(&target.server)?;
                let body = json!({ "tracker": target.tracker, "ticket": ticket });
                print_ticket(&client.put(&ticket_path(&group), &body).await?, target.json)
            }
            TicketCommand::Show { group, server, json } => {
                print_ticket(&Client::new(&server)?.get(&ticket_path(&group)).await?, json)
            }
        }
    })
}

fn ticket_path(group: &str) -> String {
    format!("/v1/groups/{group}/ticket")
}

async fn set_tracker(arguments: &TrackerSetArguments) -> Outcome {
    let mut body = json!({
        "name": arguments.name,
        "kind": arguments.kind, "url": arguments.tracker_url, "project": arguments.project, "account": arguments.account,
        "issue_type": arguments.issue_type, "labels": arguments.labels, "rule_reports": arguments.rule_reports,
        "rule_app": arguments.rule_app, "force": arguments.force,
    });
    if let Some(path) = &arguments.token_file {
        body["token"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    if let Some(path) = &arguments.hook_secret_file {
        body["hook_secret"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    if let Some(path) = &arguments.fields {
        body["fields"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    let set: Value = Client::new(&arguments.server)?.put(TRACKERS_PATH, &body).await?;
    if arguments.json {
        Console::get().print_json(&set)?;
        return Ok(Exit::Ready);
    }
    print_tracker(&set);
    if let Some(secret) = set["new_hook_secret"].as_str() {
        say!("hook secret  {secret}");
        say!(
            "Make a webhook in the tracker with this address and this secret. The secret is not shown again."
        );
    }
    Ok(Exit::Ready)
}

fn print_trackers(list: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(list)?;
        return Ok(Exit::Ready);
    }
    let trackers = list["trackers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if trackers.is_empty() {
        say!("the tenant has no tracker: `unslide tracker set` sets one");
    }
    trackers.iter().for_each(print_tracker);
    Ok(Exit::Ready)
}

fn print_tracker(tracker: &Value) {
    let [name, kind, url, project, hook_url] =
        ["name", "kind", "url", "project", "hook_url"].map(|member| item_text(tracker, member));
    say!("tracker      {name}");
    say!("product      {kind} at {url}");
    say!("project      {project}");
    say!("hooks go to  {hook_url}");
    if let Some(reports) = tracker["rule_reports"].as_i64() {
        let noun = if reports == 1 { "report" } else { "reports" };
        say!("rule         a new group with {reports} {noun}");
    }
    for (label, member) in [("problem", "problem"), ("waits until", "waits_until")] {
        if let Some(text) = tracker[member].as_str() {
            say!("{label:<12} {text}");
        }
    }
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    print_trial(test, as_json, || {
        let [method, url] = ["method", "url"].map(|member| item_text(test, member));
        say!("sent      {method} {url}");
        say!(
            "answered  {}",
            test["status"].as_u64().map_or_else(|| "nothing".to_owned(), |status| status.to_string())
        );
    })
}

fn print_ticket(found: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(found)?;
        return Ok(Exit::Ready);
    }
    let ticket = &found["ticket"];
    if ticket.is_null() {
        say!("the group has no ticket: `unslide ticket create` makes one");
        return Ok(Exit::Ready);
    }
    let [state, tracker] = ["state", "tracker"].map(|member| item_text(ticket, member));
    say!("state     {state} in {tracker}");
    for (label, member) in
        [("ticket", "key"), ("address", "url"), ("fixed in", "fix_version"), ("problem", "problem")]
    {
        if let Some(text) = ticket[member].as_str() {
            say!("{label:<9} {text}");
        }
    }
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_each_command_go_together() {
        for mut command in [TrackerArguments::command(), TicketArguments::command()] {
            command.build();
        }
        let tracker = [
            "tracker",
            "set",
            "main",
            "--kind",
            "jira_cloud",
            "--tracker-url",
            "https://example.com",
            "--project",
            "SHOP",
        ];
        assert!(TrackerArguments::command().try_get_matches_from(tracker).is_ok());
        let ticket = ["ticket", "link", "SHOP-1A2B", "17", "--tracker", "main"];
        assert!(TicketArguments::command().try_get_matches_from(ticket).is_ok());
    }
}
