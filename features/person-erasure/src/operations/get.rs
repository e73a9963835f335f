//! `GET /v1/person-erasures/{id}`: the progress of an erasure.

use super::EVERY_APP;
use crate::store::{self, PersonErasure};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, TenantAdmin, parse_parameter, problems};
use unslide_store::Uuid;

problems!(Failures: InvalidParameter, NotFound);

/// Get the erasure of a person
///
/// Its state, and the rows that were removed so far.
#[utoipa::path(get, path = "/v1/person-erasures/{id}", tag = "person-erasure", operation_id = "get_person_erasure",
    params(("id" = Uuid, Path, description = "The erasure's id.")),
    responses((status = 200, description = "The erasure.", body = PersonErasure), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_person_erasure(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Json<PersonErasure>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let id: Uuid = parse_parameter("id", &id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::get_erasure(&mut tx, id).await?;
    found.map(Json).ok_or_else(|| Problem::new(Kind::NotFound, "there is no such erasure"))
}
