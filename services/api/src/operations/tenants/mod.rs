//! Tenants, as operators see them.

mod change;
mod create;
mod create_key;
mod delete;
mod get;
mod list;
mod list_keys;
mod revoke_key;
pub mod usage;

use crate::operations::prelude::*;
use std::time::Duration;
use unslide_model::TenantId;
use unslide_store::erasure::TenantErasure;
use unslide_store::outbox;
use unslide_store::tenants::TenantRecord;
use unslide_store::usage::TenantUsage;

/// The routes of this folder.
pub fn tenant_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::create_tenant, list::list_tenants))
        .routes(routes!(get::get_tenant, change::change_tenant, delete::delete_tenant))
        .routes(routes!(create_key::create_tenant_key, list_keys::list_tenant_keys))
        .routes(routes!(revoke_key::revoke_tenant_key))
        .routes(routes!(usage::list_tenant_usage))
}

/// A tenant with what it uses.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TenantDetail {
    /// The tenant's record, as in the list.
    #[serde(flatten)]
    pub tenant: TenantRecord,
    /// Storage, reports and keys that the tenant uses now.
    pub usage: TenantUsage,
    /// Progress of the erasure of a deleted tenant; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erasure: Option<TenantErasure>,
}

/// A tenant that was changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangedTenant {
    /// The tenant after the change.
    #[serde(flatten)]
    pub tenant: TenantRecord,
    /// True if the broker has the change, from which the workers read it. False if that takes longer than
    /// this request waited; the change follows later.
    pub announced: bool,
}

/// Waits until the broker has an announcement, for at most the time of a request. Returns false if it takes
/// longer.
pub async fn wait_announced(
    storage: &Storage,
    tenant: &TenantId,
    announcement: i64,
) -> Result<bool, Problem> {
    let wait = Duration::from_secs(storage.capacity.limits.announce_seconds);
    Ok(outbox::wait_sent(&storage.store, tenant, announcement, wait).await?)
}

/// Returns the problem for a tenant that does not exist.
fn no_such_tenant() -> Problem {
    Problem::new(Kind::NotFound, "there is no such tenant")
}
