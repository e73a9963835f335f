//! `POST /v1/system/symbols/uploads/{id}/complete`.

use crate::access::{Access, Operator};
use crate::input::Path;
use crate::operations::symbols::upload::AcceptedFile;
use crate::parts::complete;
use crate::problem::{Problem, problems};
use crate::receive::May;
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound, IncompleteUpload, UploadEnded);

/// Complete an upload of system symbols in parts
///
/// As `POST /v1/symbols/uploads/{id}/complete` does a tenant's.
#[utoipa::path(post, path = "/v1/system/symbols/uploads/{id}/complete", tag = "system", operation_id = "complete_system_upload",
    params(("id" = Uuid, Path, description = "The upload's id.")),
    responses((status = 202, description = "The file is stored and waits to be built.", body = AcceptedFile), Failures),
    security(("key" = ["operator"])))]
pub async fn complete_system_upload(
    State(api): State<Api>,
    _: Access<Operator>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<AcceptedFile>), Problem> {
    let may = May::of_operators(&api);
    let file = complete(api, Owner::System, None, may, &id).await?;
    Ok((StatusCode::ACCEPTED, Json(file)))
}
