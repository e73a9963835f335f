//! Messages about the events of a rule, and their outcomes.

use super::events::FiringStep;
use super::events::{AlertEvent, AlertGroup, EventFiring, EventReason, SENT_GROUP, TEST};
use super::firings::begin_for_message;
use super::receivers::SealedReceiver;
use super::rules::{AlertChannel, AlertCondition, TemplateType};
use super::schedule::quiet_hours;
use super::{AlertFiringId, AlertMessageId, AlertRuleId};
use crate::message_link::{acknowledge_path, mute_path};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::tenant_turns::{BACKOFF_MAX, retry_pause};
use unslide_model::Secret;
use unslide_store::sql::words;
use unslide_store::{GroupId, Result, TenantTx};
use utoipa::ToSchema;

/// The least time between two messages of a rule.
const MESSAGE_INTERVAL: Duration = Duration::seconds(10);
/// How long a sender has for a message before another one sends it again.
pub const SEND_LEASE_TIMEOUT: Duration = Duration::minutes(1);
/// How often a message is tried: for about 22 hours.
pub const MOST_ATTEMPTS: i32 = 11;
/// Events that one message takes; further ones wait for the next.
const MOST_EVENTS: i64 = 10_000;
/// Events that a message names.
const NAMED_EVENTS: i64 = 20;
/// Bytes of a receiver's answer or of an error that are kept.
const LONGEST_ERROR: usize = 500;

words! {
    /// How far a message is.
    pub enum AlertStatus {
        /// It is sent, or sent again, when it is due.
        Waiting = "waiting",
        Delivered = "delivered",
        Failed = "failed",
        Muted = "muted",
    }
}

/// A message as the log of deliveries shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AlertMessage)]
pub struct ListedAlertMessage {
    /// Its id, which the receiver gets with every attempt.
    #[schema(value_type = Uuid)]
    pub id: AlertMessageId,
    /// Id of the rule that made the message.
    #[schema(value_type = Uuid)]
    pub rule: AlertRuleId,
    /// Name of that rule, for people.
    pub rule_name: String,
    /// `waiting`, `delivered`, `failed` or `muted`.
    #[schema(value_type = String, example = "delivered")]
    pub status: AlertStatus,
    /// Headline of its first event, in one line.
    pub headline: String,
    /// Number of events that the message lists.
    pub events: i64,
    /// Number of attempts to send it so far.
    pub attempts: i32,
    /// Error of the last failed attempt; absent if none failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When the message was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it is tried next, while it waits.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub due_at: Option<OffsetDateTime>,
    /// When the receiver took it.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<OffsetDateTime>,
    /// Of a test: what was sent in the last attempt, without the secrets of the receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_request: Option<String>,
    /// Of a test: the HTTP status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_status: Option<i32>,
    /// Of a test: the text of the answer; absent for a receiver in one of the operator's networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_answer: Option<String>,
}

/// A message that this process sends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedAlertMessage {
    pub id: AlertMessageId,
    /// Which attempt this is, from 1.
    pub attempt: i32,
    pub created_at: OffsetDateTime,
    pub rule: AlertRuleId,
    pub rule_name: String,
    /// The condition that its events fulfil, except tests.
    pub condition: AlertCondition,
    pub channel: AlertChannel,
    /// The address that it goes to.
    pub address: Secret,
    /// The secret that signs it; empty for none.
    pub secret: Secret,
    /// The address and the secret, if they are encrypted: [`ClaimedAlertMessage::address`] is what may be shown.
    pub sealed: Option<SealedReceiver>,
    /// The body of a webhook; empty for the usual one.
    pub template: String,
    /// The content type of the template.
    pub content_type: TemplateType,
    /// The path of the page that mutes the rule.
    pub mute_path: Option<String>,
    /// Events that it tells of.
    pub events: i64,
    /// The first of them, at most 20.
    pub named: Vec<AlertEvent>,
}

/// An attempt to deliver a message, without its secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertExchange {
    /// The request with its headers and its body, the mail, or the record; empty if nothing was sent.
    pub request: String,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// The text of the answer, as far as it is known; empty if it is in one of the operator's networks.
    pub answer: String,
}

/// A failed attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The reason, for the tenant.
    pub text: String,
    /// True if no later attempt can succeed.
    pub is_final: bool,
    /// The pause that the receiver asks for.
    pub pause: Option<Duration>,
}

impl From<String> for DeliveryFailure {
    fn from(text: String) -> DeliveryFailure {
        DeliveryFailure { text, is_final: false, pause: None }
    }
}

