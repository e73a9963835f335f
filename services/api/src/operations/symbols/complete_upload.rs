//! `POST /v1/symbols/uploads/{id}/complete`.

use super::upload::upload_location;
use crate::operations::prelude::*;
use crate::uploads::parts::complete_parts;
use crate::uploads::receive::{AcceptedFile, UploadQuota};
use unslide_store::UploadId;

problems!(Failures: InvalidParameter, NotFound, IncompleteUpload, UploadEnded, SymbolQuota);

/// Complete an upload in parts
///
/// Makes one file of the parts, which is then built like any other: see `GET /v1/symbols/uploads/{id}?wait=30s`.
/// If its bytes are not those that were announced, the upload fails there as `upload_changed`. The request may
/// be sent again, with the same answer.
#[utoipa::path(post, path = "/symbols/uploads/{id}/complete", tag = "symbols", operation_id = "complete_upload",
    params(("id" = Uuid, Path, description = "The upload's id.")),
    responses((status = 202, description = "The file is stored and waits to be built.",
            headers(("location" = String, description = "The path of the upload's status.")),
            body = AcceptedFile), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn complete_upload(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Path(id): Path<UploadId>,
) -> Result<AcceptedResponse<AcceptedFile>, Problem> {
    let (owner, may) = (access.symbol_owner(), UploadQuota::from_access(&storage.capacity, &access));
    let file = complete_parts(storage, owner.clone(), access.only_app(), may, id).await?;
    let location = Some(upload_location(&owner, file.id));
    Ok(AcceptedResponse { body: file, location })
}
