//! Firings: the times in which the figure of a rule was bad, or events of another rule wait for a person, with the person who
//! acknowledged.

use super::events::{AlertCause, FiringStep, SENT_GROUP, TEST, raise_for};
use super::schedule::quiet_hours;
use super::{AlertFiringId, AlertMessageId, AlertRuleId};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// How long events of a rule without a figure join one firing.
const EVENT_FIRING_MAX_AGE: Duration = Duration::DAY;

/// A time in which the figure of a rule was bad, or in which events of a rule with a second receiver waited for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AlertFiring {
    /// Id of the firing, to acknowledge it.
    #[schema(value_type = Uuid)]
    pub id: AlertFiringId,
    /// Id of its rule.
    #[schema(value_type = Uuid)]
    pub rule: AlertRuleId,
    /// Name of that rule, for people.
    pub rule_name: String,
    /// The figure and its value when it became bad, or the first event, in one line.
    pub headline: String,
    /// When the figure became bad, or the first event was sent (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub began_at: OffsetDateTime,
    /// When it was good again, or a person acknowledged the events; absent before.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<OffsetDateTime>,
    /// When it was acknowledged.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub acknowledged_at: Option<OffsetDateTime>,
    /// Who acknowledged: a key's id, a person, `link` for the link of a message, or the channel of a pager, such as `pagerduty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    /// When the second receiver got it.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<OffsetDateTime>,
}

/// A firing that has not ended.
#[derive(Clone, Debug)]
pub(super) struct OpenFiring {
    pub id: AlertFiringId,
    pub rule: AlertRuleId,
    pub headline: String,
    pub began_at: OffsetDateTime,
    /// The rule whose receiver got it as the second one.
    pub escalated_to: Option<AlertRuleId>,
    /// The app, the version and the console's page of what it is about.
    pub app: String,
    pub version: String,
    pub path: String,
}

impl OpenFiring {
    /// Returns a text about the firing as it began.
    fn describe(&self, detail: String) -> AlertCause {
        AlertCause {
            cause: String::new(),
            headline: self.headline.clone(),
            detail,
            app: self.app.clone(),
            version: self.version.clone(),
            path: self.path.clone(),
        }
    }
}

/// Finds the firing of a rule that has not ended.
pub(super) async fn find_open(tx: &mut TenantTx, rule: AlertRuleId) -> Result<Option<OpenFiring>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        OpenFiring,
        r#"SELECT id AS "id: AlertFiringId", rule AS "rule: AlertRuleId", headline, began_at, escalated_to AS "escalated_to: AlertRuleId", app, version, path
         FROM alert_firings WHERE tenant = $1 AND rule = $2 AND ended_at IS NULL FOR NO KEY UPDATE"#,
        tenant,
        rule as AlertRuleId
    )
    .fetch_optional(connection)
    .await?)
}

/// Begins a firing about a cause. With `escalate_minutes` a second receiver gets it after as many minutes.
pub(super) async fn begin_firing(
    tx: &mut TenantTx,
    rule: AlertRuleId,
    cause: &AlertCause,
    escalate_minutes: Option<i32>,
) -> Result<OpenFiring> {
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_as!(
        OpenFiring,
        r#"INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key, escalate_at, app, version, path)
           VALUES (unslide_uuid($3), $1, $2, $4, $3, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), $5, $6,
                   $7, $8)
           RETURNING id AS "id: AlertFiringId", rule AS "rule: AlertRuleId", headline, began_at, escalated_to AS "escalated_to: AlertRuleId", app, version, path"#,
        tenant,
        rule as AlertRuleId,
        now,
        cause.headline,
        escalate_minutes.map(|minutes| now + Duration::minutes(minutes.into())),
        cause.app,
        cause.version,
        cause.path
    )
    .fetch_one(connection)
    .await?)
}

