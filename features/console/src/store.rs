//! Sessions of people who are signed in to the console. A session is a key's: it has the key's scopes and
//! ends with it.
//!
//! A cookie holds 256 random bits, of which only a SHA-256 is kept: they cannot be guessed, and a copy of the
//! database cannot be used to sign in.

use sha2::{Digest, Sha256};
use time::Duration;
use unslide_store::keys::Principal;
use unslide_store::sql::{JsonColumn, ScopesColumn, TenantColumn, rows_before};
use unslide_store::tenants::{QuotaLimits, TenantStanding};
use unslide_store::{Result, Store, TenantTx, Uuid};

/// How long a session lasts, unless its key ends before.
pub const SESSION_LIFETIME: Duration = Duration::hours(12);

/// Sessions of one key: beyond these the oldest ends.
const MOST_PER_KEY: i64 = 100;

/// The content of a session's cookie.
pub type SessionToken = [u8; 32];

/// A session that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSession {
    /// The key that signed in, with its present rights.
    pub principal: Principal,
    /// The name that was chosen at sign-in.
    pub name: Option<String>,
}

/// Begins a session of a key of the transaction's tenant. The token has to come from the operating system's
/// generator.
pub async fn begin_session(
    tx: &mut TenantTx,
    key_id: Uuid,
    token: &SessionToken,
    name: Option<&str>,
    lifetime: Duration,
) -> Result<()> {
    let hash = Sha256::digest(token);
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "DELETE FROM console_sessions
         WHERE tenant = $1 AND key_id = $2 AND token_hash NOT IN (
             SELECT s.token_hash FROM console_sessions s WHERE s.tenant = $1 AND s.key_id = $2 AND s.ends_at > $3
             ORDER BY s.created_at DESC LIMIT $4)",
        tenant,
        key_id,
        now,
        MOST_PER_KEY - 1
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO console_sessions (token_hash, tenant, key_id, name, created_at, ends_at)
         VALUES ($1, $2, $3, $4, $5, $6)",
        hash.as_slice(),
        tenant,
        key_id,
        name,
        now,
        now + lifetime
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the session of a cookie; `None` if it is unknown or over, or its key is. All of these look the
/// same from outside.
pub async fn find_session(store: &Store, token: &SessionToken) -> Result<Option<ConsoleSession>> {
    let hash = Sha256::digest(token);
    let row = sqlx::query!(
        r#"SELECT id AS "id!", tenant AS "tenant!: TenantColumn", tenant_version AS "tenant_version!", scopes AS "scopes!: ScopesColumn", app, expires_at,
                  revoked_at, last_used_at, tenant_state AS "standing!: TenantStanding",
                  tenant_limits AS "limits!: JsonColumn<QuotaLimits>", session_name
           FROM unslide_console_principal($1, $2)"#,
        hash.as_slice(),
        store.now()
    )
    .fetch_optional(store.pool())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let principal = Principal {
        tenant: row.tenant.into(),
        tenant_version: row.tenant_version,
        active: row.standing == TenantStanding::Active,
        key_id: row.id,
        scopes: row.scopes.into(),
        app: row.app,
        expires_at: row.expires_at,
        limits: row.limits.into(),
        last_used_at: row.last_used_at,
    };
    let principal = principal.in_force(row.revoked_at, row.standing, store.now());
    Ok(principal.map(|principal| ConsoleSession { principal, name: row.session_name }))
}

/// Ends a session of the transaction's tenant.
pub async fn end_session(tx: &mut TenantTx, token: &SessionToken) -> Result<()> {
    let hash = Sha256::digest(token);
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM console_sessions WHERE tenant = $1 AND token_hash = $2",
        tenant,
        hash.as_slice()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends the sessions of keys of the transaction's tenant.
///
/// # Errors
/// The database fails.
pub async fn end_sessions_of_keys(tx: &mut TenantTx, keys: &[Uuid]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM console_sessions WHERE tenant = $1 AND key_id = ANY ($2)", tenant, keys)
        .execute(connection)
        .await?;
    Ok(())
}

/// Forgets sessions that are over. Returns their number.
pub async fn purge_sessions(store: &Store) -> Result<u64> {
    rows_before(store, "console_sessions", store.now()).await
}
