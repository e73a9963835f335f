//! Makes files of their chunks, in the background of every process of the api.
//!
//! A row that waits is a promise to a client that does not ask again. A process claims it for a minute at a time, so if it
//! dies, another one goes on. The made file takes the path of every upload.

use super::hash::Sha1Hash;
use super::options::MAX_CHUNK_BYTES;
use super::store::{self, ChunkedFileState, ClaimedFile, DueFile, FileUse, StoredChunk, chunk_key};
use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt, stream};
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use unslide_api::feature::Storage;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::reserve_bytes;
use unslide_api::feature::sources::{SourceBundleUpload, StoredSources};
use unslide_api::feature::upload::{File, Permit, UploadQuota, receive_file, remove_object};
use unslide_api::problem::{Kind, Problem};
use unslide_model::{Owner, TenantId};
use unslide_runtime::Host;
use unslide_runtime::fairness::FairSemaphore;
use unslide_store::UploadId;

/// Files that a process makes at the same time, and those of one tenant.
const MAX_ASSEMBLIES: u32 = 8;
const MAX_TENANT_ASSEMBLIES: u32 = 4;
/// Time between two looks for files that another process left.
const DUE_INTERVAL: Duration = Duration::from_secs(15);
/// The same while a file could not begin, for want of a permit.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a claim lasts, and the time between two renewals.
const CLAIM_DURATION: time::Duration = time::Duration::MINUTE;
const CLAIM_INTERVAL: Duration = Duration::from_secs(20);
/// Attempts at a file while a server fails.
const MAX_ATTEMPTS: u32 = 10;
/// The delay before the next attempt, for each attempt so far.
const RETRY_BACKOFF: time::Duration = time::Duration::seconds(5);
/// How long the end of the process waits for files that are being made.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes that are hashed before other work gets its turn.
const PIECE_BYTES: usize = 64 << 10;
/// The first bytes of a source bundle.
const SOURCE_BUNDLE: &[u8] = b"SYSB";
/// The remark on a source bundle.
const SOURCE_BUNDLE_DETAIL: &str =
    "source bundles are not stored: the tenant keeps no source files; symbols do not need them";

/// Makes files in one process.
pub struct Assembler {
    due: Notify,
    permits: FairSemaphore<TenantId>,
}

impl Default for Assembler {
    fn default() -> Assembler {
        let permits = FairSemaphore::new("files made of chunks", MAX_ASSEMBLIES, MAX_TENANT_ASSEMBLIES);
        Assembler { due: Notify::new(), permits }
    }
}

impl Assembler {
    /// Tells the process that a file waits.
    pub fn notify_due(&self) {
        self.due.notify_one();
    }

    /// Starts the background work. It ends when the host begins to stop.
    pub fn start_work(
        self: &std::sync::Arc<Self>,
        symbolication: &Arc<Symbolication>,
        host: &Host,
    ) -> JoinHandle<()> {
        let (assembler, symbolication, stop) =
            (self.clone(), symbolication.clone(), host.shutdown.token().clone());
        tokio::spawn(async move { assembler.run_until_stopped(symbolication, stop).await })
    }

    async fn run_until_stopped(&self, symbolication: Arc<Symbolication>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        loop {
            let interval = match self.start_due(&symbolication, &mut running).await {
                Ok(interval) => interval,
                Err(problem) => {
                    tracing::debug!(error = %problem, "files that wait for their assembly cannot be listed");
                    DUE_INTERVAL
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.due.notified() => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = tokio::time::sleep(interval) => {}
            }
        }
        let drained = async { while running.join_next().await.is_some() {} };
        // Another process goes on with the others when their claims end.
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::info!(
                files = running.len(),
                "files that are being made of chunks are left to other processes"
            );
        }
    }

    /// Starts files that wait. Returns the time until the next look.
    async fn start_due(
        &self,
        symbolication: &Arc<Symbolication>,
        running: &mut JoinSet<()>,
    ) -> Result<Duration, Problem> {
        let mut interval = DUE_INTERVAL;
        for due in store::find_due(&symbolication.storage.store, MAX_ASSEMBLIES * 2).await? {
            let Ok(permit) = self.permits.try_acquire(&due.tenant, 1) else {
                interval = BUSY_INTERVAL;
                continue;
            };
            let Ok(upload_permit) = symbolication.capacity.permits.uploads.try_acquire(&due.tenant, 1) else {
                interval = BUSY_INTERVAL;
                continue;
            };
            if let Some(claimed) = claim_file(&symbolication.storage, &due).await? {
                let symbolication = symbolication.clone();
                running.spawn(assemble_file(symbolication, claimed, [permit, upload_permit]));
            }
        }
        Ok(interval)
    }
}

