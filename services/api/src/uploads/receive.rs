//! Streams one uploaded file to object storage.
//!
//! The order makes every failure harmless. First, a row announces the file; then the bytes go to storage;
//! then one transaction records that they have come and adds the job. If a step fails, the row gets the
//! reason and nothing stays in storage.

use crate::limits::capacity::Capacity;
use crate::problem::{Kind, Problem};
use crate::requests::access::Access;
use crate::storage::Storage;
use crate::uploads::format;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::Serialize;
use time::Duration;
use tokio_util::io::StreamReader;
use unslide_archive::DETECTION_HEAD_BYTES;
use unslide_artifacts::Put;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_model::{ContentHash, Owner};
use unslide_store::tenants::QuotaLimits;
use unslide_store::{UploadId, uploads, usage};
use utoipa::ToSchema;

/// The longest time for which an answer waits for the deletion of an object that no job will read.
const DELETION_WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Upload limits of the sender of a file.
#[derive(Clone, Copy, Debug)]
pub struct UploadQuota {
    /// Maximum size of the file, in bytes.
    pub bytes: u64,
    /// Maximum size of all symbols of the owner, with this file, in bytes; `None` if there is no limit.
    pub symbol_bytes: Option<u64>,
    /// The key is restricted to one app, and must not see uploads for other apps.
    pub one_app: bool,
}

impl UploadQuota {
    /// Returns the limits of a key. Uploads of system symbols by operators have no limit.
    #[must_use]
    pub fn from_access<P>(capacity: &Capacity, access: &Access<P>) -> UploadQuota {
        match access.symbol_owner() {
            Owner::Tenant(_) => {
                UploadQuota::for_tenant(capacity, &access.principal.limits, access.only_app().is_some())
            }
            Owner::System => {
                UploadQuota { bytes: capacity.tenants.upload_bytes, symbol_bytes: None, one_app: false }
            }
        }
    }

    /// Returns the limits of a tenant's sender.
    #[must_use]
    pub fn for_tenant(capacity: &Capacity, own: &QuotaLimits, one_app: bool) -> UploadQuota {
        let own_or = |own: u64, default: u64| if own == 0 { default } else { own };
        UploadQuota {
            bytes: own_or(own.upload_bytes, capacity.tenants.upload_bytes),
            symbol_bytes: Some(own_or(own.symbol_bytes, capacity.tenants.symbol_bytes)),
            one_app,
        }
    }
}

/// Metadata of a file before its bytes come.
#[derive(Clone, Debug)]
pub struct File {
    /// The owner of the file.
    pub owner: Owner,
    /// Its name, as the client says.
    pub name: Option<String>,
    /// The app that it belongs to, as the client says.
    pub app: Option<String>,
    /// The hash that its bytes must have.
    pub announced: Option<ContentHash>,
    /// The limits of its sender.
    pub may: UploadQuota,
}

/// A file that is safe in storage.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedFile {
    /// Id of the file's upload, to follow its status.
    #[schema(value_type = Uuid)]
    pub id: UploadId,
    /// True if the same bytes were uploaded before.
    pub existing: bool,
    /// Name of the file, as the client sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// Size of the file in bytes.
    pub size: u64,
    /// The SHA-256 of the bytes.
    #[schema(value_type = String)]
    pub sha256: ContentHash,
}

/// Receives one file.
///
/// # Errors
/// The bytes are invalid, or a server fails. The upload's row then has the reason.
pub async fn receive_file(
    storage: &Storage,
    file: File,
    pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
) -> Result<AcceptedFile, Problem> {
    // A short file ends while its head is read, and is polled again afterwards.
    let mut pieces = Box::pin(pieces.fuse());
    let head = read_head(&mut pieces, DETECTION_HEAD_BYTES).await?;
    // A wrong file is refused before anything is written.
    format::check_format(&head)?;
    let mut tx = storage.owner(&file.owner).await?;
    let id = uploads::create_upload(&mut tx, file.name.as_deref(), file.app.as_deref()).await?;
    tx.commit().await?;
    let whole = stream::once(async { Ok(head) }).chain(pieces);
    match store_file(storage, &file, id, whole).await {
        Ok(received) => {
            storage.metrics.upload_bytes.inc_by(received.size);
            Ok(received)
        }
        Err(problem) => {
            give_up(storage, &file.owner, id, &problem).await;
            Err(problem)
        }
    }
}

/// Returns the first `least` bytes or more, or fewer if the stream ends.
pub async fn read_head(
    pieces: &mut (impl Stream<Item = Result<Bytes, Problem>> + Unpin),
    least: usize,
) -> Result<Bytes, Problem> {
    let mut head = BytesMut::new();
    while head.len() < least {
        let Some(piece) = pieces.try_next().await? else { break };
        head.extend_from_slice(&piece);
    }
    Ok(head.freeze())
}

