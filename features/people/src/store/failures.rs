//! The statements about sign-ins that failed.

use serde::Serialize;
use time::{Duration, OffsetDateTime};
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Failures of one outcome that a tenant keeps: strangers can cause some outcomes, and must not push the others out.
const KEPT_PER_OUTCOME: i64 = 5;
/// How long they are kept.
pub const KEPT_FOR: Duration = Duration::days(7);

/// A sign-in that failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SignInFailure {
    /// When it failed (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What failed: `no_scopes`, `deactivated`, `declined`, `provider_failed` or `token_refused`.
    #[schema(example = "no_scopes")]
    pub outcome: String,
    /// The issuer's id of the person, if the token was valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Why it failed, and what to change.
    #[schema(example = "The token has no claim groups.")]
    pub reason: String,
}

/// A failure to record.
#[derive(Clone, Copy, Debug)]
pub struct NewFailure<'f> {
    pub outcome: &'f str,
    pub subject: Option<&'f str>,
    pub reason: &'f str,
}

/// Records a failure. Only the newest of each outcome stay.
pub async fn record_failure(tx: &mut TenantTx, new: NewFailure<'_>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO sign_in_failures (id, tenant, at, outcome, subject, reason)
         VALUES (unslide_uuid($2), $1, $2, $3, $4, $5)",
        tenant,
        now,
        new.outcome,
        new.subject,
        new.reason
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM sign_in_failures WHERE id IN (
             SELECT f.id FROM sign_in_failures f WHERE f.tenant = $1 AND f.outcome = $2
             ORDER BY f.at DESC, f.id DESC OFFSET $3)",
        tenant,
        new.outcome,
        KEPT_PER_OUTCOME
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the failures that are kept, the newest first.
pub async fn list_failures(tx: &mut TenantTx) -> Result<Vec<SignInFailure>> {
    let (connection, tenant, _) = tx.parts();
    let failures = sqlx::query_as!(
        SignInFailure,
        "SELECT at, outcome, subject, reason FROM sign_in_failures WHERE tenant = $1 ORDER BY at DESC, id DESC LIMIT 50",
        tenant
    );
    Ok(failures.fetch_all(connection).await?)
}
