//! Rules for groups with a label, such as those of one owner: their events wait until the labels of the group are known.
//!
//! A feature labels a group some time after its first report. An event waits until the group has one of the rule's labels, or other
//! ones of the same words, at most [`LABEL_WAIT_TIMEOUT`]. After that a group without a label of a word counts as `word:none`.

use super::AlertRuleId;
use super::events::announce_events;
use time::Duration;
use unslide_store::{Result, TenantTx};

/// The most labels of a rule.
pub const MAX_RULE_LABELS: usize = 20;
/// How long an event waits for the labels of its group.
pub const LABEL_WAIT_TIMEOUT: Duration = Duration::minutes(5);
/// The interval between two looks at the labels of a group.
const LABEL_LOOK_INTERVAL: Duration = Duration::seconds(5);
/// Events of a rule that one step looks at.
const EVENTS_LIMIT: i64 = 200;

/// Looks at the labels of the groups of a rule's events that are due: the rule gets an event, the event is dropped, or it waits on.
/// Returns the number of events that the rule gets.
pub async fn route_events(tx: &mut TenantTx, rule: AlertRuleId) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let routed = sqlx::query!(
        r#"WITH due AS MATERIALIZED (
               SELECT e.cause, e.occurred_at <= $4 AS is_late,
                      substring(e.path FROM '^/console/groups/([0-9a-f-]{36})$')::uuid AS id
               FROM alert_events e WHERE e.tenant = $1 AND e.rule = $2 AND e.route_at <= $3
               ORDER BY e.route_at, e.cause LIMIT $6 FOR NO KEY UPDATE SKIP LOCKED
           ), labelled AS (
               SELECT d.cause, d.is_late, ARRAY(
                          SELECT l.label FROM groups g JOIN group_labels l ON l.tenant = $1 AND l.group_id = coalesce(g.merged_into, g.id)
                          WHERE g.tenant = $1 AND g.id = coalesce(
                              (SELECT r.target FROM group_redirects r WHERE r.tenant = $1 AND r.id = d.id), d.id)) AS labels
               FROM due d
           ), wanted AS (
               SELECT w.label, split_part(w.label, ':', 1) || ':' AS word
               FROM alert_rules r CROSS JOIN LATERAL unnest(r.labels) AS w (label) WHERE r.tenant = $1 AND r.id = $2
           ), judged AS (
               -- A rule that has no labels any more is about all groups.
               SELECT d.cause, d.is_late, coalesce(bool_and(k.is_known), true) AS is_known,
                      coalesce(bool_or(w.label = ANY (d.labels) OR d.is_late AND NOT k.is_known AND w.label = w.word || 'none')
                               FILTER (WHERE w.label IS NOT NULL), true) AS is_met
               FROM labelled d
               LEFT JOIN wanted w ON true
               LEFT JOIN LATERAL (SELECT EXISTS (SELECT FROM unnest(d.labels) AS o (label) WHERE starts_with(o.label, w.word))
                                         AS is_known) k ON w.label IS NOT NULL
               GROUP BY d.cause, d.is_late
           )
           UPDATE alert_events e
           SET route_at = CASE WHEN NOT (j.is_met OR j.is_known OR j.is_late) THEN $5::timestamptz END,
               dropped = NOT j.is_met AND (j.is_known OR j.is_late)
           FROM judged j WHERE e.tenant = $1 AND e.rule = $2 AND e.cause = j.cause
           RETURNING e.headline, e.app, e.path, j.is_met AS "is_met!""#,
        tenant,
        rule as AlertRuleId,
        now,
        now - LABEL_WAIT_TIMEOUT,
        now + LABEL_LOOK_INTERVAL,
        EVENTS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let told = routed.into_iter().filter(|event| event.is_met);
    announce_events(tx, told.map(|event| (rule, event.headline, event.app, event.path))).await
}
