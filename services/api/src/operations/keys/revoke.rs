//! `DELETE /v1/keys/{id}`.

use crate::operations::prelude::*;
use crate::storage::transactions::Tx;
use unslide_model::{Scope, TenantId};
use unslide_store::keys::{LeftChanges, Principal};
use unslide_store::{TenantTx, Uuid, audit, keys};

/// How far a revocation goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RevokeQuery {
    /// `true` also revokes all keys that descend from the key, and removes an identity provider that one of them set.
    #[param(default = false)]
    pub cascade: bool,
}

/// A key that was revoked, and those that it made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RevokedKey {
    /// Id of the revoked key.
    pub id: Uuid,
    /// Keys that descend from it and were revoked with it; 0 without `cascade=true`.
    pub descendants_revoked: u64,
    /// Number of keys that descend from it and are still valid. `cascade=true` revokes them too.
    pub descendants_in_force: u64,
    /// What the revoked keys changed in the tenant besides keys, by the audit log: it stays. Only with `cascade=true`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftChanges>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Revoke a key
///
/// The key is refused after at most one second. Revoking it again is no error. The keys that it created stay
/// valid without `cascade=true`: after a leak, revoke them too, and check what the answer names in `left`. A key for one app revokes keys of that app
/// only. An operator's key may have created keys of other tenants. They are counted and revoked only if the
/// request's own key has the scope `operator`.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "keys", operation_id = "revoke_key",
    params(("id" = Uuid, Path, description = "The key's id."), RevokeQuery),
    responses((status = 200, description = "The key is revoked.", body = RevokedKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn revoke_key(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    Path(id): Path<Uuid>,
    Query(query): Query<RevokeQuery>,
) -> Result<Json<RevokedKey>, Problem> {
    let tx = keys.storage.tenant(access.tenant()).await?;
    let by = &access.principal;
    let within = (!by.has_scope(Scope::Operator)).then_some(&by.tenant);
    revoke_and_count(&keys, tx, by, id, query, within).await.map(Json)
}

/// Revokes a key of the transaction's tenant and commits. Counts the keys that descend from it, either of one
/// tenant or of all.
///
/// # Errors
/// [`Kind::NotFound`], or the database fails.
pub async fn revoke_and_count(
    keys: &Keys,
    mut tx: Tx<TenantTx>,
    by: &Principal,
    id: Uuid,
    query: RevokeQuery,
    within: Option<&TenantId>,
) -> Result<RevokedKey, Problem> {
    let (actor, app) = (by.key_id.to_string(), by.app.as_deref());
    let revoked = if query.cascade {
        keys::revoke_with_made(&mut tx, id, app, within, &actor).await?
    } else {
        keys::revoke_key(&mut tx, id, app).await?.then_some(0)
    };
    let Some(revoked) = revoked else {
        return Err(Problem::new(Kind::NotFound, "there is no such key"));
    };
    let detail = serde_json::json!({"cascade": query.cascade});
    audit::append_entry(&mut tx, &actor, "key.revoke", &id.to_string(), &detail).await?;
    let in_force = keys::count_made(&mut tx, id, within).await?;
    let left = if query.cascade { keys::list_left(&mut tx, id).await? } else { Vec::new() };
    let committed = tx.commit().await;
    keys.cache.clear();
    committed?;
    // After a restore of the database, this line says which keys must be revoked again.
    tracing::info!(key.id = %id, by = actor, cascade = query.cascade, "a key was revoked");
    Ok(RevokedKey { id, descendants_revoked: revoked, descendants_in_force: in_force, left })
}
