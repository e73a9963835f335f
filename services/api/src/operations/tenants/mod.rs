//! Tenants, as operators see them.

mod change;
mod create;
mod create_key;
mod delete;
mod get;
mod list;
mod list_keys;
mod revoke_key;

use crate::operations::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::{erasure, outbox, tenants};

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create::create_tenant, list::list_tenants))
        .routes(routes!(get::get_tenant, change::change_tenant, delete::delete_tenant))
        .routes(routes!(create_key::create_tenant_key, list_keys::list_tenant_keys))
        .routes(routes!(revoke_key::revoke_tenant_key))
}

/// What a tenant may use; 0 stands for the service's default.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantLimits {
    /// Cost units a second: a report costs one, and one more for each 64 KiB of its unpacked bytes.
    pub units_per_second: u32,
    /// Bytes of one report.
    pub report_bytes: u64,
    /// Bytes of one symbol upload.
    pub upload_bytes: u64,
    /// Bytes of all stored symbols.
    pub symbol_bytes: u64,
    /// Days that reports are kept.
    pub retention_days: u32,
}

/// A tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Tenant {
    /// Its slug: what it is called in topics, object keys and rows. Never changes.
    #[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$", example = "acme")]
    pub id: TenantId,
    /// Its name for people.
    pub name: String,
    /// `active`, `suspended` or `deleted`.
    #[schema(value_type = String)]
    pub state: tenants::TenantStanding,
    /// What it may use.
    pub limits: TenantLimits,
    /// Counts its changes, from 1.
    pub version: u64,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it was changed last.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// A tenant with what it uses.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TenantDetail {
    /// The tenant.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// What it uses.
    pub usage: Usage,
    /// How far the erasing of a deleted tenant is; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
}

/// What a tenant uses.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Usage {
    /// Bytes of stored symbols, each slice once: what `limits.symbol_bytes` is about.
    pub symbol_bytes: u64,
    /// Bytes of uploads that come in parts or wait to be taken apart.
    pub pending_bytes: u64,
    /// Stored slices.
    pub objects: u64,
    /// Reports that were stored, those past their retention too.
    pub reports: u64,
    /// Keys that are in force.
    pub keys: u64,
}

/// How far the erasing of a deleted tenant is, and the proof that nothing is left.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Erasure {
    /// When the tenant was deleted.
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// Rows that were removed so far, by table.
    pub removed: BTreeMap<String, u64>,
    /// Objects that were removed from object storage so far.
    pub objects: u64,
    /// Bytes of these objects.
    pub object_bytes: u64,
    /// What was counted at the end: rows by table, and `object storage`. All 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<BTreeMap<String, u64>>,
    /// When nothing was left.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<OffsetDateTime>,
    /// When it was looked for a second time, after whatever had begun before the deletion.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub swept_at: Option<OffsetDateTime>,
}

impl From<erasure::TenantErasure> for Erasure {
    fn from(erasure: erasure::TenantErasure) -> Erasure {
        Erasure {
            requested_at: erasure.requested_at,
            removed: erasure.removed,
            objects: erasure.objects,
            object_bytes: erasure.object_bytes,
            remaining: erasure.remaining,
            finished_at: erasure.finished_at,
            swept_at: erasure.swept_at,
        }
    }
}

/// A tenant that was changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangedTenant {
    /// The tenant as it is now.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// True once the broker has the change, from which the workers learn it. False where that takes
    /// longer than this request waited; it will happen all the same.
    pub announced: bool,
}

/// Waits until the broker has an announcement, for as long as a request may.
///
/// # Errors
/// Where the database fails.
async fn announced(api: &Api, tenant: &TenantId, announcement: i64) -> Result<bool, Problem> {
    let wait = Duration::from_secs(api.limits.announce_seconds);
    Ok(outbox::wait_sent(&api.store, tenant, announcement, wait).await?)
}

/// What is said where there is no such tenant.
fn no_such_tenant() -> Problem {
    Problem::new(Kind::NotFound, "there is no such tenant")
}

impl From<TenantLimits> for tenants::QuotaLimits {
    fn from(limits: TenantLimits) -> tenants::QuotaLimits {
        let TenantLimits { units_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days } =
            limits;
        tenants::QuotaLimits { units_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days }
    }
}

impl From<tenants::QuotaLimits> for TenantLimits {
    fn from(limits: tenants::QuotaLimits) -> TenantLimits {
        let tenants::QuotaLimits {
            units_per_second,
            report_bytes,
            upload_bytes,
            symbol_bytes,
            retention_days,
        } = limits;
        TenantLimits { units_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days }
    }
}

impl From<tenants::TenantRecord> for Tenant {
    fn from(tenant: tenants::TenantRecord) -> Tenant {
        Tenant {
            id: tenant.id,
            name: tenant.name,
            state: tenant.state,
            limits: tenant.limits.into(),
            version: tenant.version,
            created_at: tenant.created_at,
            updated_at: tenant.updated_at,
        }
    }
}
