//! Grants: each begins with a code, and goes on with tokens of which a refresh replaces all.

use crate::ids::McpGrantId;
use time::{Duration, OffsetDateTime};
use unslide_model::Scope;
use unslide_store::sql::ScopesColumn;
use unslide_store::{KeyId, Result, TenantTx};

/// How long a code can be exchanged.
const CODE_LIFETIME: Duration = Duration::seconds(60);
/// Grants of one key: beyond these the oldest ends.
const MOST_GRANTS_PER_KEY: i64 = 50;

/// A grant that is to begin.
#[derive(Clone, Copy, Debug)]
pub struct NewMcpGrant<'g> {
    pub key_id: KeyId,
    pub client_hash: [u8; 32],
    pub client_name: &'g str,
    pub redirect_host: &'g str,
    pub redirect_hash: [u8; 32],
    pub scopes: &'g [Scope],
    pub names_tenant: bool,
    pub code_hash: [u8; 32],
    pub code_challenge: [u8; 32],
}

/// A grant that no other transaction changes until this one ends.
#[derive(Clone, Debug)]
pub struct HeldGrant {
    pub id: McpGrantId,
    pub key_id: KeyId,
    pub client_hash: Vec<u8>,
    pub redirect_hash: Vec<u8>,
    pub code_challenge: Vec<u8>,
    pub code_ends_at: OffsetDateTime,
    /// None until the code is used.
    pub refresh_hash: Option<Vec<u8>>,
    pub names_tenant: bool,
    pub created_at: OffsetDateTime,
    pub ends_at: OffsetDateTime,
    /// The scopes that the grant and its key have both; none if the key is revoked or over.
    pub scopes: Vec<Scope>,
}

/// The hashes of a text that a client presents. Only one of them is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenHashes {
    pub code: Option<[u8; 32]>,
    pub access: Option<[u8; 32]>,
    pub refresh_family: Option<[u8; 32]>,
}

/// New tokens of a grant.
#[derive(Clone, Copy, Debug)]
pub struct IssuedTokens {
    pub access_hash: [u8; 32],
    pub access_ends_at: OffsetDateTime,
    pub refresh_family: [u8; 32],
    pub refresh_hash: [u8; 32],
    /// The end of the grant.
    pub ends_at: OffsetDateTime,
}

/// The access of an assistant, as its person sees it.
#[derive(Clone, Debug)]
pub struct McpGrantEntry {
    pub id: McpGrantId,
    pub client_name: String,
    pub redirect_host: String,
    pub scopes: Vec<Scope>,
    pub created_at: OffsetDateTime,
    pub renewed_at: Option<OffsetDateTime>,
    pub ends_at: OffsetDateTime,
}

/// Begins a grant with a code.
pub async fn add_grant(tx: &mut TenantTx, new: &NewMcpGrant<'_>) -> Result<McpGrantId> {
    let scopes: Vec<String> = new.scopes.iter().map(Scope::to_string).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "DELETE FROM mcp_grants
         WHERE tenant = $1 AND key_id = $2 AND id NOT IN (
             SELECT g.id FROM mcp_grants g WHERE g.tenant = $1 AND g.key_id = $2 AND g.ends_at > $3
             ORDER BY g.created_at DESC LIMIT $4)",
        tenant,
        new.key_id as KeyId,
        now,
        MOST_GRANTS_PER_KEY - 1
    )
    .execute(&mut *connection)
    .await?;
    let id = sqlx::query_scalar!(
        r#"INSERT INTO mcp_grants (tenant, id, key_id, client_hash, client_name, redirect_host, redirect_hash, scopes,
                                   names_tenant, created_at, code_hash, code_challenge, code_ends_at, ends_at)
           VALUES ($1, unslide_uuid($2), $3, $4, $5, $6, $7, $8, $9, $2, $10, $11, $12, $12)
           RETURNING id AS "id: McpGrantId""#,
        tenant,
        now,
        new.key_id as KeyId,
        new.client_hash.as_slice(),
        new.client_name,
        new.redirect_host,
        new.redirect_hash.as_slice(),
        &scopes,
        new.names_tenant,
        new.code_hash.as_slice(),
        new.code_challenge.as_slice(),
        now + CODE_LIFETIME
    );
    Ok(id.fetch_one(connection).await?)
}

