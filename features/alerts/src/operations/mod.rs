//! The operations of alerts: rules, and the log of sent messages.

mod change;
mod create;
mod delete;
mod figure;
pub mod firings;
mod get;
pub mod list;
pub mod messages;
mod send_again;
mod send_group;
mod test;

pub use change::change_alert_rule;
pub use create::create_alert_rule;
pub use delete::delete_alert_rule;
pub use send_again::send_alert_again;
pub use send_group::{GroupReceiver, send_group};
pub use test::test_alert_rule;

use crate::receiver_policy::ReceiverPolicy;
use crate::sending::check_secret;
use crate::sending::receiver::SECTION;
use crate::store::recipients::MAX_UNCONFIRMED;
use crate::store::routing::MAX_RULE_LABELS;
use crate::store::rules::{AlertChannel, AlertCondition, AlertReceiver, AlertRule, TemplateType};
use crate::store::schedule::SummarySchedule;
use crate::store::summary::is_time_zone;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::{Kind, Problem, is_text};
use unslide_api::routes;
use unslide_runtime::egress::check_url;
use unslide_store::groups::labels::MAX_LABEL_BYTES;
use unslide_store::{Store, TenantTx};

/// Returns the routes of this folder.
pub fn alert_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::create_alert_rule, list::list_alert_rules))
        .routes(routes!(get::get_alert_rule, change::change_alert_rule, delete::delete_alert_rule))
        .routes(routes!(test::test_alert_rule))
        .routes(routes!(send_group::send_group))
        .routes(routes!(messages::list_alert_messages))
        .routes(routes!(send_again::send_alert_again))
        .routes(routes!(firings::list_alert_firings))
        .routes(routes!(firings::acknowledge_alert_firing))
}

/// Units of a message that a person asks for, as many as those of 100 reports.
const ALERT_UNITS: usize = 100;

/// Returns the problem that the tenant has no such rule.
fn no_rule() -> Problem {
    Problem::new(Kind::NotFound, "there is no such alert rule")
}

/// Checks the limits that a rule's schema cannot express.
fn check_limits(
    name: Option<&str>,
    condition: Option<AlertCondition>,
    threshold: Option<f64>,
    digest_minutes: Option<u16>,
) -> Result<(), Problem> {
    let (least, most) = match condition {
        Some(AlertCondition::Spike) => (1.1, 1_000_000.0),
        Some(AlertCondition::CrashFree) => (1.0, 100.0),
        Some(AlertCondition::FrequentGroup | AlertCondition::WidespreadGroup) => (0.001, 100.0),
        // Of a figure, in its unit. A change names no condition: its rule is checked afterwards.
        Some(AlertCondition::Figure) | None => (0.0, 1e15),
        _ => (1.0, 1_000_000.0),
    };
    let wrong = if name.is_some_and(|name| !is_text(name, 200)) {
        "name: 1 to 200 bytes, no control characters".to_owned()
    } else if threshold.is_some_and(|value| !(least..=most).contains(&value)) {
        format!("threshold: {least} to {most}")
    } else if digest_minutes.is_some_and(|minutes| minutes > 1_440) {
        "digest_minutes: at most 1440".to_owned()
    } else {
        return Ok(());
    };
    Err(Problem::new(Kind::InvalidBody, wrong))
}

/// Checks the least reports of a rule with this condition.
fn check_least_reports(condition: AlertCondition, least: Option<u32>) -> Result<(), Problem> {
    let Some(least) = least else { return Ok(()) };
    let wrong = if condition.usual_least_reports().is_none() {
        "least_reports: only with the conditions frequent_group, growing_group and widespread_group"
    } else if !(1..=1_000_000).contains(&least) {
        "least_reports: 1 to 1000000"
    } else {
        return Ok(());
    };
    Err(Problem::new(Kind::InvalidBody, wrong))
}

/// Checks the time at which a rule with this condition sends.
async fn check_schedule(
    store: &Store,
    condition: AlertCondition,
    schedule: Option<&SummarySchedule>,
) -> Result<(), Problem> {
    let Some(schedule) = schedule else { return Ok(()) };
    let wrong = if condition != AlertCondition::Summary {
        "summary: only with the condition summary"
    } else if schedule.hour > 23 {
        "summary.hour: 0 to 23"
    } else if !is_time_zone(store, &schedule.time_zone).await? {
        "summary.time_zone: a name of IANA's database, such as Europe/Oslo"
    } else {
        return Ok(());
    };
    Err(Problem::new(Kind::InvalidBody, wrong))
}

