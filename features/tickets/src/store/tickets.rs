//! The ticket of a group.

use crate::ticket::{NamedTicket, RemoteTicket, TicketMarker, TicketState};
use time::OffsetDateTime;
use unslide_store::{GroupId, Result, TenantTx};

/// The ticket of a group, as the database has it.
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

/// Returns the ticket of a group: its own, or the oldest one of the groups that are merged into it. One that exists comes first.
pub async fn get_ticket(tx: &mut TenantTx, group: GroupId) -> Result<Option<StoredTicket>> {
    let (connection, tenant, _) = tx.parts();
    let ticket = sqlx::query_as!(
        StoredTicket,
        r#"SELECT t.group_id AS "group: GroupId", t.tracker, t.marker AS "marker: TicketMarker", t.state AS "state: TicketState",
                  t.sent_at, t.ticket_id, t.ticket_key, t.url, t.fix_version, t.created_at, t.read_at, t.told_at, t.problem
           FROM groups g JOIN tickets t ON t.tenant = $1 AND t.group_id = g.id
           WHERE g.tenant = $1 AND (g.id = $2 OR g.merged_into = $2)
           ORDER BY t.ticket_id IS NULL, g.id <> $2, t.created_at, t.group_id LIMIT 1"#,
        tenant,
        group as GroupId
    );
    Ok(ticket.fetch_optional(connection).await?)
}

/// Returns the ticket with a marker, locked. None if it is gone, or another one is in its place. Its group may have been replaced.
/// Lock the group before.
pub async fn lock_ticket(
    tx: &mut TenantTx,
    group: GroupId,
    marker: TicketMarker,
) -> Result<Option<StoredTicket>> {
    let (connection, tenant, _) = tx.parts();
    let ticket = sqlx::query_as!(
        StoredTicket,
        r#"SELECT group_id AS "group: GroupId", tracker, marker AS "marker: TicketMarker", state AS "state: TicketState", sent_at,
                  ticket_id, ticket_key, url, fix_version, created_at, read_at, told_at, problem
           FROM tickets
           WHERE tenant = $1 AND marker = $3
             AND group_id = coalesce((SELECT r.target FROM group_redirects r WHERE r.tenant = $1 AND r.id = $2), $2)
           FOR NO KEY UPDATE"#,
        tenant,
        group as GroupId,
        marker as TicketMarker
    );
    Ok(ticket.fetch_optional(connection).await?)
}

/// Returns the groups that count for these: those that replaced them, and those that they are merged into. None if there is none.
pub async fn find_counting_groups(tx: &mut TenantTx, groups: &[GroupId]) -> Result<Vec<Option<GroupId>>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT coalesce(g.merged_into, g.id) AS "id?: GroupId" FROM unnest($2::uuid[]) WITH ORDINALITY AS n (id, place)
           LEFT JOIN group_redirects r ON r.tenant = $1 AND r.id = n.id
           LEFT JOIN groups g ON g.tenant = $1 AND g.id = coalesce(r.target, n.id) ORDER BY n.place"#,
        tenant,
        groups as &[GroupId]
    );
    Ok(found.fetch_all(connection).await?)
}

/// Returns true if a ticket waits to be reopened.
pub async fn awaits_reopening(tx: &mut TenantTx, group: GroupId) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let waits = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM ticket_requests WHERE tenant = $1 AND group_id = $2 AND action = 'reopen') AS "waits!""#,
        tenant,
        group as GroupId
    );
    Ok(waits.fetch_one(connection).await?)
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

