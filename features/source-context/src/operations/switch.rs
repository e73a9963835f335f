//! `GET` and `PUT /v1/sources`: whether the tenant keeps source files.

use crate::store;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Problem, TenantAdmin, problems};
use unslide_store::audit;
use utoipa::ToSchema;

/// The reason for refusing a key that speaks for one app only.
const EVERY_APP: &str = "the switch applies to the source files of every app";

/// Whether source files are kept.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSwitch {
    /// True if bundles of source files are stored and shown.
    #[schema(example = true)]
    pub enabled: bool,
}

/// The switch, and the stored bundles.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct SourceSetting {
    /// True if bundles of source files are stored and shown.
    pub enabled: bool,
    /// Number of stored bundles.
    pub bundles: u64,
    /// Number of source files in them.
    pub files: u64,
    /// Bytes of the bundles, which count against `symbol_bytes`.
    pub bytes: u64,
}

problems!(GetFailures: InvalidParameter);
problems!(SetFailures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// See whether source files are kept
///
/// Says whether the tenant keeps source files, and how many it has. It keeps none unless it has turned that on.
#[utoipa::path(get, path = "/v1/sources", tag = "source-context", operation_id = "get_sources",
    responses((status = 200, description = "The switch.", body = SourceSetting), GetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_sources(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<SourceSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let enabled = store::is_enabled(&mut tx).await?;
    let totals = store::count_bundles(&mut tx).await?;
    tx.rollback();
    let store::BundleTotals { bundles, files, bytes } = totals;
    Ok(Json(SourceSetting { enabled, bundles, files, bytes }))
}

/// Keep source files or not
///
/// While it is off, bundles of source files are accepted and not stored, and no source lines of stored ones are shown. The
/// audit log has the change. Stored bundles go with their symbols, or at the end of the tenant's retention.
#[utoipa::path(put, path = "/v1/sources", tag = "source-context", operation_id = "set_sources",
    request_body = SourceSwitch,
    responses((status = 200, description = "The switch as it is now.", body = SourceSwitch), SetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_sources(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<SourceSwitch>,
) -> Result<Json<SourceSwitch>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::set_enabled(&mut tx, new.enabled).await?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"enabled": new.enabled});
    audit::append_entry(&mut tx, &actor, "sources.set", access.tenant().as_str(), &detail).await?;
    tx.commit().await?;
    Ok(Json(new))
}