/// Finds the grant of a text that a client presents, and keeps others from changing it until the transaction ends.
pub async fn hold_grant(tx: &mut TenantTx, hashes: TokenHashes) -> Result<Option<HeldGrant>> {
    let (connection, tenant, now) = tx.parts();
    let grant = sqlx::query_as!(
        HeldGrant,
        r#"SELECT g.id AS "id: McpGrantId", g.key_id AS "key_id: KeyId", g.client_hash, g.redirect_hash, g.code_challenge,
                  g.code_ends_at, g.refresh_hash, g.names_tenant, g.created_at, g.ends_at,
                  ARRAY (SELECT s FROM keys k, unnest(k.scopes) s
                         WHERE k.tenant = $1 AND k.id = g.key_id AND k.revoked_at IS NULL
                           AND (k.expires_at IS NULL OR k.expires_at > $2) AND s = ANY (g.scopes)) AS "scopes!: ScopesColumn"
           FROM mcp_grants g
           WHERE g.tenant = $1 AND g.ends_at > $2 AND (g.code_hash = $3 OR g.access_hash = $4 OR g.refresh_family = $5)
           FOR UPDATE OF g"#,
        tenant,
        now,
        hashes.code.as_ref().map(<[u8; 32]>::as_slice),
        hashes.access.as_ref().map(<[u8; 32]>::as_slice),
        hashes.refresh_family.as_ref().map(<[u8; 32]>::as_slice)
    );
    Ok(grant.fetch_optional(connection).await?)
}

/// Replaces the tokens of a grant.
pub async fn set_tokens(tx: &mut TenantTx, id: McpGrantId, new: &IssuedTokens) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE mcp_grants SET access_hash = $3, access_ends_at = $4, refresh_family = $5, refresh_hash = $6, ends_at = $7,
                               renewed_at = $8
         WHERE tenant = $1 AND id = $2",
        tenant,
        id as McpGrantId,
        new.access_hash.as_slice(),
        new.access_ends_at,
        new.refresh_family.as_slice(),
        new.refresh_hash.as_slice(),
        new.ends_at,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends a grant of a key. Returns the name of its client, or None if there is no such grant.
pub async fn end_grant(tx: &mut TenantTx, id: McpGrantId, key_id: KeyId) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let ended = sqlx::query_scalar!(
        "DELETE FROM mcp_grants WHERE tenant = $1 AND id = $2 AND key_id = $3 RETURNING client_name",
        tenant,
        id as McpGrantId,
        key_id as KeyId
    );
    Ok(ended.fetch_optional(connection).await?)
}

/// Ends the grants of keys.
pub(super) async fn end_grants_of_keys(tx: &mut TenantTx, keys: &[KeyId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let ended = sqlx::query!(
        "DELETE FROM mcp_grants WHERE tenant = $1 AND key_id = ANY ($2)",
        tenant,
        keys as &[KeyId]
    );
    ended.execute(connection).await?;
    Ok(())
}

/// Lists the grants of a key with tokens in use, the newest first.
pub async fn list_grants(tx: &mut TenantTx, key_id: KeyId) -> Result<Vec<McpGrantEntry>> {
    let (connection, tenant, now) = tx.parts();
    let grants = sqlx::query_as!(
        McpGrantEntry,
        r#"SELECT id AS "id: McpGrantId", client_name, redirect_host, scopes AS "scopes: ScopesColumn", created_at,
                  renewed_at, ends_at
           FROM mcp_grants
           WHERE tenant = $1 AND key_id = $2 AND ends_at > $3 AND access_hash IS NOT NULL
           ORDER BY created_at DESC, id"#,
        tenant,
        key_id as KeyId,
        now
    );
    Ok(grants.fetch_all(connection).await?)
}
