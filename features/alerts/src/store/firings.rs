//! Firings: the times in which the figure of a rule was bad, with the person who acknowledged.

use super::events::{AlertCause, FiringStep, page_path, raise_for};
use super::figures::{AlertEscalation, WatchedFigure, describe_target};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

/// A time in which the figure of a rule was bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AlertFiring {
    /// Id of the firing, to acknowledge it.
    pub id: Uuid,
    /// Id of its rule.
    pub rule: Uuid,
    /// Name of that rule, for people.
    pub rule_name: String,
    /// The figure and its value when it became bad, in one line.
    pub headline: String,
    /// When the figure became bad (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub began_at: OffsetDateTime,
    /// When it was good again; absent while it is bad.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<OffsetDateTime>,
    /// When it was acknowledged.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub acknowledged_at: Option<OffsetDateTime>,
    /// Who acknowledged: a key's id, a person, or `link` for the link of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    /// When the second receiver got it.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<OffsetDateTime>,
}

/// A firing that has not ended.
#[derive(Clone, Debug)]
pub(super) struct OpenFiring {
    pub id: Uuid,
    pub rule: Uuid,
    pub headline: String,
    pub began_at: OffsetDateTime,
    pub is_acknowledged: bool,
    /// The rule whose receiver got it as the second one.
    pub escalated_to: Option<Uuid>,
}

/// Finds the firing of a rule that has not ended.
pub(super) async fn find_open(tx: &mut TenantTx, rule: Uuid) -> Result<Option<OpenFiring>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        OpenFiring,
        r#"SELECT id, rule, headline, began_at, acknowledged_at IS NOT NULL AS "is_acknowledged!", escalated_to
           FROM alert_firings WHERE tenant = $1 AND rule = $2 AND ended_at IS NULL FOR NO KEY UPDATE"#,
        tenant,
        rule
    )
    .fetch_optional(connection)
    .await?)
}

pub(super) async fn begin_firing(tx: &mut TenantTx, rule: Uuid, headline: &str) -> Result<OpenFiring> {
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_as!(
        OpenFiring,
        r#"INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
           VALUES (unslide_uuid($3), $1, $2, $4, $3, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
           RETURNING id, rule, headline, began_at, false AS "is_acknowledged!", escalated_to"#,
        tenant,
        rule,
        now,
        headline
    )
    .fetch_one(connection)
    .await?)
}

pub(super) async fn end_firing(tx: &mut TenantTx, id: Uuid) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!("UPDATE alert_firings SET ended_at = $3 WHERE tenant = $1 AND id = $2", tenant, id, now)
        .execute(connection)
        .await?;
    Ok(())
}

/// Has a rule evaluated at a moment, unless it is evaluated earlier.
pub(super) async fn evaluate_again(tx: &mut TenantTx, rule: Uuid, at: OffsetDateTime) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_rules SET next_evaluation_at = least(next_evaluation_at, $3) WHERE tenant = $1 AND id = $2",
        tenant,
        rule,
        at
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

/// Sends a firing to the second receiver, once.
pub(super) async fn escalate(
    tx: &mut TenantTx,
    firing: &OpenFiring,
    escalation: AlertEscalation,
    text: &AlertCause,
) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE alert_firings SET escalated_at = $3, escalated_to = $4 WHERE tenant = $1 AND id = $2",
        tenant,
        firing.id,
        now,
        escalation.rule
    )
    .execute(connection)
    .await?;
    let escalated = OpenFiring { escalated_to: Some(escalation.rule), ..firing.clone() };
    raise_step(tx, &escalated, FiringStep::Escalated, text).await
}

/// Returns the text about a firing, as it began.
pub(super) fn firing_cause(firing: &OpenFiring, app: &str, figure: &WatchedFigure) -> AlertCause {
    AlertCause {
        cause: String::new(),
        headline: firing.headline.clone(),
        detail: format!("{} is bad since {}.", describe_target(figure, app), format_minute(firing.began_at)),
        app: app.to_owned(),
        version: figure.version.clone().unwrap_or_default(),
        path: page_path("/console/versions", app),
    }
}

fn format_minute(at: OffsetDateTime) -> String {
    let minute = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    at.to_offset(time::UtcOffset::UTC).format(minute).unwrap_or_default()
}

/// Returns the firings of the transaction's tenant, the newest first, from the one after `after` on; with `app` those of
/// this app's rules.
pub async fn list_firings(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<AlertFiring>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(sqlx::query_as!(
        AlertFiring,
        "SELECT f.id, f.rule, r.name AS rule_name, f.headline, f.began_at, f.ended_at, f.acknowledged_at,
                f.acknowledged_by, f.escalated_at
         FROM alert_firings f JOIN alert_rules r ON r.tenant = f.tenant AND r.id = f.rule
         WHERE f.tenant = $1 AND ($2::text IS NULL OR r.app = $2)
           AND ($3::timestamptz IS NULL OR (f.began_at, f.id) < ($3, $4::uuid))
         ORDER BY f.began_at DESC, f.id DESC LIMIT $5",
        tenant,
        app,
        at,
        id,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns a firing; with `app` only one of that app's rules.
pub async fn find_firing(tx: &mut TenantTx, id: Uuid, app: Option<&str>) -> Result<Option<AlertFiring>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AlertFiring,
        "SELECT f.id, f.rule, r.name AS rule_name, f.headline, f.began_at, f.ended_at, f.acknowledged_at,
                f.acknowledged_by, f.escalated_at
         FROM alert_firings f JOIN alert_rules r ON r.tenant = f.tenant AND r.id = f.rule
         WHERE f.tenant = $1 AND f.id = $2 AND ($3::text IS NULL OR r.app = $3)",
        tenant,
        id,
        app
    )
    .fetch_optional(connection)
    .await?)
}

/// Acknowledges a firing: the second receiver does not get it any more, and its receivers get an event. Changes nothing if it
/// was acknowledged or has ended. Returns true if it changed.
pub async fn acknowledge_firing(tx: &mut TenantTx, id: Uuid, by: &str) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        "UPDATE alert_firings f SET acknowledged_at = $3, acknowledged_by = $4
         FROM alert_rules r
         WHERE f.tenant = $1 AND f.id = $2 AND f.ended_at IS NULL AND f.acknowledged_at IS NULL
           AND r.tenant = $1 AND r.id = f.rule
         RETURNING f.rule, f.headline, f.began_at, f.escalated_to, r.app",
        tenant,
        id,
        now,
        by
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(false) };
    let (rule, headline, app) = (row.rule, row.headline, row.app.unwrap_or_default());
    let text = AlertCause {
        cause: String::new(),
        headline: headline.clone(),
        detail: format!("Acknowledged at {}.", format_minute(now)),
        path: page_path("/console/versions", &app),
        app,
        version: String::new(),
    };
    let escalated_to = row.escalated_to;
    let firing =
        OpenFiring { id, rule, headline, began_at: row.began_at, is_acknowledged: true, escalated_to };
    raise_step(tx, &firing, FiringStep::Acknowledged, &text).await?;
    Ok(true)
}

/// Returns the key that signs the link of a firing. Returns `None` if the tenant has no such firing.
pub async fn find_link_key(tx: &mut TenantTx, id: Uuid) -> Result<Option<Vec<u8>>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!("SELECT link_key FROM alert_firings WHERE tenant = $1 AND id = $2", tenant, id)
        .fetch_optional(connection)
        .await?)
}
