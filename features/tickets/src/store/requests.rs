//! The work on tickets: requests that are written with their cause, and that one process at a time works on.

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
    pub action: TicketAction,
    pub tracker: String,
    pub asked_at: OffsetDateTime,
    pub version: Option<String>,
    /// Which attempt this is, from 1.
    pub attempts: i32,
    pub leased_until: OffsetDateTime,
}

/// Returns tenants with work that is due.
pub async fn list_due(store: &Store, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_tickets_due($1, $2)"#,
        store.now(),
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the request of the transaction's tenant that has waited longest. Commit before the work.
pub async fn claim_request(tx: &mut TenantTx) -> Result<Option<ClaimedRequest>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        ClaimedRequest,
        r#"UPDATE ticket_requests r SET attempts = r.attempts + 1, leased_until = $3
           FROM (SELECT o.group_id, o.action FROM ticket_requests o
                 JOIN trackers k ON k.tenant = $1 AND k.name = o.tracker
                 WHERE o.tenant = $1 AND o.due_at <= $2 AND (o.leased_until IS NULL OR o.leased_until <= $2)
                   AND (k.not_before IS NULL OR k.not_before <= $2)
                   AND (o.action <> 'create' OR $4 > (SELECT count(*) FROM tickets t
                        WHERE t.tenant = $1 AND t.tracker = o.tracker AND t.sent_at > $5))
                 ORDER BY o.due_at, o.group_id, o.action LIMIT 1 FOR UPDATE OF o SKIP LOCKED) n
           WHERE r.tenant = $1 AND r.group_id = n.group_id AND r.action = n.action
           RETURNING r.group_id AS "group: GroupId", r.action AS "action: TicketAction", r.tracker, r.asked_at, r.version,
                     r.attempts, r.leased_until AS "leased_until!""#,
        tenant,
        now,
        now + REQUEST_LEASE,
        CREATED_PER_MINUTE,
        now - Duration::minutes(1)
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Ends a request, unless it was asked for again since. A request to read is due again after a day.
pub async fn complete_request(tx: &mut TenantTx, done: &ClaimedRequest) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE ticket_requests
         SET leased_until = NULL, attempts = 0, due_at = CASE WHEN asked_at > $4 THEN due_at ELSE $5 END
         WHERE tenant = $1 AND group_id = $2 AND action = $3 AND leased_until = $6",
        tenant,
        done.group as GroupId,
        done.action.as_str(),
        done.asked_at,
        now + READ_INTERVAL,
        done.leased_until
    )
    .execute(&mut *connection)
    .await?;
    if done.action != TicketAction::Read {
        sqlx::query!(
            "DELETE FROM ticket_requests WHERE tenant = $1 AND group_id = $2 AND action = $3 AND asked_at = $4",
            tenant,
            done.group as GroupId,
            done.action.as_str(),
            done.asked_at
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Gives up a request.
pub async fn drop_request(tx: &mut TenantTx, failed: &ClaimedRequest) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM ticket_requests WHERE tenant = $1 AND group_id = $2 AND action = $3 AND leased_until = $4",
        tenant,
        failed.group as GroupId,
        failed.action.as_str(),
        failed.leased_until
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Puts a request off. It was no attempt if the tracker takes no requests now.
pub async fn postpone_request(
    tx: &mut TenantTx,
    claimed: &ClaimedRequest,
    pause: Duration,
    is_attempt: bool,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE ticket_requests SET leased_until = NULL, due_at = $4, attempts = $5
         WHERE tenant = $1 AND group_id = $2 AND action = $3 AND leased_until = $6",
        tenant,
        claimed.group as GroupId,
        claimed.action.as_str(),
        now + pause,
        claimed.attempts - i32::from(!is_attempt),
        claimed.leased_until
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
         SELECT $1, t.group_id, 'read', $2, $4, $4 FROM tickets t
         WHERE t.tenant = $1 AND t.tracker = $2 AND t.ticket_id = ANY ($3) ORDER BY t.group_id
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
         SELECT DISTINCT ON (t.group_id) $1, t.group_id, 'reopen', t.tracker, $4, $4, n.version
         FROM unnest($2::uuid[], $3::text[]) AS n (id, version)
         JOIN tickets t ON t.tenant = $1 AND t.group_id = n.id AND t.ticket_id IS NOT NULL ORDER BY t.group_id
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
