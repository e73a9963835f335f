//! `/console/alerts`: the tenant's rules, and the alerts that it received.

use super::figure_form::{
    FigureSuggestions, comparison_word, describe_bound, escalates_to, firing_status, read_escalation,
    read_figure, usual_figure,
};
use crate::operations::firings::{acknowledge_alert_firing, list_alert_firings};
use crate::operations::list::list_alert_rules;
use crate::operations::messages::{AlertMessageQuery, list_alert_messages};
use crate::operations::{
    change_alert_rule, create_alert_rule, delete_alert_rule, send_alert_again, test_alert_rule,
};
use crate::receiver_policy::PolicyExtension;
use crate::store::figures::{AlertEscalation, FigureComparison, WatchedFigure};
use crate::store::firings::AlertFiring;
use crate::store::messages::{AlertStatus, ListedAlertMessage};
use crate::store::rules::{
    AlertChannel, AlertCondition, AlertRecipient, AlertRule, AlertRuleChange, NewAlertRule, RecipientStatus,
    TemplateType,
};
use crate::store::schedule::{QuietHours, SummarySchedule};
use crate::store::{AlertFiringId, AlertMessageId, AlertRuleId};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use time::{Duration, OffsetDateTime, Time};
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, JsonBody, Kind, MAX_LIMIT, PageQuery, Path, Problem, Query, TenantAdmin,
};
use unslide_model::Secret;
use unslide_site::{PageState, SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const ALERTS_PAGE: &str = "/console/alerts";
/// Firings that the page shows.
const SHOWN_FIRINGS: u32 = 20;
const MUTE_DURATION: Duration = Duration::hours(24);
/// Age up to which the newest message of a rule may be that of its test.
const TEST_LOOK_BACK: Duration = Duration::minutes(5);

#[derive(Template)]
#[template(path = "alerts/rules.html", askama = escaping)]
struct AlertsPage {
    shell: Shell,
    rules: Vec<AlertRule>,
    messages: Vec<ListedAlertMessage>,
    next: Option<String>,
    channels: Vec<AlertChannel>,
    only_app: Option<String>,
    test: Option<TestOutcome>,
    firings: Vec<AlertFiring>,
    /// The values of the fields of a new figure.
    usual_figure: WatchedFigure,
    suggestions: FigureSuggestions,
}

/// How far the test of a rule is.
struct TestOutcome {
    rule: String,
    /// The rule's newest message; `None` until it is made.
    message: Option<ListedAlertMessage>,
}

impl TestOutcome {
    /// Returns true if the page should look again.
    fn is_waiting(&self) -> bool {
        self.message
            .as_ref()
            .is_none_or(|message| message.status == AlertStatus::Waiting && message.last_error.is_none())
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = signed.access;
    let only_app = access.only_app().map(str::to_owned);
    // A tenant has fewer rules than a page can have.
    let all = PageQuery { limit: Some(MAX_LIMIT), cursor: None };
    let Json(rules) =
        list_alert_rules(State(storage.clone()), policy.clone(), access.clone(), Query(all)).await?;
    let query = AlertMessageQuery { cursor: state.get_text("cursor"), ..AlertMessageQuery::default() };
    let channels =
        AlertChannel::ALL.into_iter().filter(|one| *one != AlertChannel::Mail || policy.sends_mail);
    let channels = channels.collect();
    let Json(sent) = list_alert_messages(State(storage.clone()), access.clone(), Query(query)).await?;
    let tested = state.get_text("tested");
    let tested = tested.and_then(|id| rules.items.iter().find(|rule| rule.id.to_string() == id));
    let test = match tested {
        Some(rule) => Some(find_test(&storage, access.clone(), rule).await?),
        None => None,
    };
    let newest = PageQuery { limit: Some(SHOWN_FIRINGS), cursor: None };
    let Json(firings) = list_alert_firings(State(storage.clone()), access.clone(), Query(newest)).await?;
    let suggestions = FigureSuggestions::find(&storage, &access).await?;
    render_html(&AlertsPage {
        shell: Shell::for_viewer(signed.viewer, "alerts", "Alerts"),
        firings: firings.items,
        usual_figure: usual_figure(),
        suggestions,
        rules: rules.items,
        messages: sent.items,
        next: sent.next_cursor.map(|cursor| state.at_cursor(ALERTS_PAGE, &[], &cursor)),
        channels,
        only_app,
        test,
    })
}

/// Finds the message of the test that was just sent.
async fn find_test(
    storage: &Arc<Storage>,
    access: Access<TenantAdmin>,
    rule: &AlertRule,
) -> Result<TestOutcome, Problem> {
    let query = AlertMessageQuery { rule: Some(rule.id.to_string()), limit: Some(1), cursor: None };
    let Json(found) = list_alert_messages(State(storage.clone()), access, Query(query)).await?;
    let now = storage.clock.now();
    let is_new = |message: &ListedAlertMessage| now - message.created_at < TEST_LOOK_BACK;
    let message = found.items.into_iter().next().filter(is_new);
    Ok(TestOutcome { rule: rule.name.clone(), message })
}

fn condition_word(condition: AlertCondition) -> &'static str {
    match condition {
        AlertCondition::NewGroup => "a new group",
        AlertCondition::Regression => "a resolved group is back",
        AlertCondition::Spike => "many more reports than usual",
        AlertCondition::MissingSymbols => "symbols are missing",
        AlertCondition::CrashFree => "too many sessions crash",
        AlertCondition::FrequentGroup => "a group hits many sessions",
        AlertCondition::GrowingGroup => "a group grows",
        AlertCondition::WidespreadGroup => "a group is common in a version",
        AlertCondition::BadRelease => "a version is worse than the one before",
        AlertCondition::Figure => "a figure is bad",
        AlertCondition::Summary => "a time of the day: a summary",
    }
}

pub(super) fn channel_word(channel: AlertChannel) -> &'static str {
    match channel {
        AlertChannel::Webhook => "webhook",
        AlertChannel::Slack => "Slack",
        AlertChannel::Feishu => "Feishu or Lark",
        AlertChannel::Dingtalk => "DingTalk",
        AlertChannel::Wecom => "WeCom",
        AlertChannel::Teams => "Microsoft Teams",
        AlertChannel::Discord => "Discord",
        AlertChannel::GoogleChat => "Google Chat",
        AlertChannel::Pagerduty => "PagerDuty",
        AlertChannel::Opsgenie => "Opsgenie",
        AlertChannel::Mail => "mail",
        AlertChannel::Kafka => "topic crash.alerts",
    }
}

