//! `PUT /v1/system/symbols/uploads/{id}/parts/{number}`.

use crate::access::{Access, Operator};
use crate::input::Path;
use crate::parts::{PartPath, put};
use crate::permits::Resource;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use unslide_model::Owner;

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, ChecksumMismatch, BodyTimeout, NotFound, UploadEnded, TooLarge, UnsupportedFormat);

/// Send a part of an upload of system symbols
///
/// As `PUT /v1/symbols/uploads/{id}/parts/{number}` takes a tenant's.
#[utoipa::path(put, path = "/v1/system/symbols/uploads/{id}/parts/{number}", tag = "system", operation_id = "upload_system_part",
    params(("id" = Uuid, Path, description = "The upload's id."),
        ("number" = u32, Path, description = "The part's number, from 1 on."),
        ("x-content-sha256" = Option<String>, Header, description = "The SHA-256 of the part, in hexadecimal.")),
    request_body(description = "The part's bytes.", content((Vec<u8> = "application/octet-stream"))),
    responses((status = 204, description = "The part is stored."), Failures),
    security(("key" = ["operator"])))]
pub async fn upload_system_part(
    State(api): State<Api>,
    access: Access<Operator>,
    Path(path): Path<PartPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let permit = api.permits.take(access.tenant(), Resource::Uploads, 1)?;
    put(api, Owner::System, None, &path, (&headers, body), permit).await?;
    Ok(StatusCode::NO_CONTENT)
}
