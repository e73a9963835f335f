//! Sending a large file in parts, so that a run that ends in the middle loses one of them at most.

use bytes::Bytes;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use unslide_cli::symbols::Found;
use unslide_cli::{Accepted, Begun, Client, ClientError, UploadBody};
use unslide_model::ContentHash;

/// Files up to this size go in one request: a service takes as much as one part unless its settings
/// say otherwise.
pub const SINGLE_REQUEST_BYTES: u64 = 8 << 20;

/// Sends what the service lacks of a file.
///
/// # Errors
/// [`ClientError`].
pub async fn send_parts(
    client: &Client,
    found: &Found,
    hash: &str,
    bar: &ProgressBar,
) -> Result<Accepted, ClientError> {
    let mut first = true;
    loop {
        let begun = client.retry_transient(|| client.begin_upload(&found.name, found.size, hash)).await?;
        if begun.existing {
            return Ok(Accepted { id: begun.id, existing: first });
        }
        match send_missing(client, found, &begun, bar).await {
            // The service has dropped its parts of the file, so all of it is sent.
            Err(ClientError::Refused { status: 409, .. }) if first => first = false,
            sent => return sent,
        }
    }
}

/// Sends the parts that have not come, and has a file made of all.
async fn send_missing(
    client: &Client,
    found: &Found,
    begun: &Begun,
    bar: &ProgressBar,
) -> Result<Accepted, ClientError> {
    let most = begun.part_bytes.max(1);
    let place = |number: u64| (number - 1) * most;
    let bytes = |number: u64| most.min(found.size - place(number));
    let (here, missing): (Vec<u64>, Vec<u64>) =
        (1..=found.size.div_ceil(most)).partition(|number| begun.parts.contains(number));
    let mut done: u64 = here.into_iter().map(bytes).sum();
    bar.set_position(done);
    // Parts that were there before do not count for the rate.
    bar.reset_eta();
    for number in missing {
        let (path, start, size) = (found.path.clone(), place(number), bytes(number));
        let read = tokio::task::spawn_blocking(move || {
            let part = read_bytes(&path, start, size)?;
            let sha256 = ContentHash(Sha256::digest(&part).into()).to_string();
            UploadBody::new(part, sha256)
        });
        let part = read.await.map_err(std::io::Error::other)??;
        let send = || {
            bar.set_position(done);
            let bar = bar.clone();
            client.upload_part(&begun.id, number, &part, move |bytes| bar.inc(bytes))
        };
        client.retry_transient(send).await?;
        done += size;
    }
    client.retry_transient(|| client.complete_upload(&begun.id)).await
}

/// Reads some bytes of a file.
pub fn read_bytes(path: &Path, start: u64, size: u64) -> std::io::Result<Bytes> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut part = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(size).read_to_end(&mut part)?;
    Ok(part.into())
}
