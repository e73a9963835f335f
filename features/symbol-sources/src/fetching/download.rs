//! Downloads of files from sources, within bounds of size and time.

use super::failure::{SourceFailure, describe_error};
use reqwest::Response;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};
use unslide_model::ContentHash;

/// The slowest source, in bytes per second, and how long a download may be slower.
const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
const SLOW_START: Duration = Duration::from_secs(30);
/// The text of a download that ends early.
const BROKEN_OFF: &str = "The source does not send the whole file";

/// A file that a source begins to send.
#[derive(Debug)]
pub struct SourceDownload {
    answer: Response,
    /// The longest time between two parts.
    part_timeout: Duration,
}

/// A file that was downloaded.
#[derive(Clone, Copy, Debug)]
pub struct DownloadedSymbols {
    pub size: u64,
    pub sha256: ContentHash,
}

/// The reason for which a file was not downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadEnd {
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    #[error("{}", .0.text)]
    Source(SourceFailure),
    /// The disk of this machine is at fault.
    #[error("the file cannot be written")]
    Disk(#[from] std::io::Error),
}

impl SourceDownload {
    pub(super) fn new(answer: Response, part_timeout: Duration) -> SourceDownload {
        SourceDownload { answer, part_timeout }
    }

    /// Returns the size that the source names.
    pub fn size(&self) -> Option<u64> {
        self.answer.content_length()
    }

    /// Writes the file, of at most `limit` bytes.
    ///
    /// # Errors
    /// The file is too large, or the source or the disk fails.
    pub async fn write_to(mut self, path: &Path, limit: u64) -> Result<DownloadedSymbols, DownloadEnd> {
        if self.size().is_some_and(|size| size > limit) {
            return Err(DownloadEnd::TooLarge(limit));
        }
        let (begun, mut size, mut hash) = (Instant::now(), 0_u64, Sha256::new());
        let mut file = File::create(path).await?;
        loop {
            let part = timeout(self.part_timeout, self.answer.chunk()).await;
            let part = part.map_err(|_| DownloadEnd::Source(SourceFailure::new(BROKEN_OFF)))?;
            let part = part.map_err(|error| DownloadEnd::Source(describe_error(error, BROKEN_OFF)))?;
            let Some(part) = part else { break };
            size += part.len() as u64;
            if size > limit {
                return Err(DownloadEnd::TooLarge(limit));
            }
            if is_too_slow(begun.elapsed(), size) {
                let text = format!("The source sends less than {SLOWEST_BYTES_PER_SECOND} bytes a second");
                return Err(DownloadEnd::Source(SourceFailure::new(text)));
            }
            hash.update(&part);
            file.write_all(&part).await?;
        }
        file.flush().await?;
        Ok(DownloadedSymbols { size, sha256: ContentHash(hash.finalize().into()) })
    }
}

/// Returns true for a download that would hold its place for too long.
fn is_too_slow(elapsed: Duration, size: u64) -> bool {
    elapsed.saturating_sub(SLOW_START).as_secs().saturating_mul(SLOWEST_BYTES_PER_SECOND) > size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_drips_is_too_slow_after_a_while() {
        for (is_slow, seconds, size) in
            [(false, 30, 1), (true, 32, 1), (false, 90, 60 << 20), (true, 90, 1 << 20), (true, 900, 1 << 20)]
        {
            assert_eq!(is_too_slow(Duration::from_secs(seconds), size), is_slow, "{seconds} s, {size}");
        }
    }
}
