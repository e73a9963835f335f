//! The rule of a tracker: groups that are new and frequent get a ticket.

use time::Duration;
use unslide_store::{Result, TenantTx};

/// The interval between two looks for groups.
const LOOK_INTERVAL: Duration = Duration::minutes(1);
/// Tickets that one look has made in a tracker.
const LOOK_LIMIT: i64 = 20;
/// The longest time after its first report in which a group counts as new.
const NEW_FOR: Duration = Duration::days(30);

/// Has tickets made for the groups that fulfil the rules of trackers that are due. Returns their number.
pub async fn add_tickets_by_rule(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let due = sqlx::query_scalar!(
        "UPDATE trackers k SET next_look_at = $3 FROM (
             SELECT name FROM trackers WHERE tenant = $1 AND rule_reports IS NOT NULL AND next_look_at <= $2
             ORDER BY name FOR UPDATE SKIP LOCKED) n
         WHERE k.tenant = $1 AND k.name = n.name RETURNING k.name",
        tenant,
        now,
        now + LOOK_INTERVAL
    )
    .fetch_all(&mut *connection)
    .await?;
    if due.is_empty() {
        return Ok(0);
    }
    let added = sqlx::query!(
        "WITH found AS (
             SELECT DISTINCT ON (g.id) g.id, k.name
             FROM trackers k CROSS JOIN LATERAL (
                 SELECT o.id FROM groups o
                 WHERE o.tenant = $1 AND (k.rule_app IS NULL OR o.app = k.rule_app) AND o.last_seen >= k.rule_since
                   AND o.first_seen >= greatest(k.rule_since, $4) AND o.reports >= k.rule_reports AND NOT o.provisional
                   AND o.merged_into IS NULL AND o.ticket_url IS NULL AND o.status IN ('open', 'regressed')
                   AND NOT EXISTS (SELECT FROM tickets t WHERE t.tenant = $1 AND t.group_id = o.id)
                   AND NOT EXISTS (SELECT FROM groups m JOIN tickets t ON t.tenant = $1 AND t.group_id = m.id
                                   WHERE m.tenant = $1 AND m.merged_into = o.id)
                 ORDER BY o.last_seen DESC, o.id DESC LIMIT $5) g
             WHERE k.tenant = $1 AND k.name = ANY ($2) ORDER BY g.id, k.name
         ), ticket AS (
             INSERT INTO tickets (tenant, group_id, tracker, marker, state, asked_by, created_at)
             SELECT $1, id, name, gen_random_uuid(), 'creating', 'rule', $3 FROM found
             ON CONFLICT DO NOTHING RETURNING group_id, tracker)
         INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
         SELECT $1, group_id, 'create', tracker, $3, $3 FROM ticket ON CONFLICT DO NOTHING",
        tenant,
        &due,
        now,
        now - NEW_FOR,
        LOOK_LIMIT
    );
    Ok(added.execute(connection).await?.rows_affected())
}
