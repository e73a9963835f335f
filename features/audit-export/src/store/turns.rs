//! The turns of receivers: which are due, which process sends, and which entries were taken.

use crate::target::AuditReceiverKind;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};

/// How long a process sends at most. Longer than a turn takes.
const SEND_LEASE: Duration = Duration::minutes(5);

/// A receiver with a claimed turn. The turn ends if the receiver is set again or removed, or another process claims it.
#[derive(Clone, Debug)]
pub struct ClaimedReceiver {
    pub name: String,
    pub kind: AuditReceiverKind,
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    /// The place in the log of the last entry that the receiver has taken.
    pub position: i64,
    pub changed_at: OffsetDateTime,
    pub leased_until: OffsetDateTime,
    /// Turns in a row that failed.
    pub failures: i32,
}

/// Returns tenants with entries that are to be sent, from the one after `last` on.
pub async fn list_due(store: &Store, last: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_audit_receivers_due($1, $2, $3)"#,
        store.now(),
        last,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Returns the time of the oldest entry that a receiver of any tenant lacks.
pub async fn oldest_unsent(store: &Store) -> Result<Option<OffsetDateTime>> {
    let oldest = sqlx::query_scalar!("SELECT unslide_audit_receivers_oldest()");
    Ok(oldest.fetch_one(store.pool()).await?)
}

/// Claims the turns of the tenant's receivers with new entries for this process, but for those that are not due or that another process
/// sends to.
pub async fn claim_receivers(tx: &mut TenantTx) -> Result<Vec<ClaimedReceiver>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        ClaimedReceiver,
        r#"WITH locked AS (
               SELECT r.name FROM audit_receivers r
               WHERE r.tenant = $1 AND r.next_send_at <= $2 AND (r.leased_until IS NULL OR r.leased_until <= $2)
                 AND EXISTS (SELECT FROM audit_log l WHERE l.tenant = $1 AND l.position > r.position)
               ORDER BY r.name FOR UPDATE OF r SKIP LOCKED)
           UPDATE audit_receivers r SET leased_until = $3
           FROM locked WHERE r.tenant = $1 AND r.name = locked.name
           RETURNING r.name, r.kind AS "kind: AuditReceiverKind", r.shown_address, r.sealed_target, r.position, r.changed_at,
                     r.leased_until AS "leased_until!", r.failures"#,
        tenant,
        now,
        now + SEND_LEASE
    );
    Ok(claimed.fetch_all(connection).await?)
}

/// Returns true if a turn still is this process's, with the receiver as it claimed it.
pub async fn is_current_turn(tx: &mut TenantTx, claimed: &ClaimedReceiver) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT name FROM audit_receivers WHERE tenant = $1 AND name = $2 AND changed_at = $3 AND leased_until = $4",
        tenant,
        claimed.name,
        claimed.changed_at,
        claimed.leased_until
    );
    Ok(found.fetch_optional(connection).await?.is_some())
}

/// Records that the receiver has taken the entries up to a place. Returns false if the turn is no longer this process's.
pub async fn record_sent(tx: &mut TenantTx, claimed: &ClaimedReceiver, position: i64) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let recorded = sqlx::query!(
        "UPDATE audit_receivers SET position = $5, sent_at = $6, failures = 0, problem = NULL
         WHERE tenant = $1 AND name = $2 AND changed_at = $3 AND leased_until = $4",
        tenant,
        claimed.name,
        claimed.changed_at,
        claimed.leased_until,
        position,
        now
    );
    Ok(recorded.execute(connection).await?.rows_affected() > 0)
}

/// Records the end of a turn, unless it is no longer this process's: with a problem, one more has failed.
pub async fn finish_turn(
    tx: &mut TenantTx,
    claimed: &ClaimedReceiver,
    pause: Duration,
    problem: Option<&str>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE audit_receivers
         SET leased_until = NULL, next_send_at = $5, problem = $6,
             failures = CASE WHEN $6::text IS NULL THEN 0 ELSE failures + 1 END
         WHERE tenant = $1 AND name = $2 AND changed_at = $3 AND leased_until = $4",
        tenant,
        claimed.name,
        claimed.changed_at,
        claimed.leased_until,
        now + pause,
        problem
    )
    .execute(connection)
    .await?;
    Ok(())
}