/// Puts the events of a rule that wait into a message, unless it is too early for one. Returns whether there is one.
pub async fn collect_events(tx: &mut TenantTx, rule: AlertRuleId) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT muted_until, digest_minutes, quiet_from, quiet_to, condition AS "condition: AlertCondition",
                  CASE WHEN escalate_to IS NOT NULL THEN escalate_minutes END AS escalate_minutes
           FROM alert_rules
           WHERE tenant = $1 AND id = $2 AND next_message_at <= $3 FOR NO KEY UPDATE SKIP LOCKED"#,
        tenant,
        rule as AlertRuleId,
        now
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(found) = found else { return Ok(false) };
    let quiet_until = quiet_hours(found.quiet_from, found.quiet_to).and_then(|hours| hours.end_after(now));
    let next = quiet_until
        .unwrap_or_else(|| now + MESSAGE_INTERVAL.max(Duration::minutes(found.digest_minutes.into())));
    sqlx::query!(
        "UPDATE alert_rules SET next_message_at = $3 WHERE tenant = $1 AND id = $2",
        tenant,
        rule as AlertRuleId,
        next
    )
    .execute(&mut *connection)
    .await?;
    if quiet_until.is_some() {
        return Ok(false);
    }
    let muted = found.muted_until.is_some_and(|until| until > now);
    let status = if muted { AlertStatus::Muted } else { AlertStatus::Waiting };
    // If the cause of an event changes at the same time, the event waits for the next message, and is not
    // counted here.
    let message = sqlx::query_scalar!(
        r#"WITH message AS MATERIALIZED (SELECT unslide_uuid($3) AS id), collected AS (
             UPDATE alert_events e SET message = message.id, group_id = waiting.group_id,
                    group_reports = waiting.reports, group_devices = waiting.devices
             FROM message, (SELECT w.cause, g.id AS group_id, g.reports, g.devices FROM alert_events w
                            LEFT JOIN LATERAL (SELECT substring(w.path FROM
                                '^/console/groups/([0-9a-f-]{36})$')::uuid AS id) p ON true
                            LEFT JOIN group_redirects r ON r.tenant = $1 AND r.id = p.id
                            LEFT JOIN groups g ON g.tenant = $1 AND g.id = coalesce(r.target, p.id)
                            WHERE w.tenant = $1 AND w.rule = $2 AND w.message IS NULL AND w.route_at IS NULL AND NOT w.dropped
                            ORDER BY w.occurred_at, w.headline, w.path, w.cause LIMIT $5) waiting
             WHERE e.tenant = $1 AND e.rule = $2 AND e.cause = waiting.cause
             RETURNING e.message
         )
         INSERT INTO alert_messages (id, tenant, rule, status, events, due_at, created_at)
         SELECT message, $1, $2, $4, count(*), $3, $3 FROM collected GROUP BY message RETURNING id AS "id: AlertMessageId""#,
        tenant,
        rule as AlertRuleId,
        now,
        status.as_str(),
        MOST_EVENTS
    )
    .fetch_optional(connection)
    .await?;
    // The receiver of a muted rule gets nothing, so the second one does not, either.
    if let (Some(message), Some(minutes), false) = (message, found.escalate_minutes, muted)
        && found.condition != AlertCondition::Figure
    {
        begin_for_message(tx, rule, message, minutes).await?;
    }
    Ok(true)
}

/// Takes a message of a rule that is due, for [`SEND_LEASE_TIMEOUT`]: commit before it is sent.
pub async fn claim_message(tx: &mut TenantTx, rule: AlertRuleId) -> Result<Option<ClaimedAlertMessage>> {
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        r#"UPDATE alert_messages m SET attempts = m.attempts + 1, due_at = $4
           FROM alert_rules r
           WHERE m.tenant = $1 AND r.tenant = $1 AND r.id = m.rule AND m.id = (
               SELECT n.id FROM alert_messages n
               WHERE n.tenant = $1 AND n.rule = $2 AND n.status = 'waiting' AND n.due_at <= $3
               ORDER BY n.due_at, n.id LIMIT 1 FOR UPDATE SKIP LOCKED)
           RETURNING m.id AS "id: AlertMessageId", m.attempts, m.created_at, m.events, r.name,
                     r.condition AS "condition: AlertCondition", r.channel AS "channel: AlertChannel", r.address,
                     r.secret, r.sealed_address, r.sealed_secret, r.link_key, r.template, r.content_type AS "content_type: TemplateType""#,
        tenant,
        rule as AlertRuleId,
        now,
        now + SEND_LEASE_TIMEOUT
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let named = list_events(tx, row.id).await?;
    let mute_path = mute_path(tx.parts().1, rule, row.created_at, &row.link_key);
    Ok(Some(ClaimedAlertMessage {
        id: row.id,
        attempt: row.attempts,
        created_at: row.created_at,
        rule,
        rule_name: row.name,
        condition: row.condition,
        channel: row.channel,
        sealed: row.sealed_address.map(|address| SealedReceiver {
            address,
            secret: row.sealed_secret,
            shown_address: row.address.clone(),
        }),
        address: Secret::new(row.address),
        secret: Secret::new(row.secret),
        template: row.template,
        content_type: row.content_type,
        mute_path,
        events: row.events,
        named,
    }))
}