/// Links a group to a ticket that a person made, in place of one that was not made, and has it read. The new marker keeps work on the
/// ticket before from changing this one. Returns false if a ticket is being made that may exist.
pub async fn link_ticket(tx: &mut TenantTx, new: NewTicketRow<'_>, named: &NamedTicket) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let linked = sqlx::query!(
        "INSERT INTO tickets AS t (tenant, group_id, tracker, marker, state, asked_by, created_at, ticket_id, ticket_key, url)
         VALUES ($1, $2, $3, gen_random_uuid(), 'open', $4, $5, $6, $7, $8)
         ON CONFLICT (tenant, group_id) DO UPDATE
         SET tracker = $3, marker = EXCLUDED.marker, state = 'open', asked_by = $4, ticket_id = $6, ticket_key = $7, url = $8,
             sent_at = NULL, fix_version = NULL, read_at = NULL, told_at = NULL,
             problem = CASE WHEN t.sent_at IS NOT NULL AND t.ticket_id IS NULL
                       THEN 'A ticket that was asked for before may exist, too: close it in the tracker.' END
         WHERE t.state <> 'creating' OR t.sent_at IS NULL OR t.ticket_id IS NOT NULL",
        tenant,
        new.group as GroupId,
        new.tracker,
        new.asked_by,
        now,
        named.id,
        named.key,
        named.url
    );
    if linked.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "WITH former AS (DELETE FROM ticket_requests WHERE tenant = $1 AND group_id = $2 AND action <> 'read')
         INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at) VALUES ($1, $2, 'read', $3, $4, $4)
         ON CONFLICT (tenant, group_id, action) DO UPDATE
         SET tracker = $3, asked_at = $4, due_at = $4, attempts = 0, leased_until = NULL",
        tenant,
        new.group as GroupId,
        new.tracker,
        now
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Records that the request is about to be sent. Returns false if another process works on it: then it must not be sent.
pub async fn mark_sent(
    tx: &mut TenantTx,
    ticket: &StoredTicket,
    leased_until: OffsetDateTime,
) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let marked = sqlx::query!(
        "UPDATE tickets t SET sent_at = $5 FROM ticket_requests r
         WHERE t.tenant = $1 AND t.group_id = $2 AND t.marker = $3 AND t.ticket_id IS NULL AND r.tenant = $1 AND r.group_id = $2
           AND r.action = 'create' AND r.leased_until = $4 AND r.leased_until > $5",
        tenant,
        ticket.group as GroupId,
        ticket.marker as TicketMarker,
        leased_until,
        now
    );
    Ok(marked.execute(connection).await?.rows_affected() > 0)
}

/// Records that the tracker has refused the ticket: no request of before can have made it.
pub async fn record_refused(tx: &mut TenantTx, group: GroupId, marker: TicketMarker) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE tickets SET sent_at = NULL WHERE tenant = $1 AND group_id = $2 AND marker = $3 AND ticket_id IS NULL",
        tenant,
        group as GroupId,
        marker as TicketMarker
    );
    changed.execute(connection).await?;
    Ok(())
}

/// Records why there is no ticket, or why it could not be read or changed.
pub async fn fail_ticket(
    tx: &mut TenantTx,
    group: GroupId,
    marker: TicketMarker,
    problem: &str,
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET problem = $4, state = CASE WHEN ticket_id IS NULL THEN 'failed' ELSE state END
         WHERE tenant = $1 AND group_id = $2 AND marker = $3",
        tenant,
        group as GroupId,
        marker as TicketMarker,
        problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records a ticket as the tracker has it. The ticket is locked.
pub async fn record_ticket(
    tx: &mut TenantTx,
    ticket: &StoredTicket,
    remote: &RemoteTicket,
    problem: Option<&str>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET ticket_id = $4, ticket_key = $5, url = $6, state = $7, fix_version = $8, read_at = $9, problem = $10
         WHERE tenant = $1 AND group_id = $2 AND marker = $3",
        tenant,
        ticket.group as GroupId,
        ticket.marker as TicketMarker,
        remote.id,
        remote.key,
        remote.url,
        remote.state.as_str(),
        remote.fix_version,
        now,
        problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that the tracker does not have a ticket any more.
pub async fn record_lost(
    tx: &mut TenantTx,
    group: GroupId,
    marker: TicketMarker,
    problem: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE tickets SET state = 'lost', problem = $4, read_at = $5 WHERE tenant = $1 AND group_id = $2 AND marker = $3",
        tenant,
        group as GroupId,
        marker as TicketMarker,
        problem,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that a comment about a regression is about to be sent. Returns false if one was: it is sent at most once.
pub async fn mark_told(
    tx: &mut TenantTx,
    ticket: &StoredTicket,
    regressed_at: OffsetDateTime,
) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let marked = sqlx::query!(
        "UPDATE tickets SET told_at = $4
         WHERE tenant = $1 AND group_id = $2 AND marker = $3 AND (told_at IS NULL OR told_at < $4)",
        tenant,
        ticket.group as GroupId,
        ticket.marker as TicketMarker,
        regressed_at
    );
    Ok(marked.execute(connection).await?.rows_affected() > 0)
}

/// Records that the tracker has refused the comment about a regression: the one before is the newest again.
pub async fn restore_told(
    tx: &mut TenantTx,
    ticket: &StoredTicket,
    regressed_at: OffsetDateTime,
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE tickets SET told_at = $5 WHERE tenant = $1 AND group_id = $2 AND marker = $3 AND told_at = $4",
        tenant,
        ticket.group as GroupId,
        ticket.marker as TicketMarker,
        regressed_at,
        ticket.told_at
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
