//! `POST /v1/symbols`.

use crate::operations::prelude::*;
use crate::requests::body::{Chunks, packed_limit};
use crate::requests::digest;
use crate::storage::transactions::run_detached;
use crate::uploads::multipart;
use crate::uploads::receive::{AcceptedFile, File, UploadQuota, check_symbol_quota, receive_file};
use crate::uploads::unpack::{Packing, Pieces, decode_body};
use axum::body::Body;
use http::{HeaderMap, header};
use std::time::Duration;
use unslide_model::Owner;
use unslide_store::{UploadId, usage};

/// Name and app of the uploaded file.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    /// Name of the file, for lists; a part of a form has its own name.
    #[param(max_length = 255, example = "Shop.dSYM.zip")]
    pub name: Option<String>,
    /// The app (bundle identifier) that the symbols belong to, for lists.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
}

/// Uploads that the request began, one for each file.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedUpload {
    /// Id of the upload; of the first file if the request has several.
    #[schema(value_type = Uuid)]
    pub id: UploadId,
    /// True if the same bytes were uploaded before: the id is that upload's, and nothing changes.
    pub existing: bool,
    /// Each file of the request, in its order.
    pub uploads: Vec<AcceptedFile>,
}

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, ChecksumMismatch, BodyTimeout, TooLarge, UnsupportedFormat, SymbolQuota);