/// Returns the first events of a message, at most [`NAMED_EVENTS`], with their groups as they were when the message was
/// made, so that every attempt sends the same. A test comes after what happened.
async fn list_events(tx: &mut TenantTx, message: AlertMessageId) -> Result<Vec<AlertEvent>> {
    let (connection, tenant, _) = tx.parts();
    let named_tenant = tenant.to_owned();
    let rows = sqlx::query!(
        r#"SELECT e.occurred_at, e.headline, e.detail, e.app, e.version, e.path, e.cause = $4 AS "is_test!",
                  starts_with(e.cause, $5) AS "is_sent!",
                  e.group_id AS "group_id: GroupId", e.group_reports, e.group_devices, split_part(e.cause, ':', 1) AS "step!",
                  e.firing IS NOT NULL AS "begins!", f.id AS "firing?: AlertFiringId", f.began_at AS "began_at?",
                  f.link_key AS "link_key?", r.id AS "firing_rule?: AlertRuleId", r.name AS "firing_rule_name?",
                  r.condition AS "firing_condition?: AlertCondition",
                  (SELECT s.short_id FROM group_short_ids s
                   WHERE s.tenant = $1 AND s.group_id = e.group_id) AS short_id
           FROM alert_events e
           LEFT JOIN alert_firings f ON f.tenant = $1 AND f.id = CASE
               WHEN e.firing IS NOT NULL THEN e.firing
               WHEN split_part(e.cause, ':', 1) = ANY ($6) THEN split_part(e.cause, ':', 2)::uuid END
           LEFT JOIN alert_rules r ON r.tenant = $1 AND r.id = f.rule
           WHERE e.tenant = $1 AND e.message = $2
           ORDER BY e.cause = $4, e.occurred_at, e.headline, e.path, e.cause LIMIT $3"#,
        tenant,
        message as AlertMessageId,
        NAMED_EVENTS,
        TEST,
        SENT_GROUP,
        &FiringStep::ALL.map(|step| step.as_str().to_owned())
    )
    .fetch_all(connection)
    .await?;
    let events = rows.into_iter().map(|row| AlertEvent {
        occurred_at: row.occurred_at,
        headline: row.headline,
        detail: row.detail,
        app: row.app,
        version: row.version,
        path: row.path,
        reason: match (row.is_test, row.is_sent) {
            (true, _) => EventReason::Test,
            (_, true) => EventReason::Sent,
            _ => EventReason::Condition,
        },
        group: row.group_id.map(|id| AlertGroup {
            id,
            short_id: row.short_id,
            reports: row.group_reports.unwrap_or(0),
            devices: row.group_devices.unwrap_or(0),
        }),
        firing: row.firing.zip(row.firing_rule).zip(row.firing_condition).and_then(
            |((id, rule), condition)| {
                let step = if row.begins { FiringStep::Began } else { FiringStep::parse(&row.step)? };
                let began_at = row.began_at.unwrap_or(row.occurred_at);
                let is_open = matches!(step, FiringStep::Began | FiringStep::Escalated);
                let key = row.link_key.filter(|_| is_open);
                let acknowledge_path =
                    key.and_then(|key| acknowledge_path(&named_tenant, id, began_at, &key));
                let rule_name = row.firing_rule_name.unwrap_or_default();
                Some(EventFiring { id, rule, rule_name, condition, step, acknowledge_path })
            },
        ),
    });
    Ok(events.collect())
}

