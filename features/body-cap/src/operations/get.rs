//! `GET /v1/body-cap`: the caps of a tenant.

use super::{BodyCaps, EVERY_APP};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the caps of bodies
///
/// How many bodies of reports are kept of a group and day, by app.
#[utoipa::path(get, path = "/v1/body-cap", tag = "body-cap", operation_id = "get_body_cap",
    responses((status = 200, description = "The caps.", body = BodyCaps), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_body_cap(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<BodyCaps>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(BodyCaps { items: store::list_caps(&mut tx).await? }))
}
