//! Who did what. Entries are only ever added.

use crate::{OwnerTx, Result};
use time::OffsetDateTime;

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// When.
    pub at: OffsetDateTime,
    /// Who: a key's id, or `operator`, or a service.
    pub actor: String,
    /// What was done, such as `key.create`.
    pub action: String,
    /// To what: an id.
    pub subject: String,
    /// More, without personal data.
    pub detail: serde_json::Value,
}

/// Adds an entry, in the transaction that does what it tells of.
///
/// # Errors
/// Where the database fails.
pub async fn append(
    tx: &mut OwnerTx,
    actor: &str,
    action: &str,
    subject: &str,
    detail: &serde_json::Value,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO audit_log (id, tenant, at, actor, action, subject, detail)
         VALUES (unslide_uuid($2), $1, $2, $3, $4, $5, $6)",
        tenant,
        now,
        actor,
        action,
        subject,
        detail
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest entries, newest first.
///
/// # Errors
/// Where the database fails.
pub async fn newest(tx: &mut OwnerTx, limit: u32) -> Result<Vec<AuditEntry>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AuditEntry,
        "SELECT at, actor, action, subject, detail FROM audit_log
         WHERE tenant = $1 ORDER BY at DESC, id DESC LIMIT $2",
        tenant,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}