/// Returns the recipients that get no alerts, with the reason.
fn recipient_notes(rule: &AlertRule) -> Vec<String> {
    let note = |one: &AlertRecipient| match one.status {
        RecipientStatus::Allowed | RecipientStatus::Confirmed => None,
        RecipientStatus::Waiting => Some(format!("waiting for confirmation: {}", one.address)),
        RecipientStatus::Refused => Some(format!("wants no alerts: {}", one.address)),
    };
    rule.recipients.iter().filter_map(note).collect()
}

fn is_muted(rule: &AlertRule, now: OffsetDateTime) -> bool {
    rule.muted_until.is_some_and(|until| until > now)
}

fn rule_status(rule: &AlertRule, now: OffsetDateTime) -> (&'static str, &'static str, String) {
    match rule.muted_until.filter(|until| *until > now) {
        _ if !rule.enabled => ("", "○", "off".to_owned()),
        Some(until) => ("warn", "◐", format!("muted for {} h", (until - now).whole_hours() + 1)),
        None => ("good", "●", "on".to_owned()),
    }
}

/// Describes the threshold of a rule's condition.
fn threshold(rule: &AlertRule) -> String {
    match rule.condition {
        AlertCondition::NewGroup | AlertCondition::Regression | AlertCondition::BadRelease => String::new(),
        AlertCondition::Spike => format!(": {} times", rule.threshold),
        AlertCondition::MissingSymbols => format!(": {} reports or more", rule.threshold),
        AlertCondition::CrashFree => format!(": less than {} % crash-free", rule.threshold),
        AlertCondition::FrequentGroup => {
            format!(
                ": {} % of an hour's sessions, and {} reports or more",
                rule.threshold,
                least_reports(rule)
            )
        }
        AlertCondition::GrowingGroup => {
            format!(": {} times, and {} reports or more in an hour", rule.threshold, least_reports(rule))
        }
        AlertCondition::WidespreadGroup => {
            format!(
                ": {} % of a version's sessions, and {} reports or more",
                rule.threshold,
                least_reports(rule)
            )
        }
        AlertCondition::Summary => rule.summary.as_ref().map(describe_schedule).unwrap_or_default(),
        AlertCondition::Figure => {
            rule.figure.as_ref().map(|it| describe_bound(it, rule.threshold)).unwrap_or_default()
        }
    }
}

