//! Sending one file.

use super::find::{self, Found, MachO};
use super::parts;
use crate::client::{Accepted, Client, ClientError, Upload, tries};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio_util::io::ReaderStream;

/// What became of a file.
pub enum Sent {
    /// The server has all of it from before, and whatever was still to be built was waited for.
    Known,
    /// It was sent; what the server found in it.
    New(String),
}

/// Sends a file, unless the server has it, and waits until it is built.
///
/// # Errors
/// The reason, for people.
pub async fn send(client: &Client, found: &Found, bar: &ProgressBar, wait: bool) -> Result<Sent, String> {
    let path = found.path.clone();
    let (mach_o, hash) = blocking(move || Ok((find::mach_o(&path)?, find::file_hash(&path)?))).await?;
    if let Some(mach_o) = &mach_o
        && is_known(client, mach_o).await.map_err(|error| chain(&error))?
    {
        return Ok(Sent::Known);
    }
    let accepted = match parts::send(client, found, &hash, bar).await {
        Ok(None) => whole(client, found, &hash, bar).await,
        Ok(Some(accepted)) => Ok(accepted),
        Err(error) => Err(error),
    };
    let accepted = accepted.map_err(|error| chain(&error))?;
    if !wait {
        return Ok(if accepted.existing { Sent::Known } else { Sent::New("uploaded".to_owned()) });
    }
    bar.set_message(format!("{}: building", found.name));
    loop {
        let upload = client.upload_status(&accepted.id).await.map_err(|error| chain(&error))?;
        if upload.is_final() {
            return verdict(&upload, accepted.existing);
        }
    }
}

/// Sends a file in one request.
async fn whole(
    client: &Client,
    found: &Found,
    hash: &str,
    bar: &ProgressBar,
) -> Result<Accepted, ClientError> {
    // Asked before each try: the one before may have arrived, and only its answer was lost.
    let sent = AtomicBool::new(false);
    let accepted = tries(|| async {
        if let Some(upload) = client.find_upload(hash).await? {
            return Ok(Accepted { id: upload.id, existing: !sent.load(Relaxed) });
        }
        sent.store(true, Relaxed);
        bar.set_position(0);
        let body = body(&found.path, bar).await?;
        client.upload(&found.name, body, found.size, hash).await
    });
    accepted.await
}

/// True where the server has every architecture of the file, byte for byte, and it is ready.
async fn is_known(client: &Client, mach_o: &MachO) -> Result<bool, ClientError> {
    if !mach_o.whole || mach_o.slices.is_empty() {
        return Ok(false);
    }
    for (id, hash) in &mach_o.slices {
        let objects = client.objects(id).await?;
        if !objects.iter().any(|object| object.sha256 == *hash && object.status == "ready") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The file as a stream that moves the bar.
async fn body(path: &Path, bar: &ProgressBar) -> Result<reqwest::Body, ClientError> {
    let file = tokio::fs::File::open(path).await?;
    let bar = bar.clone();
    let pieces =
        ReaderStream::with_capacity(file, 1 << 18).inspect_ok(move |piece| bar.inc(piece.len() as u64));
    Ok(reqwest::Body::wrap_stream(pieces))
}

fn verdict(upload: &Upload, existing: bool) -> Result<Sent, String> {
    if upload.status == "failed" {
        let reason = upload.reason.clone().unwrap_or_else(|| "failed".to_owned());
        return Err(upload.detail.as_ref().map_or(reason.clone(), |detail| format!("{reason}: {detail}")));
    }
    let bad: Vec<String> = upload
        .objects
        .iter()
        .filter(|object| object.status != "ready")
        .map(|object| {
            let reason = object.reason.as_deref().unwrap_or("no reason given");
            format!("{} is {}: {reason}", object.arch, object.status)
        })
        .collect();
    if !bad.is_empty() {
        return Err(bad.join("; "));
    }
    if upload.objects.is_empty() {
        return Err("the server found no symbols in it".to_owned());
    }
    if existing {
        return Ok(Sent::Known);
    }
    let ready = upload.objects.iter().map(|object| {
        let id = object.debug_id.map_or_else(|| "without a debug id".to_owned(), |id| id.to_string());
        format!("{} {id} ready", object.arch)
    });
    Ok(Sent::New(ready.collect::<Vec<_>>().join(", ")))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
