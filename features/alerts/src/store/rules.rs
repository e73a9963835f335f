//! Rules: the events that a tenant wants to be notified of, and the receivers.

use super::AlertRuleId;
use super::figures::{AlertEscalation, WatchedFigure};
use super::schedule::{QuietHours, SummarySchedule};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::{Secret, timestamp};
use unslide_store::sql::words;
use utoipa::ToSchema;

/// Rules that a tenant may have.
pub const MOST_RULES: i64 = 100;

words! {
    /// The condition that a rule watches.
    pub enum AlertCondition {
        /// A bug that was not known.
        NewGroup = "new_group",
        /// A resolved bug that is back in a newer version.
        Regression = "regression",
        /// Many more reports of an app in an hour than in its usual one.
        Spike = "spike",
        /// Reports that lack symbols of an app's own image.
        MissingSymbols = "missing_symbols",
        /// Too many sessions of a version crash.
        CrashFree = "crash_free",
        /// A bug that hits too many of an hour's sessions.
        FrequentGroup = "frequent_group",
        /// A bug with many more reports in an hour than in the same hour of the days before.
        GrowingGroup = "growing_group",
        /// A bug that hits too many sessions of a version.
        WidespreadGroup = "widespread_group",
        /// A version that is worse than the one before it.
        BadRelease = "bad_release",
        /// A figure of an app beyond a threshold, or worse than before.
        Figure = "figure",
        /// A time of the day: what happened since the last one.
        Summary = "summary",
    }
}

impl AlertCondition {
    /// Returns the default threshold: how many times the usual hour a spike or a growing group has, how many reports lack
    /// symbols, the least share of sessions without a crash, or the share of sessions that a group hits, in per cent.
    #[must_use]
    pub fn usual_threshold(self) -> f64 {
        match self {
            AlertCondition::NewGroup
            | AlertCondition::Regression
            | AlertCondition::BadRelease
            | AlertCondition::Figure
            | AlertCondition::Summary => 0.0,
            AlertCondition::Spike | AlertCondition::GrowingGroup => 3.0,
            AlertCondition::FrequentGroup | AlertCondition::WidespreadGroup => 0.5,
            AlertCondition::MissingSymbols => 1.0,
            AlertCondition::CrashFree => 99.0,
        }
    }

    /// Returns true if a rule with this condition may be limited to groups with labels.
    #[must_use]
    pub fn can_have_labels(self) -> bool {
        match self {
            AlertCondition::NewGroup
            | AlertCondition::Regression
            | AlertCondition::FrequentGroup
            | AlertCondition::GrowingGroup
            | AlertCondition::WidespreadGroup
            | AlertCondition::Summary => true,
            AlertCondition::Spike
            | AlertCondition::MissingSymbols
            | AlertCondition::CrashFree
            | AlertCondition::BadRelease
            | AlertCondition::Figure => false,
        }
    }

    /// Returns the reports that a group has at least, in an hour or in a version, if the condition is about such groups.
    #[must_use]
    pub fn usual_least_reports(self) -> Option<u32> {
        match self {
            AlertCondition::FrequentGroup => Some(100),
            AlertCondition::GrowingGroup | AlertCondition::WidespreadGroup => Some(20),
            _ => None,
        }
    }
}

words! {
    /// How a message is delivered.
    pub enum AlertChannel {
        /// A POST of JSON, signed as Standard Webhooks has it.
        Webhook = "webhook",
        /// An incoming webhook of Slack, or of what speaks like it.
        Slack = "slack",
        /// A custom bot of Feishu or Lark.
        Feishu = "feishu",
        /// A custom robot of DingTalk.
        Dingtalk = "dingtalk",
        /// A group robot of WeCom.
        Wecom = "wecom",
        /// A workflow of Microsoft Teams that posts what its webhook gets.
        Teams = "teams",
        /// A webhook of a Discord channel.
        Discord = "discord",
        /// A webhook of a Google Chat space.
        GoogleChat = "google_chat",
        /// A service of PagerDuty, by its Events API v2.
        Pagerduty = "pagerduty",
        /// A team of Opsgenie, by its Alert API.
        Opsgenie = "opsgenie",
        Mail = "mail",
        /// A record of the topic `crash.alerts`.
        Kafka = "kafka",
    }
}

impl AlertChannel {
    /// Returns true if webhooks of the product tell of acknowledgements.
    #[must_use]
    pub fn is_pager(self) -> bool {
        matches!(self, AlertChannel::Pagerduty | AlertChannel::Opsgenie)
    }

