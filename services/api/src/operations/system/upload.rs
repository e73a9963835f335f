//! `POST /v1/system/symbols`.

use crate::access::{Access, Operator};
use crate::input::Query;
use crate::operations::symbols::upload::{AcceptedUpload, UploadQuery, upload};
use crate::permits::Resource;
use crate::problem::{Problem, problems};
use crate::receive::May;
use crate::state::Api;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use unslide_model::Owner;

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, ChecksumMismatch, BodyTimeout, TooLarge, UnsupportedFormat);

/// Upload system symbols
///
/// The libraries of an operating system, as `POST /v1/symbols` takes a tenant's: Mach-O files of any
/// name, bare or in an archive. Reports of every tenant whose system images they are get a better
/// revision once no further upload is under way.
#[utoipa::path(post, path = "/v1/system/symbols", tag = "system", operation_id = "upload_system_symbols",
    params(UploadQuery, ("x-content-sha256" = Option<String>, Header, description = "The SHA-256 of the body, in hexadecimal.")),
    request_body(description = "The file, or a form with files.", content(
        (Vec<u8> = "application/octet-stream"), (Vec<u8> = "application/zip"), (Vec<u8> = "application/gzip"),
        (Vec<u8> = "multipart/form-data"))),
    responses((status = 202, description = "The file is stored and waits to be built.", body = AcceptedUpload), Failures),
    security(("key" = ["operator"])))]
pub async fn upload_system_symbols(
    State(api): State<Api>,
    access: Access<Operator>,
    Query(query): Query<UploadQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<AcceptedUpload>), Problem> {
    let may = May::of_operators(&api);
    let permit = api.permits.take(access.tenant(), Resource::Uploads, 1)?;
    upload(api, Owner::System, may, query, &headers, body, permit).await
}
