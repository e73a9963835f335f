//! Who did what. Entries are only ever added. The database numbers them as their transactions commit.

use crate::{AuditEntryId, OwnerTx, Result, Uuid};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AuditEntry {
    /// Id of the entry in the log.
    pub id: Uuid,
    /// Time of the action (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Id of the key that acted, `operator`, or the name of a service.
    #[schema(example = "0198c0de-0000-7000-8000-000000000001")]
    pub actor: String,
    /// Name of the key, if it is the tenant's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The action, such as `key.create`.
    #[schema(example = "key.create")]
    pub action: String,
    /// The object of the action, in most cases an id.
    pub subject: String,
    /// Details of the action, without personal data.
    pub detail: serde_json::Value,
    /// Place of the entry in the log, without gaps: a higher one was committed later. Entries of earlier versions have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub position: Option<i64>,
}

/// Adds an entry, in the transaction that does the action.
pub async fn append_entry(
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

/// Adds entries as [`append_entry`] does, one for each subject.
pub async fn append_entries(
    tx: &mut OwnerTx,
    actor: &str,
    action: &str,
    subjects: &[String],
    detail: &serde_json::Value,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO audit_log (id, tenant, at, actor, action, subject, detail)
         SELECT unslide_uuid($2), $1, $2, $3, $4, s.subject, $6 FROM unnest($5::text[]) s (subject)",
        tenant,
        now,
        actor,
        action,
        subjects,
        detail
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds an entry unless the same actor did the same within the last hour: for what may happen often.
pub async fn append_once_an_hour(tx: &mut OwnerTx, actor: &str, action: &str, subject: &str) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    // Two at once must not both be the first.
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('audit of ' || $1::text || ' ' || $2::text, 0))",
        tenant,
        actor
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO audit_log (id, tenant, at, actor, action, subject)
         SELECT unslide_uuid($2), $1, $2, $3, $4, $5
         WHERE NOT EXISTS (SELECT FROM audit_log l WHERE l.tenant = $1 AND l.at > $6 AND l.actor = $3
                           AND l.action = $4 AND l.subject = $5)",
        tenant,
        now,
        actor,
        action,
        subject,
        now - Duration::HOUR
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Lists the entries of the transaction's owner, the newest first, from the one after `after` on: its time
/// and its id.
pub async fn list_entries(
    tx: &mut OwnerTx,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(sqlx::query_as!(
        AuditEntry,
        r#"SELECT l.id, l.at, l.actor, k.name AS "name?", l.action, l.subject, l.detail, l.position
         FROM audit_log l LEFT JOIN keys k ON k.tenant = l.tenant AND k.id::text = l.actor
         WHERE l.tenant = $1 AND ($2::timestamptz IS NULL OR (l.at, l.id) < ($2, $3::uuid))
         ORDER BY l.at DESC, l.id DESC LIMIT $4"#,
        tenant,
        at,
        id,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Lists the entries of the transaction's owner in the order in which they were committed, from the one after a place on.
pub async fn list_entries_after(tx: &mut OwnerTx, position: i64, limit: u32) -> Result<Vec<AuditEntry>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AuditEntry,
        r#"SELECT l.id, l.at, l.actor, k.name AS "name?", l.action, l.subject, l.detail, l.position
         FROM audit_log l LEFT JOIN keys k ON k.tenant = l.tenant AND k.id::text = l.actor
         WHERE l.tenant = $1 AND l.position > $2
         ORDER BY l.position LIMIT $3"#,
        tenant,
        position,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns the place of an entry of the transaction's owner: 0 for one that has none, and None if there is no such entry.
pub async fn find_position(tx: &mut OwnerTx, id: AuditEntryId) -> Result<Option<i64>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(position, 0) AS "position!" FROM audit_log WHERE tenant = $1 AND id = $2"#,
        tenant,
        id as AuditEntryId
    )
    .fetch_optional(connection)
    .await?)
}

/// Returns the place of the last entry of the transaction's owner: 0 if none has one.
pub async fn last_position(tx: &mut OwnerTx) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(max(position), 0) AS "position!" FROM audit_log WHERE tenant = $1"#,
        tenant
    )
    .fetch_one(connection)
    .await?)
}
