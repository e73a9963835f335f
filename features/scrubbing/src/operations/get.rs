//! `GET /v1/scrubbing`: the rules of a tenant.

use super::{EVERY_APP, Scrubbing};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the rules of scrubbing
///
/// The rules that take personal data out of reports before they are stored, by app, and how far the last run is that applied them
/// to stored reports.
#[utoipa::path(get, path = "/v1/scrubbing", tag = "scrubbing", operation_id = "get_scrubbing",
    responses((status = 200, description = "The rules.", body = Scrubbing), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_scrubbing(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<Scrubbing>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(Scrubbing::load(&mut tx).await?))
}
