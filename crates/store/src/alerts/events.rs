//! Events: what fulfilled a rule's condition.

use super::rules::AlertCondition;
use crate::groups::GroupEvent;
use crate::{Result, TenantTx, Uuid};
use time::{Duration, OffsetDateTime};

/// Something that may fulfil rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertCause {
    /// What identifies it, such as `new:GROUP`: a rule gets one event for it.
    pub cause: String,
    /// Causes that this one continues: a rule that has an event for one of them gets none for this one.
    pub after: Vec<String>,
    /// What happened, in one line.
    pub headline: String,
    /// More, in one line.
    pub detail: String,
    /// The app.
    pub app: String,
    /// The version.
    pub version: String,
    /// The path of the console's page about it.
    pub path: String,
}

/// An event of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertEvent {
    /// When it happened.
    pub occurred_at: OffsetDateTime,
    /// What happened, in one line.
    pub headline: String,
    /// More, in one line.
    pub detail: String,
    /// The app.
    pub app: String,
    /// The version.
    pub version: String,
    /// The path of the console's page about it.
    pub path: String,
}

/// Notes causes of a condition for every rule that waits for it, in the transaction of the causes. Returns the number
/// of events.
pub async fn raise(tx: &mut TenantTx, condition: AlertCondition, causes: &[AlertCause]) -> Result<u64> {
    if causes.is_empty() {
        return Ok(0);
    }
    write(tx, Some(condition), None, causes).await
}

/// How old a report may be that alerts: older ones come by a replay of the topic. A reader that catches up after an
/// outage tells of what it finds, and what was told before has its row.
const OLDEST: Duration = Duration::DAY;

/// Notes groups that are new or came back. One whose symbols are missing is left to the evaluation of the rules.
pub(crate) async fn raise_for_groups(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    let (mut new, mut back) = (Vec::new(), Vec::new());
    let oldest = tx.now() - OLDEST;
    for event in events.iter().filter(|event| event.received_at() >= oldest) {
        match event {
            GroupEvent::Created { provisional: true, .. } => {}
            GroupEvent::Created { group, app, title, culprit, version, moved_from, .. } => {
                let after = moved_from.iter().map(|id| format!("new:{id}")).collect();
                new.push(AlertCause { after, ..AlertCause::new_group(*group, title, culprit, app, version) });
            }
            GroupEvent::Regressed { group, app, title, version, received_at } => back.push(AlertCause {
                cause: format!("back:{group}:{}", received_at.unix_timestamp_nanos()),
                after: Vec::new(),
                headline: format!("Back: {title}"),
                detail: format!("It was resolved, and version {version} has it again."),
                app: app.clone(),
                version: version.clone(),
                path: format!("/console/groups/{group}"),
            }),
        }
    }
    raise(tx, AlertCondition::NewGroup, &new).await?;
    raise(tx, AlertCondition::Regression, &back).await?;
    Ok(())
}

/// Notes causes for one rule, whatever its condition.
pub async fn raise_for(tx: &mut TenantTx, rule: Uuid, causes: &[AlertCause]) -> Result<u64> {
    write(tx, None, Some(rule), causes).await
}

async fn write(
    tx: &mut TenantTx,
    condition: Option<AlertCondition>,
    rule: Option<Uuid>,
    causes: &[AlertCause],
) -> Result<u64> {
    let column =
        |text: fn(&AlertCause) -> &String| -> Vec<String> { causes.iter().map(text).cloned().collect() };
    // Arrays of arrays would have to be of one length.
    let after: Vec<String> = causes.iter().map(|cause| cause.after.join("\n")).collect();
    let (connection, tenant, now) = tx.parts();
    let written = sqlx::query!(
        "WITH raised AS (
         INSERT INTO alert_events (tenant, rule, cause, occurred_at, headline, detail, app, version, path)
         SELECT $1, r.id, n.cause, $4, n.headline, n.detail, n.app, n.version, n.path
         FROM alert_rules r
         JOIN unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
              AS n (cause, after, headline, detail, app, version, path)
              ON r.app IS NULL OR r.app = n.app OR r.id = $3
         WHERE r.tenant = $1 AND (r.condition = $2 AND r.enabled OR r.id = $3)
           AND NOT EXISTS (SELECT FROM alert_events e WHERE e.tenant = $1 AND e.rule = r.id
                             AND e.cause = ANY (string_to_array(n.after, E'\\n')))
         ORDER BY r.id, n.cause
         ON CONFLICT DO NOTHING
         RETURNING rule, headline, app, path)
         INSERT INTO live_events (tenant, kind, app, data, occurred_at)
         SELECT $1, 'alert_raised', r.app,
                jsonb_build_object('app', r.app, 'rule', r.rule, 'headline', r.headline, 'path', r.path), $4
         FROM raised r",
        tenant,
        condition.map(AlertCondition::as_str),
        rule,
        now,
        &column(|cause| &cause.cause),
        &after,
        &column(|cause| &cause.headline),
        &column(|cause| &cause.detail),
        &column(|cause| &cause.app),
        &column(|cause| &cause.version),
        &column(|cause| &cause.path)
    )
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}
