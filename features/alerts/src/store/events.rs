//! Events, which fulfilled a rule's condition.

use super::rules::{AlertCondition, AlertRule};
use super::{AlertFiringId, AlertRuleId};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use unslide_store::groups::GroupEvent;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::sql::words;
use unslide_store::{Announcement, GroupId, Result, TenantTx, announce_to_features};

/// The beginning of the cause of a new group; the group's id follows.
pub(super) const NEW_GROUP: &str = "new:";
/// The beginning of the path of a group's page in the console; the group's id follows.
pub(super) const GROUP_PAGE: &str = "/console/groups/";

words! {
    /// A step of a firing that receivers get an event for. The word is the begin of the event's cause; the firing's id
    /// follows.
    pub enum FiringStep {
        Began = "began",
        /// It goes to the second receiver.
        Escalated = "escalated",
        Acknowledged = "acknowledged",
        Recovered = "recovered",
    }
}

/// Something that may fulfil rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertCause {
    /// The key of the event, such as `new:GROUP`. A rule gets one event for each key.
    pub cause: String,
    /// The event in one line.
    pub headline: String,
    pub detail: String,
    pub app: String,
    pub version: String,
    /// The path of the console's page about it.
    pub path: String,
}

impl AlertCause {
    /// Returns the cause for a new group.
    #[must_use]
    pub fn new_group(id: GroupId, title: &str, culprit: &str, app: &str, version: &str) -> AlertCause {
        AlertCause {
            cause: format!("{NEW_GROUP}{id}"),
            headline: format!("New: {title}"),
            detail: culprit.to_owned(),
            app: app.to_owned(),
            version: version.to_owned(),
            path: format!("{GROUP_PAGE}{id}"),
        }
    }
}

/// Why a rule has an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReason {
    /// It fulfils the rule's condition.
    Condition,
    /// A person sent the group to the rule's receiver.
    Sent,
    /// A person tested the rule.
    Test,
}

/// An event of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertEvent {
    pub occurred_at: OffsetDateTime,
    /// The event in one line.
    pub headline: String,
    pub detail: String,
    pub app: String,
    pub version: String,
    /// The path of the console's page about it.
    pub path: String,
    pub reason: EventReason,
    /// The group that it is about, as it is now.
    pub group: Option<AlertGroup>,
    /// The firing that it is about.
    pub firing: Option<EventFiring>,
}

/// A firing that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFiring {
    pub id: AlertFiringId,
    /// The rule that fires, also in a message to the second receiver.
    pub rule: AlertRuleId,
    /// The name of that rule.
    pub rule_name: String,
    /// The condition of that rule.
    pub condition: AlertCondition,
    pub step: FiringStep,
    /// The path of the page that acknowledges it, if that is of use.
    pub acknowledge_path: Option<String>,
}

/// A group that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertGroup {
    pub id: GroupId,
    pub short_id: Option<String>,
    pub reports: i64,
    pub devices: i64,
}

/// Notes causes of a condition for every rule that waits for it, in the transaction of the causes. Returns the number
/// of events.
pub async fn raise_events(
    tx: &mut TenantTx,
    condition: AlertCondition,
    causes: &[AlertCause],
) -> Result<u64> {
    if causes.is_empty() {
        return Ok(0);
    }
    write_events(tx, Some(condition), None, true, causes).await
}

/// How old a report may be that alerts: older ones come by a replay of the topic. A reader that catches up after an
/// outage alerts about the reports that it finds. An event that was sent before has its row.
const ALERTED_REPORT_MAX_AGE: Duration = Duration::DAY;

/// Notes groups that are new or came back. The evaluation of the rules handles a group that lacks symbols.
pub async fn raise_for_groups(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    continue_events(tx, events).await?;
    let (mut new, mut back) = (Vec::new(), Vec::new());
    let oldest = tx.now() - ALERTED_REPORT_MAX_AGE;
    for event in events.iter().filter(|event| event.received_at() >= oldest) {
        match event {
            GroupEvent::Created { provisional: true, .. } => {}
            GroupEvent::Created { group, app, title, culprit, version, .. } => {
                new.push(AlertCause::new_group(*group, title, culprit, app, version));
            }
            GroupEvent::Regressed { group, app, title, version, received_at } => back.push(AlertCause {
                cause: format!("back:{group}:{}", received_at.unix_timestamp_nanos()),
                headline: format!("Back: {title}"),
                detail: format!("It was resolved, and version {version} has it again."),
                app: app.clone(),
                version: version.clone(),
                path: format!("{GROUP_PAGE}{group}"),
            }),
            GroupEvent::Reopened { group, app, title, version, reason, received_at } => {
                back.push(AlertCause {
                    cause: format!("back:{group}:{}", received_at.unix_timestamp_nanos()),
                    headline: format!("Back: {title}"),
                    detail: format!("It was ignored, and that is over: {reason}."),
                    app: app.clone(),
                    version: version.clone(),
                    path: format!("{GROUP_PAGE}{group}"),
                });
            }
        }
    }
    raise_events(tx, AlertCondition::NewGroup, &new).await?;
    raise_events(tx, AlertCondition::Regression, &back).await?;
    Ok(())
}

