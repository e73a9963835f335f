//! Tenants and keys that a command creates in the database itself.

use crate::keys::{self, NewApiKey};
use crate::tenants::{self, QuotaLimits};
use crate::{Result, Store, audit};
use serde_json::json;
use unslide_model::{Secret, TenantId};

/// The actor of commands in the audit log.
const ACTOR: &str = "command line";

/// Creates a tenant. Returns the number of its announcement, or `None` if the tenant exists already.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create_tenant(
    store: &Store,
    tenant: &TenantId,
    name: Option<&str>,
    limits: &QuotaLimits,
) -> Result<Option<i64>> {
    let mut tx = store.tenant(tenant).await?;
    let name = name.unwrap_or(tenant.as_str());
    let Some((_, announcement)) = tenants::create_tenant(&mut tx, name, limits).await? else {
        return Ok(None);
    };
    audit::append_entry(&mut tx, ACTOR, "tenant.create", tenant.as_str(), &json!({})).await?;
    tx.commit().await?;
    Ok(Some(announcement))
}

/// Creates a key from random bytes, and returns its text.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create_key(
    store: &Store,
    tenant: &TenantId,
    new: &NewApiKey,
    entropy: &[u8; 30],
) -> Result<Secret> {
    let mut tx = store.tenant(tenant).await?;
    let (key, text) = keys::create_key(&mut tx, new, entropy).await?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let target = key.id.to_string();
    audit::append_entry(&mut tx, ACTOR, "key.create", &target, &json!({ "scopes": scopes })).await?;
    tx.commit().await?;
    Ok(text)
}
