//! Questions that are asked before a tenant is known.

use unslide_model::TenantId;
use unslide_store::keys::Principal;
use unslide_store::sql::{JsonColumn, ScopesColumn, TenantColumn};
use unslide_store::tenants::{QuotaLimits, TenantStanding};
use unslide_store::{Result, Store};

/// The owner of an access token.
#[derive(Clone, Debug)]
pub struct TokenOwner {
    /// The account, with the scopes that it and the grant have both.
    pub principal: Principal,
    /// True if the token is for the address with the tenant's name.
    pub names_tenant: bool,
}

/// Returns the owner of an access token. A token that is unknown or over has none, and so has one of a key that is revoked or over.
pub async fn find_token_owner(store: &Store, access_hash: &[u8; 32]) -> Result<Option<TokenOwner>> {
    let row = sqlx::query!(
        r#"SELECT id AS "id!", tenant AS "tenant!: TenantColumn", tenant_version AS "tenant_version!",
                  scopes AS "scopes!: ScopesColumn", app, expires_at, revoked_at, last_used_at,
                  tenant_state AS "standing!: TenantStanding", tenant_limits AS "limits!: JsonColumn<QuotaLimits>",
                  names_tenant AS "names_tenant!"
           FROM unslide_mcp_principal($1, $2)"#,
        access_hash.as_slice(),
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
    Ok(principal.map(|principal| TokenOwner { principal, names_tenant: row.names_tenant }))
}

/// Returns true if the people of a tenant sign in at an identity provider; of any tenant for None.
pub async fn signs_people_in(store: &Store, tenant: Option<&TenantId>) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT unslide_signs_people_in AS "found!" FROM unslide_signs_people_in($1)"#,
        tenant.map(TenantId::as_str)
    );
    Ok(found.fetch_one(store.pool()).await?)
}
