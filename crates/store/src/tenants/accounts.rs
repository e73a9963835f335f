//! Tenants and keys that a command creates in the database itself.

use crate::keys::{API_KEYS, KeyKind, NewApiKey, NewKey, create_record};
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

/// Creates an API key from random bytes, and returns its text.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create_key(
    store: &Store,
    tenant: &TenantId,
    new: &NewApiKey,
    entropy: &[u8; 30],
) -> Result<Secret> {
    create_key_of_kind(store, tenant, &API_KEYS, &new.to_new_key(), entropy).await
}

/// Creates a key of a kind from random bytes, and returns its text. The kind has checked the key.
///
/// # Errors
/// Returns an error if the tenant has too many keys of the kind, or the database fails.
pub async fn create_key_of_kind(
    store: &Store,
    tenant: &TenantId,
    kind: &KeyKind,
    new: &NewKey,
    entropy: &[u8; 30],
) -> Result<Secret> {
    let mut tx = store.tenant(tenant).await?;
    let (key, text) = create_record(&mut tx, kind, new, entropy).await?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let detail = match kind.scopes {
        [] => json!({ "name": key.name, "apps": key.apps }),
        _ => json!({ "scopes": scopes }),
    };
    audit::append_entry(&mut tx, ACTOR, &format!("{}.create", kind.action), &key.shown_id(), &detail).await?;
    tx.commit().await?;
    Ok(text)
}
