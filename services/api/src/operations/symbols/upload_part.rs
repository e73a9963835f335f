//! `PUT /v1/symbols/uploads/{id}/parts/{number}`.

use crate::operations::prelude::*;
use crate::uploads::parts::{PartPath, receive_part};
use axum::body::Body;
use http::{HeaderMap, StatusCode};

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, ChecksumMismatch, BodyTimeout, NotFound, UploadEnded, TooLarge, UnsupportedFormat);

/// Send a part of an upload
///
/// Each part has `part_bytes` bytes, the last one the rest. The same part again replaces the one before. With
/// `X-Content-SHA256` (hexadecimal), `Content-Digest` or `Digest`, a part that arrives with another hash is
/// refused. With `Content-Encoding: zstd` (or `gzip`) the part is unpacked as it arrives; its size and
/// `X-Content-SHA256` are those of the unpacked bytes. The answer comes when storage has the part.
#[utoipa::path(put, path = "/symbols/uploads/{id}/parts/{number}", tag = "symbols", operation_id = "upload_part",
    params(("id" = Uuid, Path, description = "The upload's id."),
        ("number" = u32, Path, description = "The part's number, from 1 on."),
        ("x-content-sha256" = Option<String>, Header, description = "The SHA-256 of the part, unpacked, in hexadecimal."),
        ("content-encoding" = Option<String>, Header, description = "`zstd` or `gzip`, if the part is packed.")),
    request_body(description = "The part's bytes.", content((Vec<u8> = "application/octet-stream"))),
    responses((status = 204, description = "The part is stored."), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn upload_part(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Path(path): Path<PartPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let permit = storage.capacity.permits.uploads.try_acquire(access.tenant(), 1)?;
    receive_part(storage, access.symbol_owner(), access.only_app(), &path, &headers, body, permit).await?;
    Ok(StatusCode::NO_CONTENT)
}
