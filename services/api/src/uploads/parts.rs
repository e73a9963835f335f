//! Uploads in parts, with one request for each part.
//!
//! Between two requests, only database rows and data in object storage exist. A client that comes again, to
//! this process or to another, asks which parts are there. The parts form a multipart upload of object
//! storage from the beginning to [`complete_parts`], with a row in `partial_uploads`. The builder's maintenance
//! removes the data of requests that fail.

use crate::limits::capacity::Capacity;
use crate::limits::permits::Permit;
use crate::problem::{Kind, Problem};
use crate::requests::body::Chunks;
use crate::requests::digest;
use crate::storage::Storage;
use crate::storage::transactions::run_detached;
use crate::uploads::format;
use crate::uploads::receive::{AcceptedFile, UploadQuota, check_symbol_quota, remove_file};
use crate::uploads::unpack::{Packing, decode_body};
use axum::body::Body;
use bytes::Bytes;
use futures::TryStreamExt;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;
use unslide_artifacts::{MOST_PARTS, StorageError, hashed_part, keys};
use unslide_model::{ContentHash, Owner};
use unslide_store::partial::{self, Announced, Completion, Partial, UploadPart};
use unslide_store::uploads::{self, SymbolUpload, UploadStatus};
use unslide_store::{OwnerTx, UploadId, usage};
use utoipa::ToSchema;

/// Seconds after which an owner with too many open uploads may retry.
const RETRY_AFTER_SECONDS: u32 = 60;
/// Maximum number of missing parts that an error names.
const NAMED_PARTS_LIMIT: usize = 100;

/// A file that is to come in parts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUpload {
    /// Name of the file, for lists.
    #[schema(max_length = 255, example = "Shop.dSYM.zip")]
    pub name: Option<String>,
    /// The app (bundle identifier) that the symbols belong to, for lists.
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
    /// Bytes of the whole file.
    #[schema(minimum = 1)]
    pub size: u64,
    /// The SHA-256 of the whole file.
    #[schema(value_type = String, min_length = 64, max_length = 64)]
    pub sha256: ContentHash,
}

/// An upload that takes parts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BegunUpload {
    /// Id of the upload, for its parts and its status.
    #[schema(value_type = Uuid)]
    pub id: UploadId,
    /// True if the same bytes were uploaded before: the id is that upload's, and no parts are needed.
    pub existing: bool,
    /// Bytes of each part; the last has the rest.
    pub part_bytes: u64,
    /// The numbers of the parts that have arrived, from 1 on; empty if `existing`.
    pub parts: Vec<u32>,
}