/// Checks the labels of a rule with this condition. A change names none: its rule is checked afterwards.
fn check_labels(condition: Option<AlertCondition>, labels: &[String]) -> Result<(), Problem> {
    let is_label = |label: &str| {
        let parts = label.split_once(':');
        is_text(label, MAX_LABEL_BYTES)
            && !label.contains(char::is_whitespace)
            && parts.is_some_and(|(word, value)| !word.is_empty() && !value.is_empty())
    };
    let unfit = condition.filter(|condition| !labels.is_empty() && !condition.can_have_labels());
    let wrong = if let Some(condition) = unfit {
        format!("labels: only with conditions about groups and summary, not with {condition}")
    } else if labels.len() > MAX_RULE_LABELS {
        format!("labels: {} are given; write at most {MAX_RULE_LABELS}", labels.len())
    } else if let Some(label) = labels.iter().find(|label| !is_label(label)) {
        let shown: String = label.chars().take(100).collect();
        format!("labels: {shown:?} is none; write a word, a colon and a value, such as owner:@example/cart")
    } else {
        return Ok(());
    };
    Err(Problem::new(Kind::InvalidBody, wrong))
}

/// Asks the recipients of a rule that have to confirm.
async fn ask_recipients(
    policy: &ReceiverPolicy,
    tx: &mut TenantTx,
    receiver: &AlertReceiver,
) -> Result<(), Problem> {
    if policy.mail.ask_receiver(tx, receiver).await? {
        return Ok(());
    }
    let detail = format!("a tenant has at most {MAX_UNCONFIRMED} recipients of mail that have not confirmed");
    Err(Problem::new(Kind::LimitReached, detail))
}

/// Returns a rule with the statuses of its recipients.
async fn describe_rule(
    policy: &ReceiverPolicy,
    tx: &mut TenantTx,
    rule: AlertRule,
) -> Result<AlertRule, Problem> {
    let mut rules = [rule];
    policy.mail.fill_recipients(tx, &mut rules).await?;
    policy.fill_hook_urls(&mut rules);
    let [rule] = rules;
    Ok(rule)
}

/// Checks the receiver of a rule's messages.
fn check_receiver(policy: &ReceiverPolicy, receiver: &AlertReceiver) -> Result<(), Problem> {
    wrong_receiver(policy, receiver).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))
}

fn wrong_receiver(policy: &ReceiverPolicy, receiver: &AlertReceiver) -> Result<(), String> {
    let AlertReceiver { channel, address, secret, template, content_type } = receiver;
    if *channel == AlertChannel::Kafka && !address.is_empty() {
        return Err("address: kafka has none".to_owned());
    }
    if *channel != AlertChannel::Kafka && !is_text(address.reveal(), 2_000) {
        return Err("address: 1 to 2000 bytes, no control characters".to_owned());
    }
    if secret.reveal().len() > 500 || secret.reveal().chars().any(char::is_control) {
        return Err("secret: at most 500 bytes, no control characters".to_owned());
    }
    if template.len() > 4_096 || template.contains('\0') {
        return Err("template: at most 4096 bytes, none of them NUL".to_owned());
    }
    if *channel != AlertChannel::Webhook && !template.is_empty() {
        return Err("template: only webhooks have one".to_owned());
    }
    if template.is_empty() && *content_type != TemplateType::Json {
        return Err("content_type: only with a template; the usual body is JSON".to_owned());
    }
    check_secret(*channel, secret)?;
    match channel {
        AlertChannel::Kafka => Ok(()),
        AlertChannel::Mail if !policy.sends_mail => {
            Err("channel: this service does not send mail; its operator sets api.alerts.smtp_url".to_owned())
        }
        AlertChannel::Mail => policy.mail.check_recipients(address),
        _ => check_url(address, &policy.allowed, SECTION)
            .map(drop)
            .map_err(|wrong| format!("address: {wrong}")),
    }
}
