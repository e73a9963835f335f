//! `DELETE /v1/symbol-sources/{name}`: removes a source.

use super::{EVERY_APP, no_source};
use crate::store;
use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: InvalidParameter, NotFound);

/// Remove a symbol source
///
/// It is asked no more. Symbols that it has brought stay.
#[utoipa::path(delete, path = "/v1/symbol-sources/{name}", tag = "symbol-sources", operation_id = "remove_symbol_source",
    params(("name" = String, Path, description = "The source's name.", max_length = 40)),
    responses((status = 204, description = "The source is removed."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_symbol_source(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::lock_sources(&mut tx).await?;
    if !store::remove_source(&mut tx, &name).await? {
        return Err(no_source());
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "symbol_source.remove", &name, &json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
