//! How far the bodies of a tenant were looked at, and which process looks.

use time::{Date, Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{GroupId, Result, Store, TenantTx};

/// How long a process looks at the bodies of a tenant that it has claimed. After that another one may.
const TURN_LEASE: Duration = Duration::minutes(5);

/// How far the bodies of a tenant were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyTurn {
    /// All bodies that were stored up to this time were.
    pub swept_to: OffsetDateTime,
    /// The next day of which bodies that still wait for symbols are.
    pub wait_day: Date,
    /// The last group of that day that was.
    pub wait_group: Option<GroupId>,
}

/// Returns tenants with bodies to be looked at, by name from the one after `after` on.
pub async fn list_due_tenants(store: &Store, after: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_body_caps_due($1, $2, $3) -- refresh"#,
        store.now(),
        after,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the turn of the transaction's tenant for this process. Returns false if it is not due.
pub async fn claim_turn(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query!(
        "UPDATE body_cap_turns SET next_at = $3 WHERE tenant = $1 AND next_at <= $2",
        tenant,
        now,
        now + TURN_LEASE
    );
    Ok(claimed.execute(connection).await?.rows_affected() > 0)
}

/// Ends a turn. The next one is due after a pause.
pub async fn end_turn(tx: &mut TenantTx, pause: Duration) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!("UPDATE body_cap_turns SET next_at = $2 WHERE tenant = $1", tenant, now + pause)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads how far the bodies were looked at, and keeps other processes from going on until the transaction ends. Returns None if the
/// tenant has no cap any more.
pub async fn hold_turn(tx: &mut TenantTx) -> Result<Option<BodyTurn>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        BodyTurn,
        r#"SELECT swept_to, wait_day, wait_group AS "wait_group: GroupId" FROM body_cap_turns WHERE tenant = $1 FOR UPDATE"#,
        tenant
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Records that all bodies that were stored up to a time were looked at.
pub async fn record_slice(tx: &mut TenantTx, swept_to: OffsetDateTime) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("UPDATE body_cap_turns SET swept_to = $2 WHERE tenant = $1", tenant, swept_to)
        .execute(connection)
        .await?;
    Ok(())
}

/// Records the day of which bodies that wait are looked at next, and its last group that was.
pub async fn record_waiting(tx: &mut TenantTx, day: Date, group: Option<GroupId>) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE body_cap_turns SET wait_day = $2, wait_group = $3 WHERE tenant = $1",
        tenant,
        day,
        group as Option<GroupId>
    )
    .execute(connection)
    .await?;
    Ok(())
}