async fn claim_file(storage: &Storage, due: &DueFile) -> Result<Option<ClaimedFile>, Problem> {
    let mut tx = storage.tenant(&due.tenant).await?;
    let until = tx.now() + CLAIM_DURATION;
    let claimed = store::claim_file(&mut tx, due, until).await?;
    tx.commit().await?;
    Ok(claimed)
}

/// The end of a file that was made.
enum AssemblyEnd {
    /// It is an upload with this id.
    Stored(UploadId),
    /// It is of a kind that is not kept.
    Ignored(&'static str),
    /// It is a bundle with this number of source files, which are kept.
    Sources(u32),
    /// These chunks are not there.
    Lost(Vec<Sha1Hash>),
}

async fn assemble_file(symbolication: Arc<Symbolication>, claimed: ClaimedFile, _permits: [Permit; 2]) {
    let end = tokio::select! {
        end = make_file(&symbolication, &claimed) => end,
        problem = renew_claim(&symbolication.storage, &claimed) => Err(problem),
    };
    if let Err(problem) = record_end(&symbolication.storage, &claimed, end).await {
        // The claim ends, and the next attempt finds the same bytes.
        tracing::warn!(error = %problem, tenant = %claimed.tenant, "the end of an assembly could not be recorded");
    }
}

/// Renews the claim until the file is made. Returns only if that fails.
async fn renew_claim(storage: &Storage, claimed: &ClaimedFile) -> Problem {
    loop {
        tokio::time::sleep(CLAIM_INTERVAL).await;
        let renewed = async {
            let mut tx = storage.tenant(&claimed.tenant).await?;
            let until = tx.now() + CLAIM_DURATION;
            store::set_due(&mut tx, &claimed.app, claimed.file.sha1, until).await?;
            Ok::<_, Problem>(tx.commit().await?)
        };
        if let Err(problem) = renewed.await {
            return problem;
        }
    }
}

async fn make_file(symbolication: &Symbolication, claimed: &ClaimedFile) -> Result<AssemblyEnd, Problem> {
    let mut tx = symbolication.storage.tenant(&claimed.tenant).await?;
    let chunks = store::find_chunks(&mut tx, &claimed.file.chunks).await?;
    let lost: Vec<Sha1Hash> =
        claimed.file.chunks.iter().filter(|sha1| !chunks.contains_key(sha1)).copied().collect();
    if !lost.is_empty() {
        return Ok(AssemblyEnd::Lost(lost));
    }
    // From here on the file counts, and not its chunks as well.
    store::set_counted(&mut tx, &claimed.file.chunks, false).await?;
    tx.commit().await?;
    let reader = ChunkReader { symbolication, tenant: &claimed.tenant, chunks: &chunks };
    let Some(first) = claimed.file.chunks.first() else {
        return Err(Problem::new(Kind::InvalidUpload, "the file is empty"));
    };
    let Some(head) = reader.read_chunk(*first).await? else { return Ok(AssemblyEnd::Lost(vec![*first])) };
    if head.starts_with(SOURCE_BUNDLE) && claimed.file.file_use == FileUse::DebugFile {
        return store_sources(claimed, reader).await;
    }
    let file = File {
        owner: Owner::Tenant(claimed.tenant.clone()),
        name: Some(claimed.file.name.clone()),
        app: Some(claimed.app.clone()),
        announced: None,
        may: UploadQuota {
            bytes: claimed.limits.file_bytes,
            symbol_bytes: claimed.limits.symbol_bytes,
            one_app: claimed.limits.is_for_one_app,
        },
    };
    let accepted =
        receive_file(&symbolication.storage, file, reader.read_file(&claimed.file.chunks, claimed.file.sha1))
            .await?;
    Ok(AssemblyEnd::Stored(accepted.id))
}

/// Hands a bundle of source files to the feature that keeps them.
async fn store_sources(claimed: &ClaimedFile, reader: ChunkReader<'_>) -> Result<AssemblyEnd, Problem> {
    let (symbolication, tenant) = (reader.symbolication, &claimed.tenant);
    let Some(sources) = symbolication.sources else { return Ok(AssemblyEnd::Ignored(SOURCE_BUNDLE_DETAIL)) };
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let is_enabled = (sources.is_enabled)(&mut tx).await?;
    tx.rollback();
    if !is_enabled {
        return Ok(AssemblyEnd::Ignored(SOURCE_BUNDLE_DETAIL));
    }
    let mut reservation = reserve_bytes(&symbolication.capacity.permits, tenant, 0)?;
    let mut bytes = BytesMut::new();
    let mut pieces = Box::pin(reader.read_file(&claimed.file.chunks, claimed.file.sha1));
    while let Some(piece) = pieces.try_next().await? {
        if (bytes.len() + piece.len()) as u64 > sources.bundle_bytes {
            let detail = format!("the limit of a source bundle is {} bytes", sources.bundle_bytes);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        reservation.reserve_more(piece.len() as u64)?;
        bytes.extend_from_slice(&piece);
    }
    let upload = SourceBundleUpload {
        tenant: tenant.clone(),
        app: Some(claimed.app.clone()),
        symbol_bytes: claimed.limits.symbol_bytes,
        bytes: bytes.freeze(),
        reservation,
    };
    Ok(match (sources.store_bundle)(symbolication.storage.clone(), upload).await? {
        StoredSources::Stored(files) => AssemblyEnd::Sources(files),
        StoredSources::Disabled => AssemblyEnd::Ignored(SOURCE_BUNDLE_DETAIL),
    })
}

/// Reads chunks from object storage.
#[derive(Clone, Copy)]
struct ChunkReader<'c> {
    symbolication: &'c Symbolication,
    tenant: &'c TenantId,
    chunks: &'c HashMap<Sha1Hash, StoredChunk>,
}

impl<'c> ChunkReader<'c> {
    /// Returns the bytes of a chunk, or None if its object is lost.
    async fn read_chunk(self, sha1: Sha1Hash) -> Result<Option<Bytes>, Problem> {
        let Some(chunk) = self.chunks.get(&sha1) else { return Ok(None) };
        let key = chunk_key(self.tenant, chunk.object_id, sha1);
        Ok(self.symbolication.storage.objects.get(&key, MAX_CHUNK_BYTES).await?.map(|object| object.bytes))
    }

