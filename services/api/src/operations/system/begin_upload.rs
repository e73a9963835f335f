//! `POST /v1/system/symbols/uploads`.

use crate::access::{Access, Operator};
use crate::input::Json;
use crate::operations::symbols::begin_upload::{BegunUpload, NewUpload};
use crate::operations::symbols::upload::check_texts;
use crate::parts::begin;
use crate::problem::{Problem, problems};
use crate::receive::May;
use crate::state::Api;
use axum::extract::State;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, InvalidBody, InvalidUpload, BodyTimeout, IncompleteBody, TooLarge, RateLimited);

/// Begin an upload of system symbols in parts, or go on with it
///
/// As `POST /v1/symbols/uploads` does for a tenant's.
#[utoipa::path(post, path = "/v1/system/symbols/uploads", tag = "system", operation_id = "begin_system_upload",
    request_body = NewUpload,
    responses((status = 200, description = "The upload, and what has come of it.", body = BegunUpload), Failures),
    security(("key" = ["operator"])))]
pub async fn begin_system_upload(
    State(api): State<Api>,
    _: Access<Operator>,
    Json(new): Json<NewUpload>,
) -> Result<axum::Json<BegunUpload>, Problem> {
    check_texts(new.name.as_deref(), new.app.as_deref())?;
    let may = May::of_operators(&api);
    begin(api, Owner::System, may, new).await.map(axum::Json)
}
