//! The ticket of a group.

use crate::ticket::{RemoteTicket, TicketMarker, TicketState};
use time::OffsetDateTime;
use unslide_store::{GroupId, Result, TenantTx};

/// A stored ticket.
#[derive(Clone, Debug)]
pub struct StoredTicket {
    pub group: GroupId,
    pub tracker: String,
    pub marker: TicketMarker,
    pub state: TicketState,
    /// When a request was sent that may have made it.
    pub sent_at: Option<OffsetDateTime>,
    pub ticket_id: Option<String>,
    pub ticket_key: Option<String>,
    pub url: Option<String>,
    pub fix_version: Option<String>,
    pub created_at: OffsetDateTime,
    pub read_at: Option<OffsetDateTime>,
    pub told_at: Option<OffsetDateTime>,
    pub problem: Option<String>,
}

/// A ticket to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewTicketRow<'n> {
    pub group: GroupId,
    pub tracker: &'n str,
    pub asked_by: &'n str,
}

/// Returns the ticket of a group.
pub async fn get_ticket(tx: &mut TenantTx, group: GroupId) -> Result<Option<StoredTicket>> {
    let (connection, tenant, _) = tx.parts();
    let ticket = sqlx::query_as!(
        StoredTicket,
        r#"SELECT group_id AS "group: GroupId", tracker, marker AS "marker: TicketMarker", state AS "state: TicketState", sent_at,
                  ticket_id, ticket_key, url, fix_version, created_at, read_at, told_at, problem
           FROM tickets WHERE tenant = $1 AND group_id = $2"#,
        tenant,
        group as GroupId
    );
    Ok(ticket.fetch_optional(connection).await?)
}

/// Has a ticket made, unless the group has one or it is being made. A request that may have made one keeps its marker and tracker.
pub async fn add_ticket(tx: &mut TenantTx, new: NewTicketRow<'_>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH ticket AS (
             INSERT INTO tickets AS t (tenant, group_id, tracker, marker, state, asked_by, created_at)
             VALUES ($1, $2, $3, gen_random_uuid(), 'creating', $4, $5)
             ON CONFLICT (tenant, group_id) DO UPDATE
             SET state = 'creating', problem = NULL, asked_by = $4,
                 tracker = CASE WHEN t.sent_at IS NULL THEN $3 ELSE t.tracker END
             WHERE t.ticket_id IS NULL
             RETURNING tracker)
         INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
         SELECT $1, $2, 'create', ticket.tracker, $5, $5 FROM ticket
         ON CONFLICT (tenant, group_id, action) DO UPDATE SET due_at = $5, tracker = EXCLUDED.tracker",
        tenant,
        new.group as GroupId,
        new.tracker,
        new.asked_by,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Links a group to a ticket that a person made, in place of one that was not made, and has it read.
pub async fn link_ticket(
    tx: &mut TenantTx,
    new: NewTicketRow<'_>,
    ticket_id: &str,
    ticket_key: &str,
    url: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH former AS (DELETE FROM ticket_requests WHERE tenant = $1 AND group_id = $2 RETURNING action)
         INSERT INTO tickets (tenant, group_id, tracker, marker, state, asked_by, created_at, ticket_id, ticket_key, url)
         SELECT $1, $2, $3, gen_random_uuid(), 'open', $4, $5, $6, $7, $8 FROM (SELECT count(*) FROM former) f
         ON CONFLICT (tenant, group_id) DO UPDATE
         SET tracker = $3, state = 'open', asked_by = $4, ticket_id = $6, ticket_key = $7, url = $8, sent_at = NULL,
             fix_version = NULL, read_at = NULL, problem = NULL",
        tenant,
        new.group as GroupId,
        new.tracker,
        new.asked_by,
        now,
        ticket_id,
        ticket_key,
        url
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at) VALUES ($1, $2, 'read', $3, $4, $4)
         ON CONFLICT (tenant, group_id, action) DO UPDATE SET tracker = $3, asked_at = $4, due_at = $4",
        tenant,
        new.group as GroupId,
        new.tracker,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that the request is about to be sent. Returns false if a person has linked another ticket, or another process works on it:
