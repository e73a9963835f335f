//! `unslide alerts`: the rules of a tenant, and their messages.

mod rules;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rules::{ChangeRuleArguments, CreateRuleArguments, DeleteRuleArguments, TestRuleArguments};
use serde_json::{Value, json};
use unslide_cli::listing::{Listing, filter_given, item_text};
use unslide_cli::{
    ApiServer, Client, ClientFeature, FeatureCommand, Outcome, block_on, parse_entry_id, quantity, say,
};
use unslide_model::GroupRef;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "groups", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("alerts")
};

/// Entries of a list without --limit.
const DEFAULT_LIMIT: usize = 50;

/// Make, test and list alert rules, list messages and firings, acknowledge a firing, and send a group to a receiver
#[derive(Parser)]
#[command(
    name = "alerts",
    after_help = "\
The key needs the scope tenant:admin, and to send a group groups:write.

Examples:
  unslide alerts list
  unslide alerts create 'new bugs' --condition new_group --channel slack --address-file url.txt
  unslide alerts change 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10 --digest-minutes 15
  unslide alerts messages --rule 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide alerts test 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide alerts firings
  unslide alerts acknowledge 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide alerts send SHOP-1A2B --rule 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"
)]
struct Arguments {
    #[command(subcommand)]
    command: AlertsCommand,
}

#[derive(Subcommand)]
enum AlertsCommand {
    /// List the alert rules of the tenant
    List(ListArguments),
    /// List messages, the newest first, with the reason why one was not delivered
    Messages {
        #[command(flatten)]
        list: ListArguments,
        /// Messages of the rule with this id
        #[arg(long, value_name = "ID", value_parser = parse_entry_id)]
        rule: Option<String>,
    },
    /// List the times in which figures were bad or events waited for a person, the newest first
    Firings(ListArguments),
    /// Acknowledge a firing, so that the second receiver does not get it
    Acknowledge {
        #[command(flatten)]
        server: ApiServer,
        /// The id of the firing
        #[arg(value_parser = parse_entry_id)]
        id: String,
    },
    /// Make an alert rule
    Create(Box<CreateRuleArguments>),
    /// Change an alert rule, mute it, switch it off, or give it another receiver
    Change(Box<ChangeRuleArguments>),
    /// Delete an alert rule with its messages; on a terminal it asks first
    Delete(DeleteRuleArguments),
    /// Send a test message to the receiver of a rule, and show what was sent and answered
    Test(TestRuleArguments),
    /// Send a group to the receiver of a rule
    Send {
        #[command(flatten)]
        server: ApiServer,
        /// The id or short id of the group
        group: GroupRef,
        /// The id of the rule
        #[arg(long, value_name = "ID", value_parser = parse_entry_id)]
        rule: String,
    },
}

#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The most entries to show
    #[arg(long, default_value_t = DEFAULT_LIMIT, value_parser = quantity::entries)]
    limit: usize,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    block_on(async {
        match Arguments::from_arg_matches(matches)?.command {
            AlertsCommand::List(list) => list_rules(&list).await,
            AlertsCommand::Messages { list, rule } => list_messages(&list, rule).await,
            AlertsCommand::Firings(list) => list_firings(&list).await,
            AlertsCommand::Acknowledge { server, id } => {
                let path = format!("/v1/alert-firings/{id}/acknowledge");
                let firing: Value = Client::new(&server)?.post(&path, &json!({})).await?;
                say!("{id}  {}", describe_firing(&firing));
                Ok(unslide_cli::Exit::Ready)
            }
            AlertsCommand::Create(create) => rules::create_rule(&create).await,
            AlertsCommand::Change(change) => rules::change_rule(&change).await,
            AlertsCommand::Delete(delete) => rules::delete_rule(&delete).await,
            AlertsCommand::Test(test) => rules::test_rule(&test).await,
            AlertsCommand::Send { server, group, rule } => {
                let path = format!("/v1/groups/{group}/send");
                let _: Value = Client::new(&server)?.post(&path, &json!({ "rule": rule })).await?;
                say!("{group}  is on its way to the receiver of the rule {rule}");
                Ok(unslide_cli::Exit::Ready)
            }
        }
    })
}

async fn list_rules(arguments: &ListArguments) -> Outcome {
    let listing = Listing {
        path: "/v1/alert-rules",
        query: Vec::new(),
        limit: arguments.limit,
        head: &["ID", "NAME", "CONDITION", "APP", "LABELS", "CHANNEL", "ADDRESS", "STATE"],
        row: |rule| {
            [
                item_text(rule, "id"),
                item_text(rule, "name"),
                describe_condition(rule),
                item_text(rule, "app"),
                describe_labels(rule),
                item_text(rule, "channel"),
                item_text(rule, "address"),
                describe_state(rule),
            ]
        },
        empty: "the tenant has no alert rule: `unslide alerts create` makes one, or the console",
    };
    listing.print_items(&Client::new(&arguments.server)?, arguments.json).await
}

