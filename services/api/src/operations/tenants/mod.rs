//! Tenants, as operators see them.

mod create;
mod create_key;
mod list;

use crate::state::Api;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::tenants;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create::create_tenant, list::list_tenants))
        .routes(routes!(create_key::create_tenant_key))
}

/// What a tenant may use; 0 stands for the service's default.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantLimits {
    /// Reports a second.
    pub reports_per_second: u32,
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
    pub state: tenants::State,
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

impl From<TenantLimits> for tenants::Limits {
    fn from(limits: TenantLimits) -> tenants::Limits {
        let TenantLimits { reports_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days } =
            limits;
        tenants::Limits { reports_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days }
    }
}

impl From<tenants::Limits> for TenantLimits {
    fn from(limits: tenants::Limits) -> TenantLimits {
        let tenants::Limits { reports_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days } =
            limits;
        TenantLimits { reports_per_second, report_bytes, upload_bytes, symbol_bytes, retention_days }
    }
}

impl From<tenants::Tenant> for Tenant {
    fn from(tenant: tenants::Tenant) -> Tenant {
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