/// Notes which groups go on as others: their reports have moved there. An event tells of one such group too, of a
/// second one it does not.
async fn continue_events(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    let (mut former, mut groups) = (Vec::new(), Vec::new());
    for event in events {
        if let GroupEvent::Created { group, moved_from, .. } = event {
            former.extend(moved_from.iter().copied());
            groups.resize(former.len(), *group);
        }
    }
    if former.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    // If reports of one group move to several new ones, any of them continues it.
    sqlx::query!(
        "UPDATE alert_events e SET continued_by = $4::text || n.id
         FROM unnest($2::uuid[], $3::uuid[]) AS n (former, id)
         WHERE e.tenant = $1 AND (e.cause = $4::text || n.former AND e.continued_by IS NULL
                                  OR e.continued_by = $4::text || n.former)",
        tenant,
        &former as &[GroupId],
        &groups as &[GroupId],
        NEW_GROUP
    )
    .execute(connection)
    .await?;
    hand_over(tx, &former).await
}

/// Moves the events of groups that are gone to the groups that continue them. If a former group comes back
/// with other reports, it is new. The text of a message does not change.
pub async fn hand_over(tx: &mut TenantTx, former: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_events e
         SET cause = h.continued_by, continued_by = NULL,
             path = CASE WHEN e.message IS NULL THEN replace(h.continued_by, $3, $4) ELSE e.path END
         FROM (SELECT DISTINCT ON (f.rule, f.continued_by) f.rule, f.cause, f.continued_by
               FROM unnest($2::uuid[]) AS n (id)
               JOIN alert_events f ON f.tenant = $1 AND f.cause = $3::text || n.id AND f.continued_by IS NOT NULL
               WHERE NOT EXISTS (SELECT FROM groups g WHERE g.tenant = $1 AND g.id = n.id)
                 AND NOT EXISTS (SELECT FROM alert_events o
                                 WHERE o.tenant = $1 AND o.rule = f.rule AND o.cause = f.continued_by)
               ORDER BY f.rule, f.continued_by, f.occurred_at, f.cause) h
         WHERE e.tenant = $1 AND e.rule = h.rule AND e.cause = h.cause",
        tenant,
        former as &[GroupId],
        NEW_GROUP,
        GROUP_PAGE
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The cause of a rule's test.
pub(super) const TEST: &str = "test";

/// Makes a rule send a test. A waiting test is sent once. A sent one is replaced, because a rule has one
/// test.
pub async fn raise_test(tx: &mut TenantTx, rule: &AlertRule) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    // The message goes with its only event. One that was tried waits for its receiver, which a test tries now.
    sqlx::query!(
        "DELETE FROM alert_messages m USING alert_events e
         WHERE e.tenant = $1 AND e.cause = $3 AND e.rule = $2
           AND m.tenant = $1 AND m.id = e.message AND (m.status <> 'waiting' OR m.attempts > 0) AND m.events = 1",
        tenant,
        rule.id as AlertRuleId,
        TEST
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM alert_events e USING alert_messages m
         WHERE e.tenant = $1 AND e.cause = $3 AND e.rule = $2
           AND m.tenant = $1 AND m.id = e.message AND m.status <> 'waiting'",
        tenant,
        rule.id as AlertRuleId,
        TEST
    )
    .execute(connection)
    .await?;
    let cause = AlertCause {
        cause: TEST.to_owned(),
        headline: format!("Test of the alert rule {}", rule.name),
        detail: "This is a test message. Nothing happened.".to_owned(),
        app: rule.app.clone().unwrap_or_default(),
        version: String::new(),
        path: "/console/alerts".to_owned(),
    };
    raise_for(tx, rule.id, &[cause]).await?;
    Ok(())
}