pub(super) async fn end_firing(tx: &mut TenantTx, id: AlertFiringId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE alert_firings SET ended_at = $3, escalate_at = NULL WHERE tenant = $1 AND id = $2",
        tenant,
        id as AlertFiringId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Begins a firing for the events of a message, if the rule has a second receiver and no figure: a figure has firings of its own.
/// Events join the firing that waits for a person; one that was escalated ends, so that later events are escalated, too.
pub(super) async fn begin_for_message(
    tx: &mut TenantTx,
    rule: AlertRuleId,
    message: AlertMessageId,
    escalate_minutes: i32,
) -> Result<()> {
    let steps = FiringStep::ALL.map(|step| step.as_str().to_owned());
    let (connection, tenant, now) = tx.parts();
    let first = sqlx::query_as!(
        AlertCause,
        "SELECT cause, headline, detail, app, version, path FROM alert_events
         WHERE tenant = $1 AND rule = $2 AND message = $3 AND cause <> $4 AND NOT starts_with(cause, $5)
           AND split_part(cause, ':', 1) <> ALL ($6)
         ORDER BY occurred_at, headline, path, cause LIMIT 1",
        tenant,
        rule as AlertRuleId,
        message as AlertMessageId,
        TEST,
        SENT_GROUP,
        &steps
    )
    .fetch_optional(connection)
    .await?;
    let Some(first) = first else { return Ok(()) };
    let open = find_open(tx, rule).await?;
    let waiting =
        open.clone().filter(|open| open.escalated_to.is_none() && now - open.began_at < EVENT_FIRING_MAX_AGE);
    let firing = match (waiting, open) {
        (Some(waiting), _) => waiting,
        (None, former) => {
            if let Some(former) = former {
                end_firing(tx, former.id).await?;
            }
            begin_firing(tx, rule, &first, Some(escalate_minutes)).await?
        }
    };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_events SET firing = $7
         WHERE tenant = $1 AND rule = $2 AND message = $3 AND cause <> $4 AND NOT starts_with(cause, $5)
           AND split_part(cause, ':', 1) <> ALL ($6)",
        tenant,
        rule as AlertRuleId,
        message as AlertMessageId,
        TEST,
        SENT_GROUP,
        &steps,
        firing.id as AlertFiringId
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Sends the firing of a rule that is due to the second receiver, once. While the rule is muted or has quiet hours, its own
/// receiver gets nothing: then the minutes begin anew, from the end of the quiet hours. Returns the number of events.
pub async fn escalate_due(tx: &mut TenantTx, rule: AlertRuleId) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT f.id AS "id: AlertFiringId", f.headline, f.began_at, f.app, f.version, f.path, r.escalate_to AS "escalate_to: AlertRuleId", r.escalate_minutes, r.muted_until,
                r.quiet_from, r.quiet_to
         FROM alert_firings f JOIN alert_rules r ON r.tenant = f.tenant AND r.id = f.rule
         WHERE f.tenant = $1 AND f.rule = $2 AND f.escalate_at <= $3 AND r.enabled
         FOR NO KEY UPDATE OF f SKIP LOCKED"#,
        tenant,
        rule as AlertRuleId,
        now
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(0) };
    let Some((second, minutes)) = row.escalate_to.zip(row.escalate_minutes) else {
        return set_escalation_time(tx, row.id, None).await.map(|()| 0);
    };
    let quiet_until = quiet_hours(row.quiet_from, row.quiet_to).and_then(|hours| hours.end_after(now));
    let is_muted = row.muted_until.is_some_and(|until| until > now);
    if is_muted || quiet_until.is_some() {
        let later = quiet_until.unwrap_or(now) + Duration::minutes(minutes.into());
        return set_escalation_time(tx, row.id, Some(later)).await.map(|()| 0);
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE alert_firings SET escalated_at = $3, escalated_to = $4, escalate_at = NULL WHERE tenant = $1 AND id = $2",
        tenant,
        row.id as AlertFiringId,
        now,
        second as AlertRuleId
    )
    .execute(connection)
    .await?;
    let firing = OpenFiring {
        id: row.id,
        rule,
        headline: row.headline,
        began_at: row.began_at,
        escalated_to: Some(second),
        app: row.app,
        version: row.version,
        path: row.path,
    };
    let began = format_minute(firing.began_at);
    let text =
        firing.describe(format!("It began at {began} and was not acknowledged within {minutes} minutes."));
    raise_step(tx, &firing, FiringStep::Escalated, &text).await
}