    /// Returns the bytes of chunks one after the other. Ends with an error if together they have another hash.
    fn read_file(
        self,
        chunks: &'c [Sha1Hash],
        announced: Sha1Hash,
    ) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'c {
        let pieces = stream::iter(chunks.iter().copied().map(Ok)).and_then(move |sha1| async move {
            let bytes = self.read_chunk(sha1).await?;
            let bytes = bytes.ok_or_else(|| {
                Problem::unavailable(format!("the chunk {sha1} is not in object storage"), 1)
            })?;
            Ok::<_, Problem>(stream::iter(split_bytes(bytes).map(Ok)))
        });
        checked_pieces(pieces.try_flatten(), announced)
    }
}

fn split_bytes(bytes: Bytes) -> impl Iterator<Item = Bytes> {
    let starts = (0..bytes.len()).step_by(PIECE_BYTES);
    starts.map(move |start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES)))
}

/// Passes pieces on, and ends with an error if they have another hash.
fn checked_pieces(
    pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    announced: Sha1Hash,
) -> impl Stream<Item = Result<Bytes, Problem>> + Send {
    let state = Some((Box::pin(pieces), Sha1::new()));
    stream::unfold(state, move |state| async move {
        let (mut pieces, mut hash) = state?;
        match pieces.try_next().await {
            Ok(Some(piece)) => {
                hash.update(&piece);
                Some((Ok(piece), Some((pieces, hash))))
            }
            Ok(None) => {
                let found = Sha1Hash::from_digest(hash);
                let lie = || {
                    let detail = format!("the chunks of {announced} make a file with the SHA-1 {found}");
                    Problem::new(Kind::ChecksumMismatch, detail)
                };
                (found != announced).then(|| (Err(lie()), None))
            }
            Err(problem) => Some((Err(problem), None)),
        }
    })
}