/// then it must not be sent.
pub async fn mark_sent(tx: &mut TenantTx, group: GroupId, lease: OffsetDateTime) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let marked = sqlx::query!(
        "UPDATE tickets t SET sent_at = $4 FROM ticket_requests r
         WHERE t.tenant = $1 AND t.group_id = $2 AND t.ticket_id IS NULL AND r.tenant = $1 AND r.group_id = $2
           AND r.action = 'create' AND r.leased_until = $3 AND r.leased_until > $4",
        tenant,
        group as GroupId,
        lease,
        now
    );
    Ok(marked.execute(connection).await?.rows_affected() > 0)
}

/// Records that the tracker has refused the ticket: no request of before can have made it.
pub async fn record_refused(tx: &mut TenantTx, group: GroupId) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE tickets SET sent_at = NULL WHERE tenant = $1 AND group_id = $2 AND ticket_id IS NULL",
        tenant,
        group as GroupId
    );
    changed.execute(connection).await?;
    Ok(())
}

/// Records why there is no ticket, or why it could not be read or changed.
pub async fn fail_ticket(tx: &mut TenantTx, group: GroupId, problem: &str) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET problem = $3, state = CASE WHEN ticket_id IS NULL THEN 'failed' ELSE state END
         WHERE tenant = $1 AND group_id = $2",
        tenant,
        group as GroupId,
        problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records a ticket as the tracker has it.
pub async fn record_ticket(tx: &mut TenantTx, group: GroupId, remote: &RemoteTicket) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET ticket_id = $3, ticket_key = $4, url = $5, state = $6, fix_version = $7, read_at = $8, problem = NULL
         WHERE tenant = $1 AND group_id = $2",
        tenant,
        group as GroupId,
        remote.id,
        remote.key,
        remote.url,
        remote.state.as_str(),
        remote.fix_version,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that the tracker does not have a ticket any more.
pub async fn record_lost(tx: &mut TenantTx, group: GroupId, problem: &str) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET state = 'lost', problem = $3, read_at = $4 WHERE tenant = $1 AND group_id = $2",
        tenant,
        group as GroupId,
        problem,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that a comment about a regression is about to be sent. Returns false if one was: it is sent at most once.
pub async fn mark_told(tx: &mut TenantTx, group: GroupId, regressed_at: OffsetDateTime) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let marked = sqlx::query!(
        "UPDATE tickets SET told_at = $3 WHERE tenant = $1 AND group_id = $2 AND (told_at IS NULL OR told_at < $3)",
        tenant,
        group as GroupId,
        regressed_at
    );
    Ok(marked.execute(connection).await?.rows_affected() > 0)
}

/// Records that the tracker has refused the comment: the one before is the newest again.
pub async fn restore_told(tx: &mut TenantTx, group: GroupId, told_at: Option<OffsetDateTime>) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE tickets SET told_at = $3 WHERE tenant = $1 AND group_id = $2",
        tenant,
        group as GroupId,
        told_at
    );
    changed.execute(connection).await?;
    Ok(())
}

/// Gives the tickets of groups that are gone to the groups that replaced them, unless these have one. The others lose their link.
pub(super) async fn hand_over(tx: &mut TenantTx, groups: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tickets t SET group_id = n.target
         FROM (SELECT DISTINCT ON (r.target) r.id, r.target FROM group_redirects r
               JOIN tickets o ON o.tenant = $1 AND o.group_id = r.id
               WHERE r.tenant = $1 AND r.id = ANY ($2)
                 AND NOT EXISTS (SELECT FROM tickets x WHERE x.tenant = $1 AND x.group_id = r.target)
               ORDER BY r.target, o.created_at) n
         WHERE t.tenant = $1 AND t.group_id = n.id",
        tenant,
        groups as &[GroupId]
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM tickets WHERE tenant = $1 AND group_id = ANY ($2)",
        tenant,
        groups as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}
