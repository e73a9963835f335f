//! `POST /v1/symbols`.

use crate::access::{Access, SymbolsWrite};
use crate::body::Chunks;
use crate::digest;
use crate::input::Query;
use crate::multipart;
use crate::permits::{Permit, Resource};
use crate::problem::{Kind, Problem, problems};
use crate::receive::{File, May, Received, fits, receive};
use crate::state::Api;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unslide_model::{ContentHash, Owner};
use unslide_store::{Uuid, usage};
use utoipa::{IntoParams, ToSchema};

/// What the client says of the file.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    /// The file's name, to be shown again; a part of a form has its own.
    #[param(max_length = 255, example = "Shop.dSYM.zip")]
    pub name: Option<String>,
    /// The app (bundle identifier) that the symbols belong to, to be shown again.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
}

/// What was received.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedUpload {
    /// The upload's id, of the first file where there are several.
    pub id: Uuid,
    /// True where the same bytes were uploaded before: the id is that upload's, and nothing changes.
    pub existing: bool,
    /// Each file of the request, in its order.
    pub uploads: Vec<AcceptedFile>,
}

/// One file that was received.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedFile {
    /// The upload's id.
    pub id: Uuid,
    /// True where the same bytes were uploaded before.
    pub existing: bool,
    /// The file's name, as the client said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of the bytes.
    #[schema(value_type = String)]
    pub sha256: ContentHash,
}

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, ChecksumMismatch, BodyTimeout, TooLarge, UnsupportedFormat, SymbolQuota);

/// Upload symbols
///
/// Takes a zip, tar, tar.gz or gz file of any depth, a dSYM bundle in one of them, or a bare Mach-O
/// file, thin or fat: as the body, or as the files of multipart/form-data. The body goes to storage
/// as it comes, whatever its size within the tenant's limit; the answer comes when it is safe there.
/// Symcaches are built afterwards: see `GET /v1/symbols/uploads/{id}?wait=30s`.
///
/// The same bytes again change nothing: the answer names the earlier upload. With `X-Content-SHA256`
/// (hexadecimal), `Content-Digest` or `Digest`, a body that arrives with another hash is refused.
///
/// A file over the tenant's `upload_bytes` is refused with 413 before more of it is read, one that the
/// tenant's `symbol_bytes` have no room for with 507. A key that speaks for one app uploads for that app.
#[utoipa::path(post, path = "/v1/symbols", tag = "symbols", operation_id = "upload_symbols",
    params(UploadQuery, ("x-content-sha256" = Option<String>, Header, description = "The SHA-256 of the body, in hexadecimal.")),
    request_body(description = "The file, or a form with files.", content(
        (Vec<u8> = "application/octet-stream"), (Vec<u8> = "application/zip"), (Vec<u8> = "application/gzip"),
        (Vec<u8> = "multipart/form-data"))),
    responses((status = 202, description = "The file is stored and waits to be built.", body = AcceptedUpload), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn upload_symbols(
    State(api): State<Api>,
    access: Access<SymbolsWrite>,
    Query(query): Query<UploadQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<AcceptedUpload>), Problem> {
    let may = May::of(&api, &access.principal);
    let query = UploadQuery { app: access.app(query.app)?, ..query };
    let owner = Owner::Tenant(access.tenant().clone());
    let permit = api.permits.take(access.tenant(), Resource::Uploads, 1)?;
    upload(api, owner, may, query, &headers, body, permit).await
}

/// Takes a request's files for an owner, and keeps the permit as long as that takes.
///
/// # Errors
/// What is wrong with the request, or with a server that is needed.
pub async fn upload(
    api: Api,
    owner: Owner,
    may: May,
    query: UploadQuery,
    headers: &HeaderMap,
    body: Body,
    permit: Permit,
) -> Result<(StatusCode, Json<AcceptedUpload>), Problem> {
    check_texts(query.name.as_deref(), query.app.as_deref())?;
    // Before any byte is read; it is looked at again when the file is there.
    let chunks = Chunks::new(headers, body, may.bytes, api.limits.pace())?;
    room(&api, &owner, announced_length(headers), may.symbol_bytes).await?;
    let boundary = multipart::boundary(headers, Kind::InvalidUpload)?;
    let announced = digest::announced(headers)?;
    if announced.is_some() && boundary.is_some() {
        let detail = "a form's hash is not compared; send the file as the body, or no hash";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    // In a task of its own, so that a client who goes away in the middle does not take with it what
    // notes the failure and clears the storage. The body then ends with an error.
    let time = Duration::from_secs(api.limits.upload_seconds);
    let work = tokio::spawn(async move {
        let _permit = permit;
        let file = File { owner, name: query.name, app: query.app, announced, may };
        tokio::time::timeout(time, all(&api, file, boundary, chunks)).await.unwrap_or_else(|_| {
            Err(Problem::new(Kind::BodyTimeout, format!("an upload may take {} s", time.as_secs())))
        })
    });
    let uploads: Vec<AcceptedFile> = work.await.map_err(Problem::internal)??;
    let Some(first) = uploads.first() else {
        return Err(Problem::new(Kind::InvalidUpload, "the form has no file"));
    };
    Ok((StatusCode::ACCEPTED, Json(AcceptedUpload { id: first.id, existing: first.existing, uploads })))
}

/// Whether a file's name and app can be kept.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn check_texts(name: Option<&str>, app: Option<&str>) -> Result<(), Problem> {
    for (field, text) in [("name", name), ("app", app)] {
        if text.is_some_and(|text| text.len() > 255 || text.contains('\0')) {
            let detail = format!("{field}: at most 255 bytes, none of them NUL");
            return Err(Problem::new(Kind::InvalidParameter, detail));
        }
    }
    Ok(())
}

fn announced_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.unwrap_or(0)
}

async fn room(api: &Api, owner: &Owner, bytes: u64, limit: Option<u64>) -> Result<(), Problem> {
    let Some(limit) = limit else { return Ok(()) };
    let mut tx = api.owner(owner).await?;
    let used = usage::stored(&mut tx).await?;
    tx.rollback().await?;
    fits(api, used, bytes, limit)
}

async fn all(
    api: &Api,
    file: File,
    boundary: Option<String>,
    chunks: Chunks,
) -> Result<Vec<AcceptedFile>, Problem> {
    let Some(boundary) = boundary else {
        let name = file.name.clone();
        let received = receive(api, file, chunks.into_stream()).await?;
        return Ok(vec![accepted(name, &received)]);
    };
    let mut uploads = Vec::new();
    let mut parts = multipart::Parts::new(chunks.into_stream(), boundary, Kind::InvalidUpload);
    while let Some(field) = parts.next().await? {
        let Some(name) = field.file_name().map(shown) else {
            multipart::pass_over(field, Kind::InvalidUpload).await?;
            continue;
        };
        if uploads.len() == api.limits.upload_files {
            let detail = format!("more than {} files; send them one by one", api.limits.upload_files);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        let file = File { name: Some(name.clone()), ..file.clone() };
        let received = receive(api, file, multipart::pieces(field, Kind::InvalidUpload)).await?;
        uploads.push(accepted(Some(name), &received));
    }
    Ok(uploads)
}

/// As much of a part's file name as is kept.
fn shown(name: &str) -> String {
    name.chars().filter(|character| *character != '\0').take(255).collect()
}

fn accepted(file_name: Option<String>, received: &Received) -> AcceptedFile {
    AcceptedFile {
        id: received.id,
        existing: received.existing,
        file_name,
        size: received.size,
        sha256: received.sha256,
    }
}
