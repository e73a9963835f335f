//! `GET /v1/captures/{id}/files/{name}`.

use super::no_capture;
use crate::keys::CaptureKeys;
use crate::operations::prelude::*;
use crate::store;
use crate::store::CaptureId;
use axum::body::Body;
use futures::stream;
use http::{HeaderValue, header};
use std::io;
use unslide_api::feature::operation::reserve_bytes;

/// Bytes that are fetched at a time.
const PIECE_BYTES: u64 = 1 << 20;

problems!(Failures: InvalidParameter, NotFound);

/// Get a file of a capture
///
/// Its bytes as they were sent, unpacked if they came packed. An answer that is cut off ends with an error of the connection.
#[utoipa::path(get, path = "/v1/captures/{id}/files/{name}", tag = "captures", operation_id = "get_capture_file",
    params(
        ("id" = Uuid, Path, description = "The capture's id."),
        ("name" = String, Path, description = "`file`; of a log of allocations `events`, `stacks` or `images`.")),
    responses(
        (status = 200, description = "The bytes.", content((Vec<u8> = "application/octet-stream"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_capture_file(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let id: CaptureId = parse_parameter("id", &id)?;
    let tenant = access.tenant();
    let mut tx = storage.tenant(tenant).await?;
    let capture = store::get(&mut tx, id, access.only_app()).await?;
    // It waits for object storage, and holds no connection at the same time.
    tx.rollback();
    let capture = capture.ok_or_else(no_capture)?;
    let part = capture.form.list_parts().iter().find(|part| part.name == name);
    let file = capture.files.iter().find(|file| file.name == name);
    let (Some(part), Some(file)) = (part, file) else {
        return Err(Problem::new(Kind::NotFound, "the capture has no such file"));
    };
    let (key, size) = (CaptureKeys::new(tenant, id).part(part.name), file.size);
    let reservation = reserve_bytes(&storage.capacity.permits, tenant, PIECE_BYTES.min(size))?;
    let pieces = stream::try_unfold(
        (0, storage, key, reservation),
        move |(begin, storage, key, reservation)| async move {
            if begin >= size {
                return Ok(None);
            }
            let end = size.min(begin + PIECE_BYTES);
            let piece = storage.objects.get_range(&key, begin..end).await.map_err(io::Error::other)?;
            let piece = piece.ok_or_else(|| io::Error::other("the file is gone"))?;
            Ok::<_, io::Error>(Some((piece, (end, storage, key, reservation))))
        },
    );
    let disposition = format!("attachment; filename=\"{id}-{}\"", part.name);
    // A browser must not show as a page what a tenant sent.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_str(&disposition).map_err(Problem::internal)?),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}