/// Notes how an attempt ended. One that failed is repeated later, up to [`MOST_ATTEMPTS`], unless the failure is final.
pub async fn finish_attempt(
    tx: &mut TenantTx,
    message: &ClaimedAlertMessage,
    outcome: std::result::Result<(), &DeliveryFailure>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let status = match outcome {
        Ok(()) => AlertStatus::Delivered,
        Err(failure) if failure.is_final || message.attempt >= MOST_ATTEMPTS => AlertStatus::Failed,
        Err(_) => AlertStatus::Waiting,
    };
    let failure = outcome.err();
    let error =
        failure.map(|failure| failure.text.chars().take(LONGEST_ERROR).collect::<String>().replace('\0', ""));
    let asked = failure.and_then(|failure| failure.pause).unwrap_or_default().min(BACKOFF_MAX);
    sqlx::query!(
        "UPDATE alert_messages
         SET status = $4, due_at = $5, last_error = $6, delivered_at = CASE WHEN $4 = 'delivered' THEN $7::timestamptz END
         WHERE tenant = $1 AND id = $2 AND attempts = $3 AND status = 'waiting'",
        tenant,
        message.id as AlertMessageId,
        message.attempt,
        status.as_str(),
        now + retry_pause(message.attempt).max(asked),
        error,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records what was sent for a test, and what was answered.
pub async fn record_test(
    tx: &mut TenantTx,
    message: &ClaimedAlertMessage,
    exchange: &AlertExchange,
) -> Result<()> {
    let stored = |text: &str| (!text.is_empty()).then(|| text.replace('\0', ""));
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_messages SET test_request = $3, test_status = $4, test_answer = $5 WHERE tenant = $1 AND id = $2",
        tenant,
        message.id as AlertMessageId,
        stored(&exchange.request),
        exchange.status.map(i32::from),
        stored(&exchange.answer)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the messages of the transaction's tenant, the newest first, from the one after `after` on: its
/// time and its id. With `rule` those of this rule, with `app` those of this app's rules.
pub async fn list_messages(
    tx: &mut TenantTx,
    rule: Option<AlertRuleId>,
    app: Option<&str>,
    after: Option<(OffsetDateTime, AlertMessageId)>,
    limit: u32,
) -> Result<Vec<ListedAlertMessage>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(sqlx::query_as!(
        ListedAlertMessage,
        r#"SELECT m.id AS "id: AlertMessageId", m.rule AS "rule: AlertRuleId", r.name AS rule_name, m.status AS "status: AlertStatus", m.events, m.attempts, m.last_error,
                  m.created_at, CASE WHEN m.status = 'waiting' THEN m.due_at END AS due_at, m.delivered_at,
                  m.test_request, m.test_status, m.test_answer,
                  coalesce((SELECT e.headline FROM alert_events e WHERE e.tenant = m.tenant AND e.message = m.id
                            ORDER BY e.cause = $7, e.occurred_at, e.headline, e.path, e.cause LIMIT 1), '') AS "headline!"
           FROM alert_messages m JOIN alert_rules r ON r.tenant = m.tenant AND r.id = m.rule
           WHERE m.tenant = $1 AND ($2::uuid IS NULL OR m.rule = $2) AND ($3::text IS NULL OR r.app = $3)
             AND ($4::timestamptz IS NULL OR (m.created_at, m.id) < ($4, $5::uuid))
           ORDER BY m.created_at DESC, m.id DESC LIMIT $6"#,
        tenant,
        rule as Option<AlertRuleId>,
        app,
        at,
        id as Option<AlertMessageId>,
        i64::from(limit),
        TEST
    )
    .fetch_all(connection)
    .await?)
}

/// Makes a message due now, with the same id and all its attempts, for any status. With `app` only one of
/// that app's rules. Returns whether there is such a message.
pub async fn send_again(tx: &mut TenantTx, id: AlertMessageId, app: Option<&str>) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let found = sqlx::query!(
        "UPDATE alert_messages m SET status = 'waiting', attempts = 0, due_at = $4
         FROM alert_rules r
         WHERE m.tenant = $1 AND m.id = $2 AND r.tenant = $1 AND r.id = m.rule AND ($3::text IS NULL OR r.app = $3)",
        tenant,
        id as AlertMessageId,
        app,
        now
    )
    .execute(connection)
    .await?;
    Ok(found.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_go_on_for_about_a_day() {
        assert_eq!([1, 2, 3].map(retry_pause), [10, 30, 90].map(Duration::seconds));
        assert_eq!(retry_pause(i32::MAX), BACKOFF_MAX);
        let whole: Duration = (1..MOST_ATTEMPTS).map(retry_pause).sum();
        assert_eq!(whole.whole_hours(), 21);
    }
}
