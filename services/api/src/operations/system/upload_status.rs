//! `GET /v1/system/symbols/uploads/{id}`.

use crate::access::{Access, Operator};
use crate::input::{Path, Query};
use crate::operations::symbols::upload_status::{Upload, WaitQuery, status};
use crate::permits::Slot;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::extract::State;
use axum::{Extension, Json};
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound);

/// See what became of an upload of system symbols
///
/// With `wait`, answers when the builder is done with it, or when the time is over.
#[utoipa::path(get, path = "/v1/system/symbols/uploads/{id}", tag = "system", operation_id = "get_system_upload",
    params(("id" = Uuid, Path, description = "The upload's id."), WaitQuery),
    responses((status = 200, description = "The upload as it stands.", body = Upload), Failures),
    security(("key" = ["operator"])))]
pub async fn get_system_upload(
    State(api): State<Api>,
    access: Access<Operator>,
    Extension(slot): Extension<Slot>,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<Upload>, Problem> {
    status(&api, &access, &slot, &Owner::System, &id, &query).await
}
