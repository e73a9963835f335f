//! Sessions of people who are signed in to the console. A session is a key's: it has the key's scopes and
//! ends with it.
//!
//! A cookie holds 256 random bits, of which only a SHA-256 is kept: they cannot be guessed, and a copy of the
//! database cannot be used to sign in.

use sha2::{Digest, Sha256};
use time::Duration;
use unslide_store::keys::Principal;
use unslide_store::sql::{JsonColumn, ScopesColumn, TenantColumn};
use unslide_store::tenants::{QuotaLimits, TenantStanding};
use unslide_store::{KeyId, Result, Store, TenantTx, Uuid, report_ended_sessions};

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

/// A session of a browser that is to begin.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'s> {
    /// A key of the transaction's tenant.
    pub key_id: Uuid,
    /// It has to come from the operating system's generator.
    pub token: &'s SessionToken,
    pub name: Option<&'s str>,
    pub lifetime: Duration,
    /// An identity provider's id of its own session, if a person signed in there.
    pub provider_session: Option<&'s str>,
    /// The page after the sign-out; None for the sign-in page.
    pub sign_out_path: Option<&'s str>,
}

/// Returns the hash by which a session is stored.
#[must_use]
pub fn hash_token(token: &SessionToken) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Begins a session of a browser.
pub async fn begin_session(tx: &mut TenantTx, new: &NewSession<'_>) -> Result<()> {
    let NewSession { key_id, token, name, lifetime, provider_session, sign_out_path } = *new;
    let hash = hash_token(token);
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
        "INSERT INTO console_sessions
             (token_hash, tenant, key_id, name, created_at, ends_at, provider_session, sign_out_path)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        hash.as_slice(),
        tenant,
        key_id,
        name,
        now,
        now + lifetime,
        provider_session,
        sign_out_path
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the session of a cookie; `None` if it is unknown or over, or its key is. All of these look the
/// same from outside.
pub async fn find_session(store: &Store, token: &SessionToken) -> Result<Option<ConsoleSession>> {
    let hash = hash_token(token);
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

/// Ends a session of the transaction's tenant. Returns its page after the sign-out, if it has one of its own.
pub async fn end_session(tx: &mut TenantTx, hash: &[u8; 32]) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let ended = sqlx::query_scalar!(
        "DELETE FROM console_sessions WHERE tenant = $1 AND token_hash = $2 RETURNING sign_out_path",
        tenant,
        hash.as_slice()
    );
    Ok(ended.fetch_optional(connection).await?.flatten())
}

/// Ends all sessions of keys of the transaction's tenant, and what features do by them.
///
/// # Errors
/// The database fails.
pub async fn end_sessions_of_keys(tx: &mut TenantTx, keys: &[Uuid]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM console_sessions WHERE tenant = $1 AND key_id = ANY ($2)", tenant, keys)
        .execute(connection)
        .await?;
    let keys: Vec<KeyId> = keys.iter().copied().map(KeyId::from_uuid).collect();
    report_ended_sessions(tx, &keys).await
}

/// A session at an identity provider that has ended, with those of a person who signed out of all.
#[derive(Clone, Copy, Debug)]
pub struct EndedProviderSession<'s> {
    /// The keys of the people whom it may concern.
    pub keys: &'s [Uuid],
    /// The provider's id of its session; None for all sessions of these people.
    pub provider_session: Option<&'s str>,
    /// True if sessions without such an id end as well.
    pub ends_unnamed: bool,
}

/// Ends sessions of the transaction's tenant, because their session at the identity provider has ended. The end of all sessions also
/// ends what features do by them. Returns the number of sessions.
///
/// # Errors
/// The database fails.
pub async fn end_provider_sessions(tx: &mut TenantTx, ended: &EndedProviderSession<'_>) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let done = sqlx::query!(
        "DELETE FROM console_sessions
         WHERE tenant = $1 AND key_id = ANY ($2)
           AND ($3::text IS NULL OR provider_session = $3 OR $4 AND provider_session IS NULL)",
        tenant,
        ended.keys,
        ended.provider_session,
        ended.ends_unnamed
    );
    let done = done.execute(connection).await?.rows_affected();
    if ended.provider_session.is_none() {
        let keys: Vec<KeyId> = ended.keys.iter().copied().map(KeyId::from_uuid).collect();
        report_ended_sessions(tx, &keys).await?;
    }
    Ok(done)
}