/// Begins an upload in parts, or finds the existing upload of these bytes.
///
/// # Errors
/// The owner may not send so much, or has too many open uploads; or a server fails.
pub async fn begin_or_find(
    storage: Arc<Storage>,
    owner: Owner,
    may: UploadQuota,
    new: NewUpload,
) -> Result<BegunUpload, Problem> {
    if new.size == 0 {
        return Err(Problem::new(Kind::InvalidUpload, "the file is empty"));
    }
    if new.size > may.bytes {
        let detail = format!("the file has {} bytes, the limit is {}", new.size, may.bytes);
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    let announced = Announced {
        part_bytes: storage.capacity.limits.part_bytes.max(new.size.div_ceil(MOST_PARTS)),
        file_name: new.name,
        app: new.app,
        size: new.size,
        content_hash: new.sha256,
    };
    run_detached(async move {
        let mut tx = storage.owner(&owner).await?;
        if let Some(there) = find_existing(&storage.capacity, &mut tx, may, &announced).await? {
            return Ok(there);
        }
        let id = partial::new_id(&mut tx).await?;
        tx.rollback();
        // Object storage is not called while the owner's lock is held.
        let multipart_id = storage.objects.begin_parts(&keys::for_upload(owner.own(id))).await?;
        let partial = Partial { id, announced, multipart_id };
        let begun = record_upload(&storage, &owner, may, &partial).await;
        if !begun.as_ref().is_ok_and(|begun| begun.id == id) {
            abort_parts(&storage, &owner, &partial).await;
        }
        begun
    })
    .await
}

/// Records an upload, unless another request was faster.
async fn record_upload(
    storage: &Storage,
    owner: &Owner,
    may: UploadQuota,
    new: &Partial,
) -> Result<BegunUpload, Problem> {
    let mut tx = storage.owner(owner).await?;
    if let Some(there) = find_existing(&storage.capacity, &mut tx, may, &new.announced).await? {
        return Ok(there);
    }
    partial::begin_upload(&mut tx, new).await?;
    tx.commit().await?;
    Ok(BegunUpload { id: new.id, existing: false, part_bytes: new.announced.part_bytes, parts: Vec::new() })
}

/// Returns the existing upload of these bytes, or `None` if a new one may begin. No other upload begins until
/// the transaction ends.
async fn find_existing(
    capacity: &Capacity,
    tx: &mut OwnerTx,
    may: UploadQuota,
    new: &Announced,
) -> Result<Option<BegunUpload>, Problem> {
    let used = usage::hold_symbols(tx).await?;
    let earlier = uploads::find_valid_upload(tx, &new.content_hash).await?;
    if let Some(earlier) = earlier.filter(|earlier| !may.one_app || earlier.app == new.app) {
        let (id, part_bytes) = (earlier.id, new.part_bytes);
        return Ok(Some(BegunUpload { id, existing: true, part_bytes, parts: Vec::new() }));
    }
    if let Some(open) = partial::find_upload(tx, new.app.as_deref(), &new.content_hash, new.size).await? {
        let parts = partial::list_parts(tx, open.id).await?.into_iter().map(|part| part.number).collect();
        let part_bytes = open.announced.part_bytes;
        return Ok(Some(BegunUpload { id: open.id, existing: false, part_bytes, parts }));
    }
    if let Some(limit) = may.symbol_bytes {
        check_symbol_quota(capacity, used, new.size, limit)?;
    }
    let (open, most) = (partial::count_uploads(tx).await?, capacity.limits.open_uploads);
    if open >= most {
        capacity.refused.with_label_values(&["open_uploads"]).inc();
        let detail =
            format!("open_uploads: {open} uploads in parts are not complete, and the limit is {most}");
        return Err(Problem::new(Kind::RateLimited, detail).retry_after(RETRY_AFTER_SECONDS));
    }
    Ok(None)
}

/// Path parameters of a part.
#[derive(Debug, Deserialize)]
pub struct PartPath {
    pub id: UploadId,
    pub number: u32,
}

/// Receives a part of an upload that a key for `app` may see. Holds the permit until the part is received.
///
/// # Errors
/// The part is invalid, or a server fails; [`Kind::NotFound`], [`Kind::UploadEnded`].
pub async fn receive_part(
    storage: Arc<Storage>,
    owner: Owner,
    app: Option<&str>,
    path: &PartPath,
    headers: &HeaderMap,
    body: Body,
    permit: Permit,
) -> Result<(), Problem> {
    let PartPath { id, number } = *path;
    let mut tx = storage.owner(&owner).await?;
    let upload = find_visible(&mut tx, app, id).await?;
    let partial = partial::get(&mut tx, id).await?.filter(|_| upload.status == UploadStatus::Receiving);
    tx.rollback();
    let partial = partial.ok_or_else(|| refuse_ended(&upload))?;
    let bytes = partial.bytes_of(number).ok_or_else(|| {
        Problem::new(Kind::InvalidParameter, format!("number: from 1 to {}", partial.part_count()))
    })?;
    let coding = Packing::from_headers(headers)?;
    let announced = digest::parse_announced(headers, coding.is_some())?;
    let chunks = Chunks::new(headers, body, bytes, storage.capacity.limits.client_pace())?;
    let pieces = decode_body(chunks.into_stream(), coding, bytes);
    run_detached(async move {
        let _permit = permit;
        let mut reader = StreamReader::new(pieces.map_err(std::io::Error::other));
        let read = async {
            let (part, sha256) =
                hashed_part(&mut reader, usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
            // A read after the end of the part reports a body that is too long.
            reader.read(&mut [0]).await.map_err(StorageError::Source)?;
            Ok::<_, StorageError>((part, sha256))
        };
        let time = Duration::from_secs(storage.capacity.limits.upload_seconds);
        let read = tokio::time::timeout(time, read).await;
        let (part, sha256) = read.map_err(|_| Problem::body_timeout(time))??;
        if part.len() as u64 != bytes {
            let detail = format!("part {number} has {bytes} bytes, but {} arrived", part.len());
            return Err(Problem::new(Kind::InvalidUpload, detail));
        }
        if announced.is_some_and(|announced| announced != sha256) {
            let detail = format!("part {number} arrived with the SHA-256 {sha256}");
            return Err(Problem::new(Kind::ChecksumMismatch, detail));
        }
        if number == 1
            && let Err(problem) = format::check_format(&part)
        {
            let detail = problem.detail().unwrap_or_default();
            give_up(&storage, &owner, &partial, problem.kind().slug(), detail).await?;
            return Err(problem);
        }
        store_part(&storage, &owner, &partial, number, part).await
    })
    .await
}

async fn store_part(
    storage: &Storage,
    owner: &Owner,
    partial: &Partial,
    number: u32,
    part: Bytes,
) -> Result<(), Problem> {
    let key = keys::for_upload(owner.own(partial.id));
    let place = usize::try_from(number).unwrap_or(usize::MAX);
    let etag = match storage.objects.put_part(&key, &partial.multipart_id, place, part).await {
        Ok(etag) => etag,
        Err(StorageError::Unfinished { .. }) => return Err(end_lost_upload(storage, owner, partial).await?),
        Err(error) => return Err(error.into()),
    };
    let noted = async {
        let mut tx = storage.owner(owner).await?;
        let noted = partial::record_part(&mut tx, partial.id, &UploadPart { number, etag }).await?;
        tx.commit().await?;
        Ok::<_, Problem>(noted)
    };
    match noted.await {
        Ok(true) => Ok(()),
        // The part was stored after the others were deleted.
        Ok(false) => {
            abort_parts(storage, owner, partial).await;
            Err(Problem::new(Kind::UploadEnded, "the upload ended while this part arrived"))
        }
        Err(problem) => {
            if problem.kind() == Kind::Unauthorized {
                // The tenant was deleted, so the part goes as well.
                abort_parts(storage, owner, partial).await;
            }
            Err(problem)
        }
    }
}

/// Joins the parts to the file and creates its build job. A repeated call returns the same response.
///
/// # Errors
/// [`Kind::IncompleteUpload`] if parts are missing, [`Kind::UploadEnded`] if the upload has failed,
/// [`Kind::NotFound`], [`Kind::SymbolQuota`]; or a server fails and the client may retry.
pub async fn complete_parts(
    storage: Arc<Storage>,
    owner: Owner,
    app: Option<&str>,
    may: UploadQuota,
    id: UploadId,
) -> Result<AcceptedFile, Problem> {
    let mut tx = storage.owner(&owner).await?;
    let upload = find_visible(&mut tx, app, id).await?;
    let partial = partial::get(&mut tx, id).await?.filter(|_| upload.status == UploadStatus::Receiving);
    let parts = partial::list_parts(&mut tx, id).await?;
    let used = usage::read_symbol_bytes(&mut tx).await?;
    let Some(partial) = partial else {
        return to_accepted(upload);
    };
    let here = |number: &u32| parts.binary_search_by_key(number, |part| part.number).is_ok();
    let missing: Vec<u32> = (1..=partial.part_count()).filter(|number| !here(number)).collect();
    if !missing.is_empty() {
        let named: Vec<String> = missing.iter().take(NAMED_PARTS_LIMIT).map(ToString::to_string).collect();
        let more = missing.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let detail =
            format!("of {} parts these have not come: {}{more}", partial.part_count(), named.join(", "));
        return Err(Problem::new(Kind::IncompleteUpload, detail));
    }
    // A second request would find no parts, because the first has taken them, and no file yet.
    let reserved = partial::reserve_completion(&mut tx, id).await?;
    tx.commit().await?;
    let tags: Vec<String> = parts.into_iter().map(|part| part.etag).collect();
    run_detached(async move {
        let (key, size) = (keys::for_upload(owner.own(id)), partial.announced.size);
        let Some(completion) = reserved else {
            let made = storage.objects.head(&key).await?.is_some_and(|head| head.size == size);
            let busy = || Problem::unavailable("another request makes the file of the parts", 1);
            return if made { record_complete(&storage, &owner, &partial).await } else { Err(busy()) };
        };
        // Its size has counted as pending since it began, but the limit may have become smaller.
        let others = usage::SymbolBytes { pending: used.pending.saturating_sub(size), ..used };
        if let Some(Err(problem)) =
            may.symbol_bytes.map(|limit| check_symbol_quota(&storage.capacity, others, size, limit))
        {
            let detail = problem.detail().unwrap_or_default();
            give_up(&storage, &owner, &partial, problem.kind().slug(), detail).await?;
            return Err(problem);
        }
        match storage.objects.complete_parts(&key, &partial.multipart_id, &tags, size).await {
            Ok(()) => record_complete(&storage, &owner, &partial).await,
            // Object storage may still join the parts for an earlier try of the same request, and then it has
            // neither them nor the file. Its file is asked for until the time of this request is over.
            Err(StorageError::Unfinished { .. }) if completion == Completion::First => {
                Err(Problem::unavailable("object storage has not made the file of the parts yet", 5))
            }
            Err(StorageError::Unfinished { .. }) => Err(end_lost_upload(&storage, &owner, &partial).await?),
            Err(error) => {
                let mut tx = storage.owner(&owner).await?;
                partial::let_go(&mut tx, id).await?;
                tx.commit().await?;
                Err(error.into())
            }
        }
    })
    .await
}

/// Records that the file is complete.
async fn record_complete(
    storage: &Storage,
    owner: &Owner,
    partial: &Partial,
) -> Result<AcceptedFile, Problem> {
    let (id, size, sha256) = (partial.id, partial.announced.size, partial.announced.content_hash);
    let mut tx = storage.owner(owner).await?;
    if uploads::record_received(&mut tx, id, size, &sha256).await? {
        partial::end_upload(&mut tx, id).await?;
        tx.commit().await?;
        storage.metrics.upload_bytes.inc_by(size);
        let file_name = partial.announced.file_name.clone();
        return Ok(AcceptedFile { id, existing: false, file_name, size, sha256 });
    }
    // Another request recorded it, or the upload ended in the meantime.
    let upload = find_visible(&mut tx, None, id).await?;
    tx.rollback();
    if upload.size.is_none() {
        remove_file(storage, owner, id).await;
    }
    to_accepted(upload)
}

/// Returns an upload that a key for `app` may see.
async fn find_visible(tx: &mut OwnerTx, app: Option<&str>, id: UploadId) -> Result<SymbolUpload, Problem> {
    let found = uploads::find_upload(tx, id).await?;
    let seen = found.filter(|upload| app.is_none() || upload.app.as_deref() == app);
    seen.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such upload"))
}

/// Returns the response for an upload that takes no more parts, because it is complete or has ended.
fn to_accepted(upload: SymbolUpload) -> Result<AcceptedFile, Problem> {
    match (upload.size, upload.content_hash) {
        (Some(size), Some(sha256)) => {
            Ok(AcceptedFile { id: upload.id, existing: false, file_name: upload.file_name, size, sha256 })
        }
        _ => Err(refuse_ended(&upload)),
    }
}

fn refuse_ended(upload: &SymbolUpload) -> Problem {
    let why = upload.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    Problem::new(Kind::UploadEnded, format!("it is {}{why}", upload.status.as_str()))
}

/// Ends an upload with parts that object storage no longer has: the client must send them again.
async fn end_lost_upload(storage: &Storage, owner: &Owner, partial: &Partial) -> Result<Problem, Problem> {
    let head = storage.objects.head(&keys::for_upload(owner.own(partial.id))).await?;
    if head.is_some_and(|head| head.size == partial.announced.size) {
        return Ok(Problem::unavailable("the parts have become the file, which is not noted yet", 1));
    }
    let detail = "object storage has not all of its parts any more";
    give_up(storage, owner, partial, "upload_lost", detail).await?;
    Ok(Problem::new(Kind::UploadEnded, detail))
}

/// Ends an upload and removes its parts.
async fn give_up(
    storage: &Storage,
    owner: &Owner,
    partial: &Partial,
    reason: &str,
    detail: &str,
) -> Result<(), Problem> {
    let mut tx = storage.owner(owner).await?;
    let ended = uploads::given_up(&mut tx, partial.id, reason, detail).await?;
    tx.commit().await?;
    if ended {
        remove_file(storage, owner, partial.id).await;
        if abort_parts(storage, owner, partial).await {
            let mut tx = storage.owner(owner).await?;
            partial::end_upload(&mut tx, partial.id).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}

/// Removes parts from object storage; returns false if that failed.
async fn abort_parts(storage: &Storage, owner: &Owner, partial: &Partial) -> bool {
    let key = keys::for_upload(owner.own(partial.id));
    let aborted = storage.objects.abort_parts(&key, &partial.multipart_id).await;
    if let Err(error) = &aborted {
        tracing::warn!(object.key = %key, error = %error, "unused parts could not be removed");
    }
    aborted.is_ok()
}
