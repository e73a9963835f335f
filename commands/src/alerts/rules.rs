//! Commands that make, change, test and delete alert rules.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, CommandError, Console, Exit, Outcome, confirm_action, note, parse_entry_id, say,
};

/// The rules in the API.
const RULES_PATH: &str = "/v1/alert-rules";
/// The most bytes of a file with an address, a secret, a template or a figure.
const FILE_BYTES_LIMIT: u64 = 16 << 10;
/// The interval between two looks at the outcome of a test, and how many there are.
const TEST_POLL_INTERVAL: Duration = Duration::from_secs(1);
const TEST_POLLS_LIMIT: u32 = 60;
/// Messages of a rule among which its test is.
const TEST_LOOK_LIMIT: u32 = 20;

/// The fields of a rule. Those of the receiver go together.
#[derive(Args)]
pub struct RuleFields {
    /// The only app (bundle identifier) that the rule watches
    #[arg(long, value_name = "BUNDLE-ID")]
    app: Option<String>,
    /// Threshold of the condition, in its unit
    #[arg(long)]
    threshold: Option<f64>,
    /// Reports that a group has at least, for conditions about the hours or the version of a group
    #[arg(long, value_name = "REPORTS")]
    least_reports: Option<u32>,
    /// Label of which a group has one, such as owner:@example/cart; several times for several
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// File with a JSON object of the figure, for the condition figure
    #[arg(long, value_name = "FILE")]
    figure_file: Option<PathBuf>,
    /// Hour of the receiver's day at which a summary is sent
    #[arg(long, value_name = "HOUR")]
    summary_hour: Option<u8>,
    /// Time zone of that hour, such as Europe/Oslo
    #[arg(long, value_name = "ZONE", requires = "summary_hour")]
    summary_zone: Option<String>,
    /// Send the summary on Mondays, about seven days
    #[arg(long, requires = "summary_hour")]
    summary_weekly: bool,
    /// Receiver: a URL, mail addresses with commas between them, or nothing for the usual one of a pager
    #[arg(long, conflicts_with = "address_file")]
    address: Option<String>,
    /// File with the address, so that no list of processes shows it
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// File with the secret that signs the messages, or the key of a pager
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// File with the body of a webhook
    #[arg(long, value_name = "FILE")]
    template_file: Option<PathBuf>,
    /// That body is a form and not JSON
    #[arg(long, requires = "template_file")]
    form: bool,
    /// Least minutes between two messages
    #[arg(long, value_name = "MINUTES")]
    digest_minutes: Option<u16>,
    /// Hours (UTC) in which nothing is sent, such as 22:00-07:00
    #[arg(long, value_name = "FROM-TO", value_parser = parse_hours)]
    quiet_hours: Option<(String, String)>,
    /// Rule with the second receiver, if no person acknowledges in time
    #[arg(long, value_name = "ID", value_parser = parse_entry_id)]
    escalate_to: Option<String>,
    /// Minutes without an acknowledgement until then; 0 for never
    #[arg(long, value_name = "MINUTES", requires = "escalate_to")]
    escalate_minutes: Option<u16>,
}

