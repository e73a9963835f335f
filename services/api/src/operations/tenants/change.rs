//! `PATCH /v1/tenants/{tenant}`.

use super::{ChangedTenant, no_such_tenant, wait_announced};
use crate::operations::prelude::*;
use crate::requests::input::{Json, is_text};
use unslide_model::TenantId;
use unslide_store::tenants::TenantStanding;
use unslide_store::{audit, tenants};

/// Changes of a tenant. Absent fields do not change.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantChange {
    /// New display name, for people; absent for no change.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// `active` or `suspended`: a suspended tenant can read and delete, but not add or change. Its reports on
    /// Kafka become dead letters, which can be replayed for 30 days.
    #[schema(value_type = Option<String>, example = "suspended")]
    pub state: Option<TenantStanding>,
    /// New limits; a limit that is absent does not change.
    pub limits: Option<LimitsChange>,
}

/// Changes of limits. 0 means the service's default; absent limits do not change.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsChange {
    /// Cost units a second: a report costs one, and one more for each 64 KiB of its unpacked bytes.
    pub units_per_second: Option<u32>,
    /// Largest size of one report, in bytes.
    pub report_bytes: Option<u64>,
    /// Largest size of one symbol upload, in bytes.
    pub upload_bytes: Option<u64>,
    /// Largest size of all stored symbols together, in bytes.
    pub symbol_bytes: Option<u64>,
    /// Days that reports are kept.
    pub retention_days: Option<u32>,
    /// Days that the bodies of reports are kept, if fewer. Lists and counts keep the reports. 0: as long as reports.
    pub body_days: Option<u32>,
}

impl LimitsChange {
    /// Changes the limits that are given.
    pub fn apply_to(self, limits: &mut tenants::QuotaLimits) {
        limits.units_per_second = self.units_per_second.unwrap_or(limits.units_per_second);
        limits.report_bytes = self.report_bytes.unwrap_or(limits.report_bytes);
        limits.upload_bytes = self.upload_bytes.unwrap_or(limits.upload_bytes);
        limits.symbol_bytes = self.symbol_bytes.unwrap_or(limits.symbol_bytes);
        limits.retention_days = self.retention_days.unwrap_or(limits.retention_days);
        limits.body_days = self.body_days.unwrap_or(limits.body_days);
    }
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound);

/// Change a tenant
///
/// Changes its name, its limits and its state. Answers when the broker has the change. A deleted tenant
/// cannot be changed.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "change_tenant",
    params(("tenant" = String, Path, description = "The tenant's slug.")),
    request_body = TenantChange,
    responses((status = 200, description = "The tenant after the change.", body = ChangedTenant), Failures),
    security(("key" = ["operator"])))]
pub async fn change_tenant(
    State(keys): State<Arc<Keys>>,
    access: Access<Operator>,
    Path(tenant): Path<TenantId>,
    Json(change): Json<TenantChange>,
) -> Result<axum::Json<ChangedTenant>, Problem> {
    if change.state == Some(TenantStanding::Suspended) && tenant == *access.tenant() {
        let detail = "state: a key cannot suspend its own tenant, because it could not undo that";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    if change.state == Some(TenantStanding::Deleted) {
        return Err(Problem::new(Kind::InvalidBody, "state: active or suspended; DELETE deletes a tenant"));
    }
    if change.name.as_ref().is_some_and(|name| !is_text(name, 200)) {
        return Err(Problem::new(Kind::InvalidBody, "name: 1 to 200 bytes, no control characters"));
    }
    let mut tx = keys.storage.store.tenant(&tenant).await?;
    let mut now = tenants::lock_tenant(&mut tx).await?.ok_or_else(no_such_tenant)?;
    change.limits.unwrap_or_default().apply_to(&mut now.limits);
    let (name, state) = (change.name.unwrap_or(now.name), change.state.unwrap_or(now.state));
    let changed = match now.state {
        TenantStanding::Deleted => None,
        _ => tenants::change_tenant(&mut tx, &name, state, &now.limits).await?,
    };
    let (changed, announcement) =
        changed.ok_or_else(|| Problem::new(Kind::NotFound, "the tenant was deleted"))?;
    let actor = access.principal.key_id.to_string();
    let detail =
        serde_json::json!({"version": changed.version, "state": changed.state, "limits": changed.limits});
    audit::append_entry(&mut tx, &actor, "tenant.change", tenant.as_str(), &detail).await?;
    tx.commit().await?;
    keys.cache.clear();
    let announced = wait_announced(&keys.storage, &tenant, announcement).await?;
    Ok(axum::Json(ChangedTenant { tenant: changed, announced }))
}