    /// Returns the address of a receiver that names none.
    #[must_use]
    pub fn usual_address(self) -> &'static str {
        match self {
            AlertChannel::Pagerduty => "https://events.pagerduty.com/v2/enqueue",
            AlertChannel::Opsgenie => "https://api.opsgenie.com",
            _ => "",
        }
    }
}

words! {
    /// The content type of a webhook's body, which decides how values in a template are escaped.
    #[derive(Default)]
    pub enum TemplateType {
        #[default]
        Json = "application/json",
        /// The fields of a form.
        Form = "application/x-www-form-urlencoded",
    }
}

words! {
    /// Whether alerts are sent to a recipient of mail.
    pub enum RecipientStatus {
        /// The operator allows its domain. No row says so.
        Allowed = "allowed",
        /// It was asked, and gets no alerts until it has confirmed.
        Waiting = "waiting_for_confirmation",
        Confirmed = "confirmed",
        Refused = "refused",
    }
}

/// A recipient of alerts by mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AlertRecipient {
    /// Mail address of the recipient.
    #[schema(example = "team@example.com")]
    pub address: String,
    /// `allowed` by the operator, `waiting_for_confirmation`, `confirmed` or `refused`.
    #[schema(value_type = String, example = "confirmed")]
    pub status: RecipientStatus,
}

impl NewAlertRule {
    /// Returns when it sends, if its condition is a time.
    #[must_use]
    pub fn schedule(&self) -> Option<SummarySchedule> {
        let is_timed = self.condition == AlertCondition::Summary;
        is_timed.then(|| self.summary.clone().unwrap_or_default())
    }
}

/// A rule to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAlertRule {
    /// Name of the rule, for people.
    #[schema(min_length = 1, max_length = 200, example = "new bugs of the shop")]
    pub name: String,
    /// The only app (bundle identifier) that the rule watches; all apps if absent.
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// `new_group`, `regression`, `spike`, `missing_symbols`, `crash_free`, `frequent_group`, `growing_group`,
    /// `widespread_group`, `bad_release`, `figure` or `summary`.
    #[schema(value_type = String, example = "new_group")]
    pub condition: AlertCondition,
    /// Of `spike`: how many times the crashes of a usual hour; 3 if absent. Of `missing_symbols`: reports that wait
    /// for them; 1. Of `crash_free`: the least share of a day's sessions without a crash, in per cent; 99. Of `frequent_group`:
    /// the share of an hour's sessions that a group hits, in per cent; 0.5. Of `growing_group`: how many times the reports of the
    /// same hour of the days before; 3. Of `widespread_group`: the share of a version's sessions in seven days that a group hits, in
    /// per cent; 0.5. Of `figure`: its
    /// bound in the figure's unit, 0 to 1 for shares, or its burn rate; needed unless it is compared with what was before.
    pub threshold: Option<f64>,
    /// Of `frequent_group` and `growing_group`: reports that a group has in the hour at least; 100 and 20 if absent. Of
    /// `widespread_group`: those that it has in the version; 20.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub least_reports: Option<u32>,
    /// The figure that a rule with the condition `figure` watches. Such a rule has an app.
    pub figure: Option<WatchedFigure>,
    /// When a rule with the condition `summary` sends; each day at 9:00 (UTC) if absent.
    pub summary: Option<SummarySchedule>,
    /// Labels of which a group has one, such as `owner:@example/cart`, or `owner:none` for groups without an owner; all groups if
    /// empty. For conditions about groups, with events that wait up to five minutes for the labels of a new group, and for `summary`.
    #[schema(max_items = 20, example = json!(["owner:@example/cart"]))]
    #[serde(default)]
    pub labels: Vec<String>,
    /// `webhook`, `slack`, `feishu`, `dingtalk`, `wecom`, `teams`, `discord`, `google_chat`, `pagerduty`, `opsgenie`, `mail`
    /// or `kafka`.
    #[schema(value_type = String, example = "webhook")]
    pub channel: AlertChannel,
    /// The URL of the receiver; for `mail` the recipients, at most 10, separated by commas; for `kafka` empty. Pagers have a
    /// usual one. Answers never have it in full.
    #[schema(value_type = Option<String>, max_length = 2000, example = "https://alerts.example.com/unslide")]
    #[serde(default)]
    pub address: Secret,
    /// Secret that signs messages. For webhooks: `whsec_` and base64; for Feishu and DingTalk: the secret that they
    /// show; for PagerDuty and Opsgenie: the key of the integration. No answer has it.
    #[schema(value_type = Option<String>, max_length = 500)]
    #[serde(default)]
    pub secret: Secret,
    /// The body of a webhook in which `{{headline}}`, `{{detail}}`, `{{app}}`, `{{version}}`, `{{link}}`, `{{count}}`,
    /// `{{text}}`, `{{rule}}`, `{{condition}}`, `{{group}}`, `{{short_id}}`, `{{reports}}`, `{{devices}}` and `{{mute_link}}` are replaced, escaped for its content type; a JSON document that describes all if absent.
    #[schema(max_length = 4096)]
    #[serde(default)]
    pub template: String,
    /// Media type of `template`: `application/json`, which is the default, or
    /// `application/x-www-form-urlencoded`.
    #[schema(value_type = Option<String>, example = "application/json")]
    #[serde(default)]
    pub content_type: TemplateType,
    /// Least minutes between two messages. The next message has all events in between. 0 if absent.
    #[schema(maximum = 1440)]
    #[serde(default)]
    pub digest_minutes: u16,
    /// Hours in which nothing is sent.
    pub quiet_hours: Option<QuietHours>,
    /// A second receiver, if no person acknowledges in time.
    pub escalation: Option<AlertEscalation>,
}