/// The beginning of the cause of a group that a person sent; the group's id and the minute follow.
pub(super) const SENT_GROUP: &str = "sent:";

/// Makes a rule send a group, once in a minute: a form that is sent twice makes one message.
pub async fn raise_sent_group(tx: &mut TenantTx, rule: AlertRuleId, group: &ListedGroup) -> Result<()> {
    let minute = tx.now().unix_timestamp() / 60;
    let cause = AlertCause {
        cause: format!("{SENT_GROUP}{}:{minute}", group.id),
        headline: group.title.clone(),
        detail: group.culprit.clone(),
        app: group.app.clone(),
        version: group.last_version.clone(),
        path: format!("{GROUP_PAGE}{}", group.id),
    };
    raise_for(tx, rule, &[cause]).await?;
    Ok(())
}

/// Records causes for one rule, for any condition and any labels.
pub async fn raise_for(tx: &mut TenantTx, rule: AlertRuleId, causes: &[AlertCause]) -> Result<u64> {
    write_events(tx, None, Some(rule), false, causes).await
}

/// Records what fulfils the condition of one rule. Events of a rule with labels wait for those of their groups.
pub(super) async fn raise_found(tx: &mut TenantTx, rule: AlertRuleId, causes: &[AlertCause]) -> Result<u64> {
    write_events(tx, None, Some(rule), true, causes).await
}

async fn write_events(
    tx: &mut TenantTx,
    condition: Option<AlertCondition>,
    rule: Option<AlertRuleId>,
    waits_for_labels: bool,
    causes: &[AlertCause],
) -> Result<u64> {
    let column =
        |text: fn(&AlertCause) -> &String| -> Vec<String> { causes.iter().map(text).cloned().collect() };
    let (connection, tenant, now) = tx.parts();
    let raised = sqlx::query!(
        r#"INSERT INTO alert_events (tenant, rule, cause, occurred_at, headline, detail, app, version, path, route_at)
         SELECT $1, r.id, n.cause, $4, n.headline, n.detail, n.app, n.version, n.path,
                CASE WHEN $11 AND cardinality(r.labels) > 0 AND r.condition <> 'summary' THEN $4::timestamptz END
         FROM alert_rules r
         JOIN unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
              AS n (cause, headline, detail, app, version, path)
              ON r.app IS NULL OR r.app = n.app OR r.id = $3
         WHERE r.tenant = $1 AND (r.condition = $2 AND r.enabled OR r.id = $3)
           AND NOT EXISTS (SELECT FROM alert_events e
                           WHERE e.tenant = $1 AND e.rule = r.id AND e.continued_by = n.cause AND NOT e.dropped)
         ORDER BY r.id, n.cause
         ON CONFLICT DO NOTHING
         RETURNING rule AS "rule: AlertRuleId", headline, app, path, route_at IS NULL AS "is_told!""#,
        tenant,
        condition.map(AlertCondition::as_str),
        rule as Option<AlertRuleId>,
        now,
        &column(|cause| &cause.cause),
        &column(|cause| &cause.headline),
        &column(|cause| &cause.detail),
        &column(|cause| &cause.app),
        &column(|cause| &cause.version),
        &column(|cause| &cause.path),
        waits_for_labels
    )
    .fetch_all(connection)
    .await?;
    let count = raised.len() as u64;
    let told = raised.into_iter().filter(|event| event.is_told);
    announce_events(tx, told.map(|event| (event.rule, event.headline, event.app, event.path))).await?;
    Ok(count)
}

/// Tells the other features of events: rule, headline, app and path. Returns their number.
pub(super) async fn announce_events(
    tx: &mut TenantTx,
    events: impl Iterator<Item = (AlertRuleId, String, String, String)>,
) -> Result<u64> {
    let announcements = events.map(|(rule, headline, app, path)| Announcement {
        kind: "alert_raised",
        data: json!({"app": app, "rule": rule, "headline": headline, "path": path}),
        app: Some(app),
    });
    let announcements: Vec<_> = announcements.collect();
    announce_to_features(tx, &announcements).await?;
    Ok(announcements.len() as u64)
}

/// Returns a page of the console for an app.
pub(super) fn page_path(page: &str, app: &str) -> String {
    page_query(page, &[("app", Some(app))])
}

/// Returns a page of the console with the fields of its query that have a value.
pub(super) fn page_query(page: &str, fields: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{page}?{}", query.finish())
}
