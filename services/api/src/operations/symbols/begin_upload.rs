//! `POST /v1/symbols/uploads`.

use super::upload::check_names;
use crate::operations::prelude::*;
use crate::requests::input::Json;
use crate::uploads::parts::{BegunUpload, NewUpload, begin};
use crate::uploads::receive::UploadQuota;

problems!(Failures: InvalidParameter, InvalidBody, InvalidUpload, BodyTimeout, IncompleteBody, TooLarge, RateLimited, SymbolQuota);

/// Begin an upload in parts, or go on with it
///
/// For large files and bad networks: what has come of a file stays, and only the rest is to be sent
/// again. Asked again for the same file (the same hash, size and app), this tells which parts are there.
/// Send the others with `PUT /v1/symbols/uploads/{id}/parts/{number}`, in any order and as many at once
/// as you like, and then `POST /v1/symbols/uploads/{id}/complete`.
///
/// The tenant's limits hold for the announced size from here on. An upload without a new part for as
/// long as an upload may take is given up, and its parts go.
#[utoipa::path(post, path = "/symbols/uploads", tag = "symbols", operation_id = "begin_upload",
    request_body = NewUpload,
    responses((status = 200, description = "The upload and its state.", body = BegunUpload), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn begin_upload(
    State(api): State<Api>,
    access: Access<SymbolsWrite>,
    Json(new): Json<NewUpload>,
) -> Result<axum::Json<BegunUpload>, Problem> {
    check_names(new.name.as_deref(), new.app.as_deref())?;
    let may = UploadQuota::of(&api, &access);
    let new = NewUpload { app: access.app(new.app)?, ..new };
    begin(api, access.owner(), may, new).await.map(axum::Json)
}