/// Describes when a rule sends its summary.
fn describe_schedule(schedule: &SummarySchedule) -> String {
    let days = if schedule.weekly { "Mondays" } else { "each day" };
    format!(": {days} at {}:00 {}", schedule.hour, schedule.time_zone)
}

/// Reads when a rule sends its summary. Returns `None` if no hour is named.
fn read_schedule(form: &SentForm) -> Result<Option<SummarySchedule>, Problem> {
    let Some(hour) = form.parse_number("summary_hour")? else { return Ok(None) };
    let usual = SummarySchedule::default();
    let time_zone = form.get("summary_zone").map_or(usual.time_zone, str::to_owned);
    Ok(Some(SummarySchedule { hour, time_zone, weekly: form.has_field("summary_weekly") }))
}

/// Reads the labels of a rule: no label has a space.
fn read_labels(form: &SentForm) -> Vec<String> {
    form.field_text("labels").split_whitespace().map(str::to_owned).collect()
}

/// Returns the reports that a group has in an hour at least.
fn least_reports(rule: &AlertRule) -> i32 {
    rule.least_reports.unwrap_or_default()
}

/// Describes which groups a rule is about, and when its messages are sent.
fn pace(rule: &AlertRule) -> String {
    let digest = (rule.digest_minutes > 0).then(|| format!("at most every {} min", rule.digest_minutes));
    let clock = time::macros::format_description!("[hour]:[minute]");
    let quiet = rule.quiet_hours.filter(|hours| hours.from != hours.to).map(|hours| {
        let [from, to] = [hours.from, hours.to].map(|time| time.format(clock).unwrap_or_default());
        format!("quiet {from} to {to} UTC")
    });
    let labels = (!rule.labels.is_empty()).then(|| format!("only {}", rule.labels.join(" or ")));
    [labels, digest, quiet].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn message_status(message: &ListedAlertMessage) -> (&'static str, &'static str, &'static str) {
    match message.status {
        AlertStatus::Waiting => ("warn", "◐", "waiting"),
        AlertStatus::Delivered => ("good", "●", "delivered"),
        AlertStatus::Failed => ("bad", "○", "given up"),
        AlertStatus::Muted => ("", "○", "muted"),
    }
}

pub async fn create_from_form(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let rule = NewAlertRule {
        name: form.field_text("name"),
        app: form.get("app").map(str::to_owned),
        condition: form.parse_word("condition")?,
        threshold: form.parse_number("threshold")?,
        least_reports: form.parse_number("least_reports")?,
        figure: read_figure(&form)?,
        summary: read_schedule(&form)?,
        labels: read_labels(&form),
        channel: form.parse_word("channel")?,
        address: Secret::new(form.field_text("address")),
        secret: Secret::new(form.field_text("secret")),
        template: form.field_text("template"),
        content_type: content_type(&form)?,
        digest_minutes: form.parse_number("digest_minutes")?.unwrap_or(0),
        quiet_hours: quiet_hours(&form)?,
        escalation: read_escalation(&form)?,
    };
    let _ = create_alert_rule(storage, policy, signed.access, JsonBody(rule)).await?;
    Ok(Redirect::to(ALERTS_PAGE).into_response())
}

fn content_type(form: &SentForm) -> Result<TemplateType, Problem> {
    if form.has_field("content_type") { form.parse_word("content_type") } else { Ok(TemplateType::default()) }
}

fn quiet_hours(form: &SentForm) -> Result<Option<QuietHours>, Problem> {
    let (Some(from), Some(to)) = (form.get("quiet_from"), form.get("quiet_to")) else { return Ok(None) };
    let hours = serde_json::json!({"from": from, "to": to});
    let read = serde_json::from_value(hours);
    read.map(Some).map_err(|_| Problem::new(Kind::InvalidBody, "quiet hours: times such as 22:00 and 07:00"))
}

/// `POST /console/alerts/{id}/{action}`: `test`, `mute`, `unmute`, `on`, `off`, `delete`.
pub async fn act_on_rule(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    Path((id, action)): Path<(AlertRuleId, String)>,
) -> Result<Response, Problem> {
    let (access, now, id) = (signed.access, storage.clock.now(), Path(id));
    let change = match action.as_str() {
        "test" => {
            let tested = format!("{ALERTS_PAGE}?tested={}", id.0);
            test_alert_rule(storage, policy, access, id).await?;
            return Ok(Redirect::to(&tested).into_response());
        }
        "delete" => {
            delete_alert_rule(storage, access, id).await?;
            return Ok(Redirect::to(ALERTS_PAGE).into_response());
        }
        "mute" => AlertRuleChange { muted_until: Some(now + MUTE_DURATION), ..AlertRuleChange::default() },
        "unmute" => AlertRuleChange { muted_until: Some(now), ..AlertRuleChange::default() },
        "on" | "off" => AlertRuleChange { enabled: Some(action == "on"), ..AlertRuleChange::default() },
        _ => return Err(Problem::new(Kind::NotFound, "alert rules have no such action")),
    };
    apply_change(storage, policy, access, id, change).await
}

/// Changes a rule, and shows all rules again.
async fn apply_change(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    access: Access<TenantAdmin>,
    id: Path<AlertRuleId>,
    change: AlertRuleChange,
) -> Result<Response, Problem> {
    let Json(_) = change_alert_rule(storage, policy, access, id, JsonBody(change)).await?;
    Ok(Redirect::to(ALERTS_PAGE).into_response())
}

/// `POST /console/alerts/{id}/rule`: changes everything of a rule but its condition and its receiver.
pub async fn change_rule(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    id: Path<AlertRuleId>,
    form: SentForm,
) -> Result<Response, Problem> {
    // Without both times there are no quiet hours.
    let none = QuietHours { from: Time::MIDNIGHT, to: Time::MIDNIGHT };
    let no_escalation = AlertEscalation { rule: id.0, minutes: 0 };
    let change = AlertRuleChange {
        name: Some(form.field_text("name")),
        app: form.has_field("app").then(|| form.field_text("app")),
        threshold: form.parse_number("threshold")?,
        least_reports: form.parse_number("least_reports")?,
        figure: read_figure(&form)?,
        summary: read_schedule(&form)?,
        labels: Some(read_labels(&form)),
        digest_minutes: Some(form.parse_number("digest_minutes")?.unwrap_or(0)),
        quiet_hours: Some(quiet_hours(&form)?.unwrap_or(none)),
        escalation: Some(read_escalation(&form)?.unwrap_or(no_escalation)),
        ..AlertRuleChange::default()
    };
    apply_change(storage, policy, signed.access, id, change).await
}

/// Returns true if the condition has a threshold.
fn has_threshold(condition: AlertCondition) -> bool {
    use AlertCondition::{NewGroup, Regression, Summary};
    !matches!(condition, NewGroup | Regression | Summary)
}

/// Returns the quiet hours of a rule as fields of a form have them.
fn quiet_fields(rule: &AlertRule) -> (String, String) {
    let clock = time::macros::format_description!("[hour]:[minute]");
    let hours = rule.quiet_hours.filter(|hours| hours.from != hours.to);
    let field = |at: Option<Time>| at.and_then(|at| at.format(clock).ok()).unwrap_or_default();
    (field(hours.map(|hours| hours.from)), field(hours.map(|hours| hours.to)))
}

/// `POST /console/alerts/{id}/receiver`: changes the receiver of a rule.
pub async fn change_receiver(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    id: Path<AlertRuleId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let change = AlertRuleChange {
        channel: Some(form.parse_word("channel")?),
        address: Secret::new(form.field_text("address")),
        secret: Secret::new(form.field_text("secret")),
        template: form.field_text("template"),
        content_type: content_type(&form)?,
        ..AlertRuleChange::default()
    };
    apply_change(storage, policy, signed.access, id, change).await
}

/// `POST /console/alerts/{id}/hook`: sets or removes the secret of the hooks of a pager.
pub async fn change_hook(
    storage: State<Arc<Storage>>,
    policy: PolicyExtension,
    signed: SignedIn<TenantAdmin>,
    id: Path<AlertRuleId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let hook_secret = Some(Secret::new(form.field_text("hook_secret")));
    let change = AlertRuleChange { hook_secret, ..AlertRuleChange::default() };
    apply_change(storage, policy, signed.access, id, change).await
}

pub async fn send_from_form(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    id: Path<AlertMessageId>,
) -> Result<Response, Problem> {
    send_alert_again(storage, signed.access, id).await?;
    Ok(Redirect::to(ALERTS_PAGE).into_response())
}

pub async fn acknowledge_from_form(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    id: Path<AlertFiringId>,
) -> Result<Response, Problem> {
    let Json(_) = acknowledge_alert_firing(storage, signed.access, id).await?;
    Ok(Redirect::to(ALERTS_PAGE).into_response())
}