async fn set_escalation_time(
    tx: &mut TenantTx,
    firing: AlertFiringId,
    at: Option<OffsetDateTime>,
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_firings SET escalate_at = $3 WHERE tenant = $1 AND id = $2",
        tenant,
        firing as AlertFiringId,
        at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets the minutes until the second receiver gets the open firing of a rule; none for no second receiver.
pub(super) async fn reset_escalation(
    tx: &mut TenantTx,
    rule: AlertRuleId,
    minutes: Option<i32>,
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_firings SET escalate_at = began_at + make_interval(mins => $3)
         WHERE tenant = $1 AND rule = $2 AND ended_at IS NULL AND acknowledged_at IS NULL AND escalated_at IS NULL",
        tenant,
        rule as AlertRuleId,
        minutes
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records a step of a firing for the receivers that know of it. Returns the number of events.
pub(super) async fn raise_step(
    tx: &mut TenantTx,
    firing: &OpenFiring,
    step: FiringStep,
    text: &AlertCause,
) -> Result<u64> {
    let word = match step {
        FiringStep::Began => "",
        FiringStep::Escalated => "Not acknowledged: ",
        FiringStep::Acknowledged => "Acknowledged: ",
        FiringStep::Recovered => "Good again: ",
    };
    let cause = AlertCause {
        cause: format!("{step}:{}", firing.id),
        headline: format!("{word}{}", text.headline),
        ..text.clone()
    };
    let first = (step != FiringStep::Escalated).then_some(firing.rule);
    let mut raised = 0;
    for rule in first.into_iter().chain(firing.escalated_to) {
        raised += raise_for(tx, rule, std::slice::from_ref(&cause)).await?;
    }
    Ok(raised)
}

pub(super) fn format_minute(at: OffsetDateTime) -> String {
    let minute = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    at.to_offset(time::UtcOffset::UTC).format(minute).unwrap_or_default()
}

/// Returns the firings of the transaction's tenant, the newest first, from the one after `after` on; with `app` those of
/// this app's rules.
pub async fn list_firings(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, AlertFiringId)>,
    limit: u32,
) -> Result<Vec<AlertFiring>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(sqlx::query_as!(
        AlertFiring,
        r#"SELECT f.id AS "id: AlertFiringId", f.rule AS "rule: AlertRuleId", r.name AS rule_name, f.headline, f.began_at, f.ended_at, f.acknowledged_at,
                f.acknowledged_by, f.escalated_at
         FROM alert_firings f JOIN alert_rules r ON r.tenant = f.tenant AND r.id = f.rule
         WHERE f.tenant = $1 AND ($2::text IS NULL OR r.app = $2)
           AND ($3::timestamptz IS NULL OR (f.began_at, f.id) < ($3, $4::uuid))
         ORDER BY f.began_at DESC, f.id DESC LIMIT $5"#,
        tenant,
        app,
        at,
        id as Option<AlertFiringId>,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns a firing; with `app` only one of that app's rules.
pub async fn find_firing(
    tx: &mut TenantTx,
    id: AlertFiringId,
    app: Option<&str>,
) -> Result<Option<AlertFiring>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AlertFiring,
        r#"SELECT f.id AS "id: AlertFiringId", f.rule AS "rule: AlertRuleId", r.name AS rule_name, f.headline, f.began_at, f.ended_at, f.acknowledged_at,
                f.acknowledged_by, f.escalated_at
         FROM alert_firings f JOIN alert_rules r ON r.tenant = f.tenant AND r.id = f.rule
         WHERE f.tenant = $1 AND f.id = $2 AND ($3::text IS NULL OR r.app = $3)"#,
        tenant,
        id as AlertFiringId,
        app
    )
    .fetch_optional(connection)
    .await?)
}

/// Acknowledges a firing: the second receiver does not get it any more, and its receivers get an event. Changes nothing if it
/// was acknowledged or has ended. Returns true if it changed.
pub async fn acknowledge_firing(tx: &mut TenantTx, id: AlertFiringId, by: &str) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let firing = sqlx::query_as!(
        OpenFiring,
        r#"UPDATE alert_firings f SET acknowledged_at = $3, acknowledged_by = $4, escalate_at = NULL,
                ended_at = CASE WHEN r.condition <> 'figure' THEN $3::timestamptz END
         FROM alert_rules r
         WHERE f.tenant = $1 AND f.id = $2 AND f.ended_at IS NULL AND f.acknowledged_at IS NULL
           AND r.tenant = $1 AND r.id = f.rule
         RETURNING f.id AS "id: AlertFiringId", f.rule AS "rule: AlertRuleId", f.headline, f.began_at, f.escalated_to AS "escalated_to: AlertRuleId", f.app, f.version, f.path"#,
        tenant,
        id as AlertFiringId,
        now,
        by
    )
    .fetch_optional(connection)
    .await?;
    let Some(firing) = firing else { return Ok(false) };
    let text = firing.describe(format!("Acknowledged at {}.", format_minute(now)));
    raise_step(tx, &firing, FiringStep::Acknowledged, &text).await?;
    Ok(true)
}

/// Returns the key that signs the link of a firing. Returns `None` if the tenant has no such firing.
pub async fn find_link_key(tx: &mut TenantTx, id: AlertFiringId) -> Result<Option<Vec<u8>>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT link_key FROM alert_firings WHERE tenant = $1 AND id = $2",
        tenant,
        id as AlertFiringId
    )
    .fetch_optional(connection)
    .await?)
}
