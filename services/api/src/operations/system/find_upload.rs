//! `GET /v1/system/symbols/uploads/by-content/{sha256}`.

use crate::access::{Access, Operator};
use crate::input::Path;
use crate::operations::symbols::find_upload::find;
use crate::operations::symbols::upload_status::Upload;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound);

/// Find an upload of system symbols by its bytes
///
/// As `GET /v1/symbols/uploads/by-content/{sha256}` finds a tenant's.
#[utoipa::path(get, path = "/v1/system/symbols/uploads/by-content/{sha256}", tag = "system", operation_id = "find_system_upload",
    params(("sha256" = String, Path, description = "The SHA-256 of the bytes, in hexadecimal.")),
    responses((status = 200, description = "The upload as it stands.", body = Upload), Failures),
    security(("key" = ["operator"])))]
pub async fn find_system_upload(
    State(api): State<Api>,
    _: Access<Operator>,
    Path(sha256): Path<String>,
) -> Result<Json<Upload>, Problem> {
    find(&api, &Owner::System, None, &sha256).await
}