/// The receiver of a rule's messages.
#[derive(Clone, Debug)]
pub struct AlertReceiver {
    pub channel: AlertChannel,
    /// The address that they go to.
    pub address: Secret,
    /// Signs them; empty for none.
    pub secret: Secret,
    /// The body of a webhook; empty for the usual one.
    pub template: String,
    /// The content type of the template.
    pub content_type: TemplateType,
}

impl NewAlertRule {
    /// Returns its second receiver.
    #[must_use]
    pub fn second_receiver(&self) -> Option<AlertEscalation> {
        self.escalation.or_else(|| self.figure.as_ref().and_then(|figure| figure.escalation))
    }

    /// Returns the receiver of its messages.
    #[must_use]
    pub fn to_receiver(&self) -> AlertReceiver {
        let NewAlertRule { channel, address, secret, template, content_type, .. } = self.clone();
        AlertReceiver { channel, address, secret, template, content_type }
    }
}

impl AlertRuleChange {
    /// Returns the new second receiver, with no minutes for none. Returns `None` if it does not change.
    #[must_use]
    pub fn second_receiver(&self) -> Option<AlertEscalation> {
        self.escalation.or_else(|| self.figure.as_ref().and_then(|figure| figure.escalation))
    }

    /// Returns true if a receiver has fields besides its channel.
    #[must_use]
    pub fn names_parts_of_a_receiver(&self) -> bool {
        let texts = [self.address.reveal(), self.secret.reveal(), self.template.as_str()];
        texts.iter().any(|text| !text.is_empty()) || self.content_type != TemplateType::default()
    }

    /// Returns the new receiver of its messages. Returns `None` if the receiver does not change.
    #[must_use]
    pub fn to_receiver(&self) -> Option<AlertReceiver> {
        let AlertRuleChange { channel, address, secret, template, content_type, .. } = self.clone();
        channel.map(|channel| AlertReceiver { channel, address, secret, template, content_type })
    }
}

/// Changes of a rule. Absent fields do not change.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlertRuleChange {
    /// Name of the rule, for people.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The only app that the rule watches from now on; empty for all apps.
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// New threshold, as in [`NewAlertRule`]; absent for no change.
    pub threshold: Option<f64>,
    /// See [`NewAlertRule`].
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub least_reports: Option<u32>,
    /// Another figure, of a rule with the condition `figure`. It replaces the whole one.
    pub figure: Option<WatchedFigure>,
    /// Another time, of a rule with the condition `summary`.
    pub summary: Option<SummarySchedule>,
    /// Other labels, as in [`NewAlertRule`]; an empty list for all groups.
    #[schema(max_items = 20)]
    pub labels: Option<Vec<String>>,
    /// False: nothing new fulfils it. Waiting messages are still sent.
    pub enabled: Option<bool>,
    /// Until then its messages are noted and not sent. A time in the past ends it.
    #[serde(deserialize_with = "timestamp::deserialize")]
    pub muted_until: Option<OffsetDateTime>,
    /// New digest interval in minutes, as in [`NewAlertRule`].
    #[schema(maximum = 1440)]
    pub digest_minutes: Option<u16>,
    /// See [`NewAlertRule`]. Equal ends: none.
    pub quiet_hours: Option<QuietHours>,
    /// Another second receiver; with 0 minutes none.
    pub escalation: Option<AlertEscalation>,
    /// Another receiver, with its `address`, `secret`, `template` and `content_type`: those of the one before are not
    /// kept. Waiting messages go to the new one.
    #[schema(value_type = Option<String>, example = "webhook")]
    pub channel: Option<AlertChannel>,
    /// See [`NewAlertRule`]. Only with `channel`.
    #[schema(value_type = Option<String>, max_length = 2000)]
    pub address: Secret,
    /// See [`NewAlertRule`]. Only with `channel`.
    #[schema(value_type = Option<String>, max_length = 500)]
    pub secret: Secret,
    /// See [`NewAlertRule`]. Only with `channel`.
    #[schema(max_length = 4096)]
    pub template: String,
    /// See [`NewAlertRule`]. Only with `channel`.
    #[schema(value_type = Option<String>, example = "application/json")]
    pub content_type: TemplateType,
    /// Of `pagerduty` the secret of its webhook, of `opsgenie` the token in the header `Authorization` of its webhook: what these say was
    /// acknowledged there is acknowledged. At least 16 characters; empty for none. Another receiver has none. No answer has it.
    #[schema(value_type = Option<String>, max_length = 500)]
    pub hook_secret: Option<Secret>,
}