/// Makes a rule with a condition and a receiver.
#[derive(Args)]
pub struct CreateRuleArguments {
    /// Name of the rule, for people
    name: String,
    #[command(flatten)]
    server: ApiServer,
    /// Condition, such as new_group, frequent_group, figure or summary
    #[arg(long)]
    condition: String,
    /// Channel: webhook, slack, feishu, dingtalk, wecom, teams, discord, google_chat, pagerduty, opsgenie, mail or kafka
    #[arg(long)]
    channel: String,
    #[command(flatten)]
    fields: RuleFields,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Changes of a rule. What is not named stays.
#[derive(Args)]
pub struct ChangeRuleArguments {
    /// The id of the rule
    #[arg(value_parser = parse_entry_id)]
    id: String,
    #[command(flatten)]
    server: ApiServer,
    /// Name of the rule, for people
    #[arg(long)]
    name: Option<String>,
    /// Channel of another receiver, with its address and its secret
    #[arg(long)]
    channel: Option<String>,
    #[command(flatten)]
    fields: RuleFields,
    /// Switch the rule on
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Switch the rule off
    #[arg(long)]
    off: bool,
    /// Send none of its messages until this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    muted_until: Option<String>,
    /// File with the secret of the webhook by which PagerDuty or Opsgenie acknowledges; an empty file removes it
    #[arg(long, value_name = "FILE")]
    hook_secret_file: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Tests the receiver of a rule.
#[derive(Args)]
pub struct TestRuleArguments {
    /// The id of the rule
    #[arg(value_parser = parse_entry_id)]
    id: String,
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Deletes a rule.
#[derive(Args)]
pub struct DeleteRuleArguments {
    /// The id of the rule
    #[arg(value_parser = parse_entry_id)]
    id: String,
    #[command(flatten)]
    server: ApiServer,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

fn parse_hours(text: &str) -> Result<(String, String), String> {
    let (from, to) =
        text.split_once('-').ok_or("two times with a hyphen between them, such as 22:00-07:00")?;
    Ok((from.to_owned(), to.to_owned()))
}

fn read_file(path: &Path) -> Result<String, CommandError> {
    Ok(read_text_file(path, FILE_BYTES_LIMIT)?.trim().to_owned())
}

impl RuleFields {
    /// Writes the fields that are given into the body of a request.
    fn write_into(&self, body: &mut Value) -> Result<(), CommandError> {
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body[name] = value;
            }
        };
        let read = |path: &Option<PathBuf>| path.as_deref().map(read_file).transpose();
        set("app", self.app.as_deref().map(Value::from));
        set("threshold", self.threshold.map(Value::from));
        set("least_reports", self.least_reports.map(Value::from));
        set("labels", (!self.labels.is_empty()).then(|| json!(self.labels)));
        set("address", read(&self.address_file)?.or_else(|| self.address.clone()).map(Value::from));
        set("secret", read(&self.secret_file)?.map(Value::from));
        set("template", read(&self.template_file)?.map(Value::from));
        set("content_type", self.form.then(|| "application/x-www-form-urlencoded".into()));
        set("digest_minutes", self.digest_minutes.map(Value::from));
        set("quiet_hours", self.quiet_hours.as_ref().map(|(from, to)| json!({"from": from, "to": to})));
        let zone = self.summary_zone.as_deref().unwrap_or("UTC");
        let schedule = |hour| json!({"hour": hour, "time_zone": zone, "weekly": self.summary_weekly});
        set("summary", self.summary_hour.map(schedule));
        let minutes = self.escalate_minutes.unwrap_or(15);
        set("escalation", self.escalate_to.as_ref().map(|rule| json!({"rule": rule, "minutes": minutes})));
        if let Some(path) = &self.figure_file {
            let figure = serde_json::from_str(&read_file(path)?);
            body["figure"] = figure.map_err(|error| CommandError::cannot_read(path, error))?;
        }
        Ok(())
    }
}

/// Makes a rule and prints it.
pub async fn create_rule(arguments: &CreateRuleArguments) -> Outcome {
    let mut body = json!({
        "name": arguments.name, "condition": arguments.condition, "channel": arguments.channel,
    });
    arguments.fields.write_into(&mut body)?;
    let rule: Value = Client::new(&arguments.server)?.post(RULES_PATH, &body).await?;
    print_rule(&rule, arguments.json)
}

/// Changes a rule and prints it.
pub async fn change_rule(arguments: &ChangeRuleArguments) -> Outcome {
    let mut body = json!({});
    arguments.fields.write_into(&mut body)?;
    if arguments.on || arguments.off {
        body["enabled"] = arguments.on.into();
    }
    for (name, value) in
        [("name", &arguments.name), ("channel", &arguments.channel), ("muted_until", &arguments.muted_until)]
    {
        if let Some(value) = value {
            body[name] = value.as_str().into();
        }
    }
    if let Some(path) = &arguments.hook_secret_file {
        body["hook_secret"] = read_file(path)?.into();
    }
    let path = format!("{RULES_PATH}/{}", arguments.id);
    let rule: Value = Client::new(&arguments.server)?.send_json(Method::PATCH, &path, &body).await?;
    print_rule(&rule, arguments.json)
}

/// Deletes a rule.
pub async fn delete_rule(arguments: &DeleteRuleArguments) -> Outcome {
    confirm_action("The rule, its messages and its firings are deleted.", arguments.yes)?;
    Client::new(&arguments.server)?.delete(&format!("{RULES_PATH}/{}", arguments.id)).await?;
    say!("deleted");
    Ok(Exit::Ready)
}

fn print_rule(rule: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(rule)?;
        return Ok(Exit::Ready);
    }
    let [id, name, condition, channel, address] =
        ["id", "name", "condition", "channel", "address"].map(|member| item_text(rule, member));
    say!("rule         {id}");
    say!("name         {name}");
    say!("condition    {condition}");
    say!("receiver     {channel} {address}");
    if let Some(hook) = rule["hook_url"].as_str() {
        let state = if rule["takes_hooks"] == true { "acknowledges" } else { "needs --hook-secret-file" };
        say!("hooks go to  {hook}  ({state})");
    }
    say!("`unslide alerts test {id}` shows what is sent and answered");
    Ok(Exit::Ready)
}

/// Sends a test message, waits for its outcome, and prints what was sent and answered.
pub async fn test_rule(arguments: &TestRuleArguments) -> Outcome {
    let (client, id) = (Client::new(&arguments.server)?, &arguments.id);
    let _: Value = client.post(&format!("{RULES_PATH}/{id}/test"), &json!({})).await?;
    let messages = format!("/v1/alert-messages?rule={id}&limit={TEST_LOOK_LIMIT}");
    for _ in 0..TEST_POLLS_LIMIT {
        let list: Value = client.get(&messages).await?;
        if let Some(test) = list["items"].as_array().into_iter().flatten().find(|one| is_outcome(one)) {
            return print_test(test, arguments.json);
        }
        tokio::time::sleep(TEST_POLL_INTERVAL).await;
    }
    note!(
        "the test was not sent yet: the rule has quiet hours or sends rarely. `unslide alerts messages --rule {id}` lists it later"
    );
    Ok(Exit::Failed)
}

/// Returns true for the message of a test that was tried, or that was not sent because its rule is muted.
fn is_outcome(message: &Value) -> bool {
    let is_test = item_text(message, "headline").starts_with("Test of the alert rule ");
    let is_tried = message["last_error"].is_string() || message["status"] != "waiting";
    is_test && is_tried
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    let works = test["status"] == "delivered";
    if as_json {
        Console::get().print_json(test)?;
    } else {
        let [status, request, answer, error] =
            ["status", "test_request", "test_answer", "last_error"].map(|member| item_text(test, member));
        if !request.is_empty() {
            say!("sent");
            for line in request.lines() {
                say!("{line}");
            }
            say!("");
        }
        let http = test["test_status"].as_i64().map(|status| status.to_string());
        say!("answered  {} {answer}", http.as_deref().unwrap_or("no status"));
        say!("{status}  {error}");
    }
    Ok(if works { Exit::Ready } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_two_times() {
        assert_eq!(parse_hours("22:00-07:00"), Ok(("22:00".to_owned(), "07:00".to_owned())));
        assert!(parse_hours("22:00").is_err());
    }

    #[test]
    fn a_test_has_an_outcome_once_it_was_tried() {
        let message = |headline: &str, status: &str, error: Value| {
            is_outcome(&json!({"headline": headline, "status": status, "last_error": error}))
        };
        let test = "Test of the alert rule bugs";
        assert!(message(test, "delivered", Value::Null) && message(test, "muted", Value::Null));
        assert!(message(test, "waiting", "HTTP 502".into()) && !message(test, "waiting", Value::Null));
        assert!(!message("New: boom", "delivered", Value::Null));
    }
}
