//! Turns of tenants: one process at a time sends the events of a tenant.

use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{Result, Store, TenantTx};

/// How long a process sends at most. Longer than a turn takes.
const SEND_LEASE: Duration = Duration::minutes(2);

/// The turn of a tenant that this process has.
#[derive(Clone, Copy, Debug)]
pub struct ClaimedTurn {
    /// True if the tenant is deleted. Its one event may be sent by two processes: no row can be written for it, so there is no lease.
    pub is_deleted: bool,
    pub leased_until: OffsetDateTime,
    /// Turns in a row that failed.
    pub failures: i32,
}

/// The end of a turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd {
    /// The pause until the next turn.
    pub pause: Duration,
    /// Turns in a row that failed.
    pub failures: i32,
}

/// Returns tenants with events that are to be sent, beginning with the one after `last`.
pub async fn list_due(store: &Store, last: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_stored_events_due($1, $2, $3)"#,
        store.now(),
        last,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Returns the time of the oldest event that waits, of any tenant.
pub async fn find_oldest(store: &Store) -> Result<Option<OffsetDateTime>> {
    let oldest = sqlx::query_scalar!("SELECT unslide_stored_events_oldest()");
    Ok(oldest.fetch_one(store.pool()).await?)
}

/// Claims the turn of the transaction's tenant for this process. Returns None if it is not due, or another process sends.
pub async fn claim_turn(tx: &mut TenantTx) -> Result<Option<ClaimedTurn>> {
    let Some(owner) = tenants::get(tx).await? else { return Ok(None) };
    let leased_until = tx.now() + SEND_LEASE;
    if owner.state == TenantStanding::Deleted {
        return Ok(Some(ClaimedTurn { is_deleted: true, leased_until, failures: 0 }));
    }
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        ClaimedTurn,
        r#"INSERT INTO stored_event_turns AS t (tenant, next_send_at, leased_until) VALUES ($1, $2, $3)
           ON CONFLICT (tenant) DO UPDATE SET leased_until = $3
           WHERE t.next_send_at <= $2 AND (t.leased_until IS NULL OR t.leased_until <= $2)
           RETURNING false AS "is_deleted!", leased_until AS "leased_until!", failures"#,
        tenant,
        now,
        leased_until
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Records the end of a turn, unless it is no longer this process's.
pub async fn finish_turn(tx: &mut TenantTx, claimed: &ClaimedTurn, end: TurnEnd) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE stored_event_turns SET leased_until = NULL, next_send_at = $3, failures = $4 WHERE tenant = $1 AND leased_until = $2",
        tenant,
        claimed.leased_until,
        now + end.pause,
        end.failures
    )
    .execute(connection)
    .await?;
    Ok(())
}