/// A rule, without its secrets.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AlertRule {
    /// Id of the rule, to change or delete it.
    #[schema(value_type = Uuid)]
    pub id: AlertRuleId,
    /// Name of the rule, for people.
    pub name: String,
    /// The only app (bundle identifier) that the rule watches; absent if it watches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Condition that fulfils the rule, such as `new_group`.
    #[schema(value_type = String, example = "new_group")]
    pub condition: AlertCondition,
    /// Threshold of the condition, in the condition's unit.
    pub threshold: f64,
    /// Of `frequent_group` and `growing_group`: reports that a group has in the hour at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_reports: Option<i32>,
    /// The figure that it watches, if its condition is `figure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<WatchedFigure>,
    /// When it sends, if its condition is `summary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummarySchedule>,
    /// Labels of which a group has one; absent if it is about all groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub labels: Vec<String>,
    /// Channel of its messages, such as `webhook`.
    #[schema(value_type = String, example = "webhook")]
    pub channel: AlertChannel,
    /// Receiver of the messages: of a URL, its scheme and host.
    #[schema(example = "https://alerts.example.com/…")]
    pub address: String,
    /// Of `mail`: the recipients, and whether alerts are sent to them.
    #[schema(max_items = 10)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<AlertRecipient>,
    /// True if its messages are signed, or sent with a key.
    pub signed: bool,
    /// Of a pager: the address for its webhook, which acknowledges firings once the rule has a `hook_secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        example = "https://crashes.example.com/v1/hooks/alerts/acme.5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"
    )]
    pub hook_url: Option<String>,
    /// True if a hook of its pager acknowledges firings.
    pub takes_hooks: bool,
    /// False: nothing new fulfils it.
    pub enabled: bool,
    /// Until then its messages are not sent.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<OffsetDateTime>,
    /// The least minutes between two messages.
    pub digest_minutes: i32,
    /// Hours in which nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    /// The second receiver, if no person acknowledges in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation: Option<AlertEscalation>,
    /// When the rule was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// Returns an address as it may be shown: the part after a URL's host is a secret.
pub fn mask_address(channel: AlertChannel, address: &str) -> String {
    if matches!(channel, AlertChannel::Mail | AlertChannel::Kafka) {
        return address.to_owned();
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/…")
}

/// A rule that is evaluated.
pub(super) struct DueRule {
    pub id: AlertRuleId,
    pub app: Option<String>,
    pub threshold: f64,
    /// The reports that a group has at least, in an hour or in a version; 0 for other conditions.
    pub least_reports: i32,
    /// The labels of which a group has one; empty for all groups.
    pub labels: Vec<String>,
    pub created_at: OffsetDateTime,
    /// The minutes until a second receiver gets a firing, if the rule has one.
    pub escalate_minutes: Option<i32>,
    /// When it sends, if its condition is a time.
    pub summary: Option<SummarySchedule>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_host_of_an_address_is_not_shown() {
        for (channel, address, expected) in [
            (
                AlertChannel::Slack,
                "https://hooks.example.com/services/T0/B0/x",
                "https://hooks.example.com/…",
            ),
            (AlertChannel::Webhook, "https://user:word@example.com:8443?key=1", "https://example.com:8443/…"),
            (AlertChannel::Mail, "a@example.com, b@example.com", "a@example.com, b@example.com"),
        ] {
            assert_eq!(mask_address(channel, address), expected);
        }
    }
}