/// Records the end of a file, or when it is tried again.
async fn record_end(
    storage: &Storage,
    claimed: &ClaimedFile,
    end: Result<AssemblyEnd, Problem>,
) -> Result<(), Problem> {
    let (app, sha1, chunks) = (claimed.app.as_str(), claimed.file.sha1, &claimed.file.chunks);
    let mut tx = storage.tenant(&claimed.tenant).await?;
    let mut released = Vec::new();
    match end {
        Ok(AssemblyEnd::Stored(id)) => {
            store::finish_file(&mut tx, app, sha1, ChunkedFileState::Stored, Some(id), None).await?;
            released = store::release_chunks(&mut tx, chunks).await?;
        }
        Ok(AssemblyEnd::Ignored(remark)) => {
            store::finish_file(&mut tx, app, sha1, ChunkedFileState::Ignored, None, Some(remark)).await?;
            store::set_counted(&mut tx, chunks, true).await?;
        }
        Ok(AssemblyEnd::Sources(files)) => {
            // The bundle counts, and not its chunks as well.
            let remark = format!("{files} source files are stored");
            store::finish_file(&mut tx, app, sha1, ChunkedFileState::Ignored, None, Some(&remark)).await?;
            released = store::release_chunks(&mut tx, chunks).await?;
        }
        Ok(AssemblyEnd::Lost(lost)) => {
            tracing::warn!(chunks = lost.len(), tenant = %claimed.tenant, "chunks are lost; their client has to send them again");
            released = store::delete_chunks(&mut tx, &lost).await?;
            store::delete_file(&mut tx, app, sha1).await?;
        }
        Err(problem) if may_pass(&problem) && claimed.attempts < MAX_ATTEMPTS => {
            let at = tx.now() + RETRY_BACKOFF * claimed.attempts.max(1);
            store::set_due(&mut tx, app, sha1, at).await?;
        }
        // The chunks may be the cause: the client sends them again.
        Err(problem) if may_pass(&problem) => {
            tracing::warn!(error = %problem, tenant = %claimed.tenant, "a file could not be made of its chunks");
            released = store::delete_chunks(&mut tx, chunks).await?;
            store::delete_file(&mut tx, app, sha1).await?;
        }
        Err(problem) => {
            let detail = problem.detail().unwrap_or_else(|| problem.kind().title()).to_owned();
            store::finish_file(&mut tx, app, sha1, ChunkedFileState::Failed, None, Some(&detail)).await?;
            store::set_counted(&mut tx, chunks, true).await?;
        }
    }
    tx.commit().await?;
    // An object that remains here goes later, because it is condemned.
    for key in released {
        remove_object(storage, &key).await;
    }
    Ok(())
}

/// Returns true for a failure of a server or of a limit on load.
fn may_pass(problem: &Problem) -> bool {
    let kind = problem.kind();
    kind.is_retriable() || kind.status().is_server_error() && kind != Kind::SymbolQuota
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(pieces: &[&'static str], announced: &str) -> Result<Vec<u8>, Kind> {
        let pieces = stream::iter(pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))));
        let checked = checked_pieces(pieces, announced.parse().unwrap());
        let read: Result<Vec<Bytes>, Problem> = checked.try_collect().await;
        read.map(|pieces| pieces.concat()).map_err(|problem| problem.kind())
    }

    #[tokio::test]
    async fn chunks_that_make_another_file_are_refused() {
        let abc = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(read(&["a", "bc"], abc).await, Ok(b"abc".to_vec()));
        assert_eq!(read(&["bc", "a"], abc).await, Err(Kind::ChecksumMismatch));
        assert_eq!(read(&[], abc).await, Err(Kind::ChecksumMismatch));
    }

    #[test]
    fn a_chunk_is_read_in_pieces() {
        let bytes = Bytes::from(vec![7; PIECE_BYTES + 1]);
        let sizes: Vec<usize> = split_bytes(bytes).map(|piece| piece.len()).collect();
        assert_eq!(sizes, [PIECE_BYTES, 1]);
    }

    #[test]
    fn only_failures_of_servers_are_tried_again() {
        assert!(may_pass(&Problem::unavailable("storage", 1)));
        assert!(may_pass(&Problem::from_kind(Kind::TenantBusy)));
        for kind in [Kind::SymbolQuota, Kind::ChecksumMismatch, Kind::UnsupportedFormat, Kind::TooLarge] {
            assert!(!may_pass(&Problem::from_kind(kind)), "{kind:?}");
        }
    }
}
