//! `DELETE /v1/trackers/{name}`.

use super::EVERY_APP;
use crate::store;
use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: InvalidParameter, NotFound);

/// Remove a tracker
///
/// Its token is deleted, and tickets are not followed any more. The tickets themselves stay, and the addresses of tickets in groups, too.
#[utoipa::path(delete, path = "/v1/trackers/{name}", tag = "tickets", operation_id = "remove_tracker",
    params(("name" = String, Path, description = "The tracker's name.", max_length = 40)),
    responses((status = 204, description = "The tracker is removed."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_tracker(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::remove_tracker(&mut tx, &name).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such tracker"));
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "tracker.remove", &name, &json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