async fn store_file(
    storage: &Storage,
    file: &File,
    id: UploadId,
    pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
) -> Result<AcceptedFile, Problem> {
    let key = keys::for_upload(file.owner.own(id));
    let reader = StreamReader::new(Box::pin(pieces.map_err(std::io::Error::other)));
    let stored = storage.objects.put_stream(&key, reader, file.may.bytes, &Put::default()).await?;
    if file.announced.is_some_and(|announced| announced != stored.sha256) {
        let detail = format!("{} bytes arrived with the SHA-256 {}", stored.size, stored.sha256);
        return Err(Problem::new(Kind::ChecksumMismatch, detail));
    }
    let accepted = |id, existing| {
        let (file_name, size, sha256) = (file.name.clone(), stored.size, stored.sha256);
        AcceptedFile { id, existing, file_name, size, sha256 }
    };
    let mut tx = storage.owner(&file.owner).await?;
    let earlier = uploads::find_valid_upload(&mut tx, &stored.sha256).await?;
    if let Some(earlier) = earlier.filter(|earlier| !file.may.one_app || earlier.app == file.app) {
        let detail = format!("the same bytes are the upload {}", earlier.id);
        uploads::mark_failed(&mut tx, id, "duplicate", &detail, &[]).await?;
        tx.commit().await?;
        remove_file(storage, &file.owner, id).await;
        return Ok(accepted(earlier.id, true));
    }
    if let Some(limit) = file.may.symbol_bytes {
        // The lock is held until the commit, so that two concurrent uploads do not exceed the limit together.
        let used = usage::hold_symbols(&mut tx).await?;
        check_symbol_quota(&storage.capacity, used, stored.size, limit)?;
    }
    if !uploads::record_received(&mut tx, id, stored.size, &stored.sha256).await? {
        return Err(Problem::unavailable(format!("the upload {id} was given up in the meantime"), 1));
    }
    tx.commit().await?;
    Ok(accepted(id, false))
}

/// Checks that `bytes` more of symbols are within the tenant's limit.
///
/// # Errors
/// [`Kind::SymbolQuota`] with the used bytes and the limit.
pub fn check_symbol_quota(
    capacity: &Capacity,
    used: usage::SymbolBytes,
    bytes: u64,
    limit: u64,
) -> Result<(), Problem> {
    if used.total_bytes().saturating_add(bytes) <= limit {
        return Ok(());
    }
    capacity.refused.with_label_values(&["symbol_bytes"]).inc();
    let detail = format!(
        "symbol_bytes: {} bytes are stored, {} wait to be unpacked, this file has {bytes}, and the limit is {limit}",
        used.stored, used.pending
    );
    Err(Problem::new(Kind::SymbolQuota, detail))
}

/// Ends an upload if its receiver died or its client is gone: nothing has come for longer than any upload may
/// take. Returns true if the upload was still open.
pub async fn abandon_if_stale(
    storage: &Storage,
    owner: &Owner,
    upload: &uploads::SymbolUpload,
) -> Result<bool, Problem> {
    let longest =
        Duration::seconds(i64::try_from(storage.capacity.limits.upload_seconds).unwrap_or(i64::MAX));
    let before = storage.clock.now().checked_sub(longest.saturating_add(Duration::MINUTE));
    let Some(before) = before.filter(|before| upload.updated_at < *before) else { return Ok(false) };
    if upload.status != uploads::UploadStatus::Receiving {
        return Ok(false);
    }
    let mut tx = storage.owner(owner).await?;
    let ended = uploads::mark_abandoned(&mut tx, upload.id, before).await?;
    tx.commit().await?;
    if ended {
        // The builder's maintenance deletes its parts, if any.
        remove_file(storage, owner, upload.id).await;
    }
    Ok(ended)
}

/// Records the failure and removes the file from storage. If this fails, [`abandon_if_stale`] ends the upload later.
async fn give_up(storage: &Storage, owner: &Owner, id: UploadId, problem: &Problem) {
    remove_file(storage, owner, id).await;
    let detail = problem.detail().unwrap_or_else(|| problem.kind().title());
    let noted = async {
        let mut tx = storage.owner(owner).await?;
        uploads::mark_failed(&mut tx, id, problem.kind().slug(), detail, &[]).await?;
        Ok::<_, Problem>(tx.commit().await?)
    };
    if let Err(error) = noted.await {
        tracing::warn!(upload.id = %id, error = %error, "a failed upload could not be noted");
    }
}

/// Removes the file of an upload that will not be built.
pub async fn remove_file(storage: &Storage, owner: &Owner, id: UploadId) {
    remove_object(storage, &keys::for_upload(owner.own(id))).await;
}

/// Deletes an object that no job will read. A store that does not answer is waited for only for a moment: the
/// deletion goes on after the answer.
pub async fn remove_object(storage: &Storage, key: &ObjectKey) {
    let (objects, key) = (storage.objects.clone(), key.clone());
    let deletion = tokio::spawn(async move {
        if let Err(error) = objects.delete(&key).await {
            tracing::warn!(object.key = %key, error = %error, "an unused object could not be removed");
        }
    });
    let _ = tokio::time::timeout(DELETION_WAIT_TIMEOUT, deletion).await;
}
