//! The receivers of a tenant.

use crate::target::AuditReceiverKind;
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx};

/// A receiver of the log, as stored.
#[derive(Clone, Debug)]
pub struct ReceiverRow {
    pub name: String,
    pub kind: AuditReceiverKind,
    /// The part of the address that may be shown.
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    /// The place in the log of the last entry that the receiver has taken.
    pub position: i64,
    pub changed_at: OffsetDateTime,
    pub next_send_at: OffsetDateTime,
    /// When the receiver took entries last.
    pub sent_at: Option<OffsetDateTime>,
    /// Turns in a row that failed.
    pub failures: i32,
    /// Why the last one did.
    pub problem: Option<String>,
}

/// A receiver to be set.
#[derive(Clone, Debug)]
pub struct NewReceiverRow {
    pub name: String,
    pub kind: AuditReceiverKind,
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    /// The place after which it begins. None: an existing receiver goes on from its own place, and a new one begins with the next entry.
    pub position: Option<i64>,
}

/// Returns the receivers of the transaction's tenant by name.
pub async fn list_receivers(tx: &mut TenantTx) -> Result<Vec<ReceiverRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        ReceiverRow,
        r#"SELECT name, kind AS "kind: AuditReceiverKind", shown_address, sealed_target, position, changed_at, next_send_at, sent_at,
                  failures, problem
           FROM audit_receivers WHERE tenant = $1 ORDER BY name"#,
        tenant
    );
    Ok(rows.fetch_all(connection).await?)
}

/// Lets one change of the receivers of the transaction's tenant wait for the end of another, and returns them.
pub async fn lock_receivers(tx: &mut TenantTx) -> Result<Vec<ReceiverRow>> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('audit receivers of ' || $1::text, 0))",
        tenant
    )
    .execute(connection)
    .await?;
    list_receivers(tx).await
}

/// Sets a receiver. What waits for it is sent at once.
pub async fn set_receiver(tx: &mut TenantTx, new: &NewReceiverRow) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO audit_receivers (tenant, name, kind, shown_address, sealed_target, position, changed_at, next_send_at)
         VALUES ($1, $2, $3, $4, $5,
                 coalesce($6, (SELECT max(l.position) FROM audit_log l WHERE l.tenant = $1), 0), $7, $7)
         ON CONFLICT (tenant, name) DO UPDATE
         SET kind = $3, shown_address = $4, sealed_target = $5, position = coalesce($6, audit_receivers.position), changed_at = $7,
             next_send_at = $7, leased_until = NULL, failures = 0, problem = NULL",
        tenant,
        new.name,
        new.kind.as_str(),
        new.shown_address,
        new.sealed_target,
        new.position,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes a receiver. Returns false if there is none.
pub async fn remove_receiver(tx: &mut TenantTx, name: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed = sqlx::query!("DELETE FROM audit_receivers WHERE tenant = $1 AND name = $2", tenant, name);
    Ok(removed.execute(connection).await?.rows_affected() > 0)
}
