//! The work on tickets: requests that are written with their cause, and that one process at a time works on.

use crate::ticket::TicketMarker;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::groups::GroupEvent;
use unslide_store::sql::{TenantColumn, words};
use unslide_store::{GroupId, Result, Store, TenantTx};

/// How long a process works on a request at most. Longer than the work takes.
const REQUEST_LEASE: Duration = Duration::minutes(5);
/// The interval between two readings of a ticket without a hook.
const READ_INTERVAL: Duration = Duration::days(1);
/// How old a report may be that reopens a ticket: older ones come by a replay of the topic.
const REOPENING_MAX_AGE: Duration = Duration::days(1);
/// Tickets that are made in a tracker within a minute. GitHub takes 80.
const CREATED_PER_MINUTE: i64 = 60;

words! {
    /// A kind of work on a ticket.
    pub enum TicketAction {
        Create = "create",
        /// Read its state, and act on what changed.
        Read = "read",
        /// Reopen it, because its group came back.
        Reopen = "reopen",
    }
}

/// A request that this process works on.
#[derive(Clone, Debug)]
pub struct ClaimedRequest {
    pub group: GroupId,
    /// The marker of the ticket. Another one says that a person has linked another ticket since.
    pub marker: TicketMarker,
    pub action: TicketAction,
    pub tracker: String,
    /// When the tracker's settings were changed last.
    pub tracker_changed_at: OffsetDateTime,
    /// Failures of the tracker in a row.
    pub tracker_failures: i32,
    pub asked_at: OffsetDateTime,
    pub version: Option<String>,
    /// Which attempt this is, from 1.
    pub attempts: i32,
    pub leased_until: OffsetDateTime,
}

/// Returns tenants with work that is due, from the one after `last` on.
pub async fn list_due(store: &Store, last: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_ticket_tenants($1, $2, $3)"#,
        store.now(),
        last,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the request of the transaction's tenant that has waited longest. Commit before the work. A ticket is not read while its
/// group waits for it to be reopened: what was read would undo the regression.
pub async fn claim_request(tx: &mut TenantTx) -> Result<Option<ClaimedRequest>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        ClaimedRequest,
        r#"UPDATE ticket_requests r SET attempts = r.attempts + 1, leased_until = $3
           FROM (SELECT o.group_id, o.action, k.changed_at, k.failures, t.marker FROM ticket_requests o
                 JOIN trackers k ON k.tenant = $1 AND k.name = o.tracker
                 JOIN tickets t ON t.tenant = $1 AND t.group_id = o.group_id
                 WHERE o.tenant = $1 AND o.due_at <= $2 AND (o.leased_until IS NULL OR o.leased_until <= $2)
                   AND (k.not_before IS NULL OR k.not_before <= $2)
                   AND (o.action <> 'create' OR $4 > (SELECT count(*) FROM tickets s
                        WHERE s.tenant = $1 AND s.tracker = o.tracker AND s.sent_at > $5))
                   AND (o.action <> 'read' OR NOT EXISTS (SELECT FROM ticket_requests w
                        WHERE w.tenant = $1 AND w.group_id = o.group_id AND w.action = 'reopen'))
                 ORDER BY o.due_at, o.group_id, o.action LIMIT 1 FOR UPDATE OF o SKIP LOCKED) n
           WHERE r.tenant = $1 AND r.group_id = n.group_id AND r.action = n.action
           RETURNING r.group_id AS "group: GroupId", n.marker AS "marker: TicketMarker", r.action AS "action: TicketAction",
                     r.tracker, n.changed_at AS tracker_changed_at, n.failures AS tracker_failures, r.asked_at, r.version,
                     r.attempts, r.leased_until AS "leased_until!""#,
        tenant,
        now,
        now + REQUEST_LEASE,
        CREATED_PER_MINUTE,
        now - Duration::minutes(1)
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Ends a request, unless it was asked for again since: then it is due as that says. A request to read is due again after a day.
pub async fn complete_request(tx: &mut TenantTx, done: &ClaimedRequest) -> Result<()> {
    if done.action != TicketAction::Read {
        return drop_request(tx, done).await;
    }
    postpone_request(tx, done, READ_INTERVAL, None).await
}

/// Deletes a request, unless it was asked for again since: then its attempts begin again.
pub async fn drop_request(tx: &mut TenantTx, ended: &ClaimedRequest) -> Result<()> {
    postpone_request(tx, ended, Duration::ZERO, None).await?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM ticket_requests
         WHERE tenant = $1 AND group_id = $2 AND action = $3 AND asked_at = $4 AND leased_until IS NULL",
        tenant,
        ended.group as GroupId,
        ended.action.as_str(),
        ended.asked_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Puts a request off, unless it was asked for again since: then it is due as that says. `attempts` are those so far; None if
/// it begins again.
pub async fn postpone_request(
    tx: &mut TenantTx,
    claimed: &ClaimedRequest,
    pause: Duration,
    attempts: Option<i32>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE ticket_requests
         SET leased_until = NULL, attempts = $5, due_at = CASE WHEN asked_at > $7 THEN due_at ELSE $4 END
         WHERE tenant = $1 AND group_id = $2 AND action = $3 AND leased_until = $6",
        tenant,
        claimed.group as GroupId,
        claimed.action.as_str(),
        now + pause,
        attempts.unwrap_or(0),
        claimed.leased_until,
        claimed.asked_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Has tickets read again, by the tracker's names of them. A hook gives one or two.
pub async fn request_read(tx: &mut TenantTx, tracker: &str, names: &[String]) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
         SELECT $1, t.group_id, 'read', $2, $4, $4 FROM (
             SELECT group_id FROM tickets WHERE tenant = $1 AND tracker = $2 AND ticket_id = ANY ($3)
             ORDER BY group_id FOR KEY SHARE) t
         ON CONFLICT (tenant, group_id, action) DO UPDATE SET asked_at = $4, due_at = $4",
        tenant,
        tracker,
        names,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Has the tickets of groups reopened that came back, in the transaction of the reports.
pub async fn request_reopen(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    let oldest = tx.now() - REOPENING_MAX_AGE;
    let (mut groups, mut versions) = (Vec::new(), Vec::new());
    for event in events {
        if let GroupEvent::Regressed { group, version, received_at, .. } = event
            && *received_at >= oldest
        {
            groups.push(*group);
            versions.push(version.clone());
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at, version)
         SELECT $1, f.group_id, 'reopen', f.tracker, $4, $4, f.version
         FROM (SELECT DISTINCT ON (n.id) t.group_id, t.tracker, n.version
               FROM unnest($2::uuid[], $3::text[]) AS n (id, version)
               JOIN groups g ON g.tenant = $1 AND (g.id = n.id OR g.merged_into = n.id)
               JOIN tickets t ON t.tenant = $1 AND t.group_id = g.id AND t.ticket_id IS NOT NULL
               ORDER BY n.id, g.id <> n.id, t.created_at, t.group_id) f
         ORDER BY f.group_id
         ON CONFLICT (tenant, group_id, action) DO UPDATE SET asked_at = $4, due_at = $4, version = EXCLUDED.version",
        tenant,
        &groups as &[GroupId],
        &versions,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