/// Returns the labels of the groups that a rule is about.
fn describe_labels(rule: &Value) -> String {
    let labels = rule["labels"].as_array().into_iter().flatten();
    labels.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns the condition or the figure with its threshold, if it has one.
fn describe_condition(rule: &Value) -> String {
    if let Some(figure) = rule["figure"]["name"].as_str() {
        let comparison = item_text(&rule["figure"], "comparison");
        return match comparison.as_str() {
            "worse" => format!("{figure} worse"),
            _ => format!("{figure} {comparison} {}", rule["threshold"]),
        };
    }
    let condition = item_text(rule, "condition");
    match rule["threshold"].as_f64() {
        Some(threshold) if threshold > 0.0 => format!("{condition} {threshold}"),
        _ => condition,
    }
}

fn describe_state(rule: &Value) -> String {
    match (rule["enabled"] == false, item_text(rule, "muted_until").as_str()) {
        (true, _) => "off".to_owned(),
        (false, "") => "on".to_owned(),
        (false, until) => format!("muted until {until}"),
    }
}

async fn list_firings(arguments: &ListArguments) -> Outcome {
    let listing = Listing {
        path: "/v1/alert-firings",
        query: Vec::new(),
        limit: arguments.limit,
        head: &["ID", "BEGAN", "RULE", "STATE", "FIGURE OR EVENT"],
        row: |firing| {
            [
                item_text(firing, "id"),
                item_text(firing, "began_at"),
                item_text(firing, "rule_name"),
                describe_firing(firing),
                item_text(firing, "headline"),
            ]
        },
        empty: "no rule has fired",
    };
    listing.print_items(&Client::new(&arguments.server)?, arguments.json).await
}

/// Returns how far a firing is.
fn describe_firing(firing: &Value) -> String {
    let by = item_text(firing, "acknowledged_by");
    match (firing["ended_at"].is_string(), by.as_str()) {
        (true, "") => "over".to_owned(),
        (true, by) => format!("over, acknowledged by {by}"),
        (false, "") => "open".to_owned(),
        (false, by) => format!("acknowledged by {by}"),
    }
}

async fn list_messages(arguments: &ListArguments, rule: Option<String>) -> Outcome {
    let listing = Listing {
        path: "/v1/alert-messages",
        query: filter_given([("rule", rule)]),
        limit: arguments.limit,
        head: &["ID", "CREATED", "RULE", "STATUS", "EVENTS", "ATTEMPTS", "HEADLINE", "LAST ERROR"],
        row: |message| {
            [
                item_text(message, "id"),
                item_text(message, "created_at"),
                item_text(message, "rule_name"),
                item_text(message, "status"),
                message["events"].to_string(),
                message["attempts"].to_string(),
                item_text(message, "headline"),
                item_text(message, "last_error"),
            ]
        },
        empty: "no message matches",
    };
    listing.print_items(&Client::new(&arguments.server)?, arguments.json).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_each_command_go_together() {
        let mut command = Arguments::command();
        command.build();
        let id = "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10";
        for line in [
            "alerts create bugs --condition new_group --channel mail --address a@example.com --quiet-hours 22:00-07:00",
            &format!(
                "alerts change {id} --off --escalate-to {id} --escalate-minutes 5 --hook-secret-file secret.txt"
            ),
            &format!("alerts test {id} --json"),
        ] {
            let parsed = Arguments::command().try_get_matches_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
    }

    #[test]
    fn a_rule_says_when_it_sends_and_whether_it_is_on() {
        let rule = json!({ "condition": "growth", "threshold": 2.5, "enabled": true });
        assert_eq!(
            (describe_condition(&rule), describe_state(&rule)),
            ("growth 2.5".to_owned(), "on".to_owned())
        );
        let muted = json!({ "condition": "new_group", "threshold": 0.0, "enabled": true, "muted_until": "2026-11-20T09:00:00Z" });
        assert_eq!(describe_condition(&muted), "new_group");
        assert_eq!(describe_state(&muted), "muted until 2026-11-20T09:00:00Z");
        assert_eq!(describe_state(&json!({ "enabled": false })), "off");
        let slow = json!({ "condition": "figure", "threshold": 1500.5, "figure": { "name": "launch_time_p90", "comparison": "above" } });
        assert_eq!(describe_condition(&slow), "launch_time_p90 above 1500.5");
    }
}
