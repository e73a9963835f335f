//! Files on disk that wait for their key. They have no name there, so nothing is left if the process dies.

use crate::whole_file::storable_name;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::io::ReaderStream;

use unslide_api::feature::upload::ClientPace;
use unslide_api::problem::{Kind, Problem};
use unslide_artifacts::StorageError;

/// The most bytes of one file without a key, and of all of them in a process: strangers can send them.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_SPOOL_BYTES: u64 = 2 << 30;
/// How long such a file may take.
const KEYLESS_FILE_TIMEOUT: Duration = Duration::from_secs(900);
/// Bytes of such a file that must come within a time of waiting: a file that drips would hold one of few permits.
const KEYLESS_PACE_BYTES: u64 = 256 << 10;
const KEYLESS_PACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Seconds after which a client may retry that found the folder full.
const FULL_RETRY_SECONDS: u32 = 10;

/// The data folder of a process if none is configured.
const DEFAULT_DATA_DIR: &str = "/var/lib/unslide";
/// The folder of such files below the data folder.
const SPOOL_FOLDER: &str = "keyless-uploads";

/// Such files of one process, and their bytes.
pub struct Spool {
    folder: PathBuf,
    used: Arc<AtomicU64>,
}

/// A file that waits for its key.
pub struct SpooledFile {
    /// Its name, as the client sent it.
    pub name: Option<String>,
    file: File,
    held: HeldBytes,
}

/// Bytes of the folder that one file holds until it is dropped.
struct HeldBytes {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl HeldBytes {
    fn take_bytes(&mut self, bytes: u64) -> Result<(), Problem> {
        if self.bytes + bytes > MAX_FILE_BYTES {
            let detail =
                format!("a file before its key: the limit is {MAX_FILE_BYTES} bytes; send the key first");
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if self.used.load(Ordering::Relaxed) > MAX_SPOOL_BYTES {
            let detail = "too many files wait for their key";
            return Err(Problem::new(Kind::Overloaded, detail).retry_after(FULL_RETRY_SECONDS));
        }
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Spool {
    /// Makes a spool in a folder below `data_dir`.
    pub fn new(data_dir: &Path) -> Spool {
        let is_empty = data_dir.as_os_str().is_empty();
        let data_dir = if is_empty { Path::new(DEFAULT_DATA_DIR) } else { data_dir };
        Spool { folder: data_dir.join(SPOOL_FOLDER), used: Arc::default() }
    }

    /// Writes a file to disk.
    ///
    /// # Errors
    /// The pieces fail, a limit is reached, or the disk fails.
    pub async fn write_file(
        &self,
        name: Option<String>,
        pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    ) -> Result<SpooledFile, Problem> {
        let mut held = HeldBytes { used: self.used.clone(), bytes: 0 };
        let folder = self.folder.clone();
        let file = tokio::task::spawn_blocking(move || open_file(&folder)).await;
        let mut file = File::from_std(file.map_err(Problem::internal)?.map_err(disk_failed)?);
        let written = write_pieces(&mut file, &mut held, pieces);
        tokio::time::timeout(KEYLESS_FILE_TIMEOUT, written).await.map_err(|_| {
            let seconds = KEYLESS_FILE_TIMEOUT.as_secs();
            Problem::new(Kind::BodyTimeout, format!("a file before its key may take {seconds} s"))
        })??;
        Ok(SpooledFile { name: name.as_deref().map(storable_name), file, held })
    }
}

/// Returns the problem of a disk that is full or fails: 503, because the same upload succeeds once it is mended.
fn disk_failed(error: io::Error) -> Problem {
    StorageError::File(error).into()
}

/// Opens a file without a name. A process without a data folder, as in development, uses the system's temporary folder.
fn open_file(folder: &Path) -> io::Result<std::fs::File> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => tempfile::tempfile(),
        _ => tempfile::tempfile_in(folder),
    }
}

async fn write_pieces(
    file: &mut File,
    held: &mut HeldBytes,
    pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
) -> Result<(), Problem> {
    let mut pieces = Box::pin(pieces);
    let mut pace = ClientPace::new(KEYLESS_PACE_TIMEOUT, KEYLESS_PACE_BYTES);
    loop {
        let asked = Instant::now();
        let piece = tokio::time::timeout(pace.time_left(), pieces.try_next()).await.map_err(|_| {
            let detail = format!("a file before its key: {} came", pace.describe_pace());
            Problem::new(Kind::BodyTimeout, detail)
        })?;
        let Some(piece) = piece? else { break };
        pace.record_progress(asked.elapsed(), piece.len() as u64);
        held.take_bytes(piece.len() as u64)?;
        file.write_all(&piece).await.map_err(disk_failed)?;
    }
    file.flush().await.map_err(disk_failed)
}

impl SpooledFile {
    /// Reads the file from its beginning.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn into_stream(mut self) -> Result<impl Stream<Item = Result<Bytes, Problem>> + Send, Problem> {
        self.file.seek(SeekFrom::Start(0)).await.map_err(disk_failed)?;
        let held = self.held;
        let pieces = ReaderStream::with_capacity(self.file, READ_BYTES);
        Ok(pieces.map_err(disk_failed).inspect_ok(move |_| {
            let _until_the_end = &held;
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    #[tokio::test]
    async fn a_file_comes_back_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path());
        let pieces = stream::iter(["ab", "c"].map(|piece| Ok(Bytes::from_static(piece.as_bytes()))));
        let file = spool.write_file(Some("Shop\n".to_owned()), pieces).await.unwrap();
        assert_eq!((file.name.as_deref(), spool.used.load(Ordering::Relaxed)), (Some("Shop"), 3));
        let read: Vec<Bytes> = file.into_stream().await.unwrap().try_collect().await.unwrap();
        assert_eq!(read.concat(), b"abc");
        assert_eq!(spool.used.load(Ordering::Relaxed), 0);
        assert_eq!(std::fs::read_dir(folder.path().join("keyless-uploads")).unwrap().count(), 0);
    }

    #[test]
    fn strangers_share_the_folder() {
        let used = Arc::new(AtomicU64::new(MAX_SPOOL_BYTES - 1));
        let mut held = HeldBytes { used: used.clone(), bytes: 0 };
        held.take_bytes(1).unwrap();
        assert_eq!(held.take_bytes(1).unwrap_err().kind(), Kind::Overloaded);
        drop(held);
        assert_eq!(used.load(Ordering::Relaxed), MAX_SPOOL_BYTES - 1);
        let mut held = HeldBytes { used, bytes: 0 };
        assert_eq!(held.take_bytes(MAX_FILE_BYTES + 1).unwrap_err().kind(), Kind::TooLarge);
    }
}
