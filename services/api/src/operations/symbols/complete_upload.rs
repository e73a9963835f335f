//! `POST /v1/symbols/uploads/{id}/complete`.

use super::upload::AcceptedFile;
use crate::access::{Access, SymbolsWrite};
use crate::input::Path;
use crate::parts::complete;
use crate::problem::{Problem, problems};
use crate::receive::May;
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound, IncompleteUpload, UploadEnded, SymbolQuota);

/// Complete an upload in parts
///
/// Makes one file of the parts, which is then built like any other: see `GET /v1/symbols/uploads/{id}?wait=30s`.
/// Where its bytes are not those that were announced, the upload fails there as `upload_changed`. May be
/// asked again: the answer is the same.
#[utoipa::path(post, path = "/v1/symbols/uploads/{id}/complete", tag = "symbols", operation_id = "complete_upload",
    params(("id" = Uuid, Path, description = "The upload's id.")),
    responses((status = 202, description = "The file is stored and waits to be built.", body = AcceptedFile), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn complete_upload(
    State(api): State<Api>,
    access: Access<SymbolsWrite>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<AcceptedFile>), Problem> {
    let (owner, may) = (Owner::Tenant(access.tenant().clone()), May::of(&api, &access.principal));
    let file = complete(api, owner, access.principal.app.as_deref(), may, &id).await?;
    Ok((StatusCode::ACCEPTED, Json(file)))
}
