//! `GET /v1/symbol-sources`: lists the sources of a tenant.

use super::{EVERY_APP, ShownSource, SymbolSourceList};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// List symbol sources
///
/// All sources of the tenant without their credentials: when each answered last, when symbols of it were taken, and why the last request failed.
#[utoipa::path(get, path = "/v1/symbol-sources", tag = "symbol-sources", operation_id = "list_symbol_sources",
    responses((status = 200, description = "The sources.", body = SymbolSourceList), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_symbol_sources(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<SymbolSourceList>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let sources = store::list_sources(&mut tx).await?.into_iter().map(ShownSource::from_row);
    Ok(Json(SymbolSourceList { sources: sources.collect() }))
}