/// Upload symbols
///
/// Takes a zip, tar, gzip or zstd file of any depth, a dSYM bundle in one of them, or a bare Mach-O file,
/// thin or fat: as the body, or as the files of multipart/form-data. The service streams the body to storage,
/// at any size within the tenant's limit, and answers when storage has all of it. Symcaches are built
/// afterwards: see `GET /v1/symbols/uploads/{id}?wait=30s`.
///
/// The same bytes again change nothing: the answer names the earlier upload. With `X-Content-SHA256`
/// (hexadecimal), `Content-Digest` or `Digest`, a body that arrives with another hash is refused.
///
/// A body with `Content-Encoding: zstd` (or `gzip`) is unpacked as it arrives: a dSYM has a quarter of its
/// bytes then. Limits and `X-Content-SHA256` are those of the unpacked bytes.
///
/// A file over the tenant's `upload_bytes` is refused with 413 before more of it is read. A file that does
/// not fit into the tenant's `symbol_bytes` is refused with 507. A key for one app uploads for that app.
#[utoipa::path(post, path = "/symbols", tag = "symbols", operation_id = "upload_symbols",
    params(UploadQuery, ("x-content-sha256" = Option<String>, Header, description = "The SHA-256 of the body, unpacked, in hexadecimal."),
        ("content-encoding" = Option<String>, Header, description = "`zstd` or `gzip`, if the body is packed.")),
    request_body(description = "The file, or a form with files.", content(
        (Vec<u8> = "application/octet-stream"), (Vec<u8> = "application/zip"), (Vec<u8> = "application/gzip"),
        (Vec<u8> = "multipart/form-data"))),
    responses((status = 202, description = "The file is stored and waits to be built.",
            headers(("location" = String, description = "The path of the upload's status; of the first file if there are several.")),
            body = AcceptedUpload), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn upload_symbols(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Query(query): Query<UploadQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<AcceptedUpload>, Problem> {
    let (owner, may) = (access.symbol_owner(), UploadQuota::from_access(&storage.capacity, &access));
    let app = access.restrict_app(query.app)?;
    let permit = storage.capacity.permits.uploads.try_acquire(access.tenant(), 1)?;
    check_names(query.name.as_deref(), app.as_deref())?;
    // Checked before any byte is read, and again after the file is stored.
    let coding = Packing::from_headers(&headers)?;
    let limit = coding.map_or(may.bytes, |_| packed_limit(may.bytes));
    let chunks = Chunks::new(&headers, body, limit, storage.capacity.limits.client_pace())?;
    let pieces = decode_body(chunks.into_stream(), coding, may.bytes);
    check_quota(&storage, &owner, announced_length(&headers), may.symbol_bytes).await?;
    let boundary = multipart::parse_boundary(&headers, Kind::InvalidUpload)?;
    let announced = digest::parse_announced(&headers, coding.is_some())?;
    if announced.is_some() && boundary.is_some() {
        let detail = "a form's hash is not compared; send the file as the body, or no hash";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let of = owner.clone();
    // The upload runs in its own task. If the client disconnects, the body ends with an error, and the task
    // can still record the failure and remove the file from storage.
    let time = Duration::from_secs(storage.capacity.limits.upload_seconds);
    let work = run_detached(Box::pin(async move {
        let _permit = permit;
        let file = File { owner, name: query.name, app, announced, may };
        tokio::time::timeout(time, receive_all(&storage, file, boundary, pieces))
            .await
            .unwrap_or_else(|_| Err(Problem::body_timeout(time)))
    }));
    let uploads: Vec<AcceptedFile> = work.await?;
    let Some(first) = uploads.first() else {
        return Err(Problem::new(Kind::InvalidUpload, "the form has no file"));
    };
    let location = Some(upload_location(&of, first.id));
    Ok(AcceptedResponse {
        body: AcceptedUpload { id: first.id, existing: first.existing, uploads },
        location,
    })
}

/// Returns the path of an upload's status.
#[must_use]
pub fn upload_location(owner: &Owner, upload: UploadId) -> String {
    match owner {
        Owner::Tenant(_) => format!("/v1/symbols/uploads/{upload}"),
        Owner::System => format!("/v1/system/symbols/uploads/{upload}"),
    }
}

/// Checks that a file's name and app can be stored.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn check_names(name: Option<&str>, app: Option<&str>) -> Result<(), Problem> {
    for (field, text) in [("name", name), ("app", app)] {
        if text.is_some_and(|text| text.len() > 255 || text.chars().any(char::is_control)) {
            let detail = format!("{field}: at most 255 bytes, no control characters");
            return Err(Problem::new(Kind::InvalidParameter, detail));
        }
    }
    Ok(())
}

/// Returns the announced length of a body, or 0 without one.
#[must_use]
pub fn announced_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.unwrap_or(0)
}

/// Checks that a file of `bytes` is within the limit, before any byte is read.
///
/// # Errors
/// [`Kind::SymbolQuota`], or the database fails.
pub async fn check_quota(
    storage: &Storage,
    owner: &Owner,
    bytes: u64,
    limit: Option<u64>,
) -> Result<(), Problem> {
    let Some(limit) = limit else { return Ok(()) };
    let mut tx = storage.owner(owner).await?;
    let used = usage::read_symbol_bytes(&mut tx).await?;
    check_symbol_quota(&storage.capacity, used, bytes, limit)
}

async fn receive_all(
    storage: &Storage,
    file: File,
    boundary: Option<String>,
    pieces: Pieces<'static>,
) -> Result<Vec<AcceptedFile>, Problem> {
    let Some(boundary) = boundary else {
        return Ok(vec![receive_file(storage, file, pieces).await?]);
    };
    let mut uploads = Vec::new();
    let mut parts = multipart::Parts::new(pieces, boundary, Kind::InvalidUpload);
    while let Some(field) = parts.next().await? {
        let Some(name) = field.file_name().map(clean_name) else {
            multipart::pass_over(field, Kind::InvalidUpload).await?;
            continue;
        };
        if uploads.len() == storage.capacity.limits.upload_files {
            let detail =
                format!("more than {} files; send them one by one", storage.capacity.limits.upload_files);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        let file = File { name: Some(name), ..file.clone() };
        uploads.push(receive_file(storage, file, multipart::stream_field(field, Kind::InvalidUpload)).await?);
    }
    Ok(uploads)
}

/// Returns the part of a file name that is stored.
fn clean_name(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(255).collect()
}
