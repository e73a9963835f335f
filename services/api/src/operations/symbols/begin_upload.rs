//! `POST /v1/symbols/uploads`.

use super::upload::check_names;
use crate::operations::prelude::*;
use crate::requests::input::Json;
use crate::uploads::parts::{BegunUpload, NewUpload, begin_or_find};
use crate::uploads::receive::UploadQuota;

problems!(Failures: InvalidParameter, InvalidBody, InvalidUpload, BodyTimeout, IncompleteBody, TooLarge, RateLimited, SymbolQuota);

/// Begin or continue an upload in parts
///
/// For large files and bad networks: parts that arrived stay, and only the rest must be sent again. The same
/// request for the same file (the same hash, size and app) returns the parts that arrived. Send the others
/// with `PUT /v1/symbols/uploads/{id}/parts/{number}`, in any order and as many at once as you like, and then
/// `POST /v1/symbols/uploads/{id}/complete`.
///
/// The tenant's limits apply to the announced size from now on. An upload that gets no new part within the
/// time limit of an upload is aborted, and its parts are deleted.
#[utoipa::path(post, path = "/symbols/uploads", tag = "symbols", operation_id = "begin_upload",
    request_body = NewUpload,
    responses((status = 200, description = "The upload and its state.", body = BegunUpload), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn begin_upload(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Json(new): Json<NewUpload>,
) -> Result<axum::Json<BegunUpload>, Problem> {
    check_names(new.name.as_deref(), new.app.as_deref())?;
    let may = UploadQuota::from_access(&storage.capacity, &access);
    let new = NewUpload { app: access.restrict_app(new.app)?, ..new };
    begin_or_find(storage, access.symbol_owner(), may, new).await.map(axum::Json)
}
