//! Sending one file.

use super::parts;
use indicatif::ProgressBar;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use unslide_archive::SkipReason;
use unslide_cli::symbols::{Found, MachOFile, file_hash, mach_o};
use unslide_cli::{Accepted, BuiltObject, Client, ClientError, Exit, SkippedFile, Upload, UploadBody};
use unslide_model::{DebugId, format_causes};

/// The outcome of a file.
pub enum Sent {
    /// The server had all of it before, and its build was waited for. The objects are those that the server
    /// found in it, if they were requested.
    Known(Vec<BuiltObject>),
    /// It was sent. The objects are those that the server found in it, if the command waited for that.
    New(Vec<BuiltObject>),
    /// The server lacks it, and it was only asked for.
    Lacking,
}

/// Why a file was not sent.
#[derive(Debug)]
pub enum SendError {
    /// It failed for a reason of its own, for people.
    File(String),
    /// For a reason that the next file would have too: the API does not answer, or refuses the key.
    All(ClientError),
}

impl From<ClientError> for SendError {
    fn from(error: ClientError) -> SendError {
        match (&error, error.exit_code()) {
            (ClientError::Unreadable { .. }, _) | (_, Exit::NotAllowed | Exit::Unreachable) => {
                SendError::All(error)
            }
            _ => SendError::File(format_causes(&error)),
        }
    }
}

#[derive(Clone, Copy)]
pub struct Mode {
    /// Wait until it is built.
    pub wait: bool,
    /// Ask for the server's files, and send nothing.
    pub dry_run: bool,
}

/// Facts about a file beside its outcome.
#[derive(Default)]
pub struct FileDetails {
    /// Files in it that the server skipped.
    pub skipped: Vec<SkippedFile>,
    /// The debug ids in it, as far as they are known: of an archive only the server says them.
    pub debug_ids: BTreeSet<DebugId>,
}

/// Sends a file, unless the server has it, and waits until it is built. Facts about it go to `details`.
///
/// # Errors
/// [`SendError`].
pub async fn send_file(
    client: &Client,
    found: &Found,
    bar: &ProgressBar,
    mode: Mode,
    details: &mut FileDetails,
) -> Result<Sent, SendError> {
    let path = found.path.clone();
    let (mach_o, hash) = run_blocking(move || Ok((mach_o(&path)?, file_hash(&path)?))).await?;
    details.debug_ids.extend(mach_o.iter().flat_map(|mach_o| &mach_o.slices).map(|(id, _)| *id));
    if let Some(mach_o) = &mach_o
        && let Some(objects) = find_known(client, mach_o).await?
    {
        return Ok(Sent::Known(objects));
    }
    let accepted = match client.find_upload(&hash).await? {
        Some(upload) => Accepted { id: upload.id, existing: true },
        None if mode.dry_run => return Ok(Sent::Lacking),
        None if found.size > parts::SINGLE_REQUEST_BYTES => {
            parts::send_parts(client, found, &hash, bar).await?
        }
        None => send_whole(client, found, &hash, bar).await?,
    };
    if mode.dry_run || !mode.wait {
        return Ok(if accepted.existing { Sent::Known(Vec::new()) } else { Sent::New(Vec::new()) });
    }
    bar.set_message(format!("{}: building", found.name));
    loop {
        let upload = client.upload_status(&accepted.id).await?;
        if upload.is_final() {
            details.skipped.clone_from(&upload.skipped);
            details.debug_ids.extend(upload.objects.iter().filter_map(|object| object.debug_id));
            return judge_upload(upload, accepted.existing).map_err(SendError::File);
        }
    }
}

/// Sends a file in one request.
async fn send_whole(
    client: &Client,
    found: &Found,
    hash: &str,
    bar: &ProgressBar,
) -> Result<Accepted, ClientError> {
    let (path, size, sha256) = (found.path.clone(), found.size, hash.to_owned());
    let read =
        tokio::task::spawn_blocking(move || UploadBody::new(parts::read_bytes(&path, 0, size)?, sha256));
    let body = read.await.map_err(std::io::Error::other)??;
    // Asked before each try but the first: the one before may have arrived, and only its answer was lost.
    let sent = AtomicBool::new(false);
    let send = || async {
        if sent.swap(true, Relaxed)
            && let Some(upload) = client.find_upload_once(hash).await?
        {
            return Ok(Accepted { id: upload.id, existing: false });
        }
        bar.set_position(0);
        let bar = bar.clone();
        client.upload_file(&found.name, &body, move |bytes| bar.inc(bytes)).await
    };
    client.retry_transient(send).await
}

/// Returns the server's objects of a file if it has every architecture, byte for byte, and all are ready.
async fn find_known(client: &Client, mach_o: &MachOFile) -> Result<Option<Vec<BuiltObject>>, ClientError> {
    if !mach_o.whole || mach_o.slices.is_empty() {
        return Ok(None);
    }
    let mut known = Vec::new();
    for (id, hash) in &mach_o.slices {
        let mut objects = client.list_objects(id).await?.into_iter();
        let Some(object) = objects.find(|object| object.sha256 == *hash && object.status == "ready") else {
            return Ok(None);
        };
        known.push(BuiltObject { debug_id: object.debug_id.or(Some(*id)), ..object });
    }
    Ok(Some(known))
}

/// Returns what could not be read of objects that are ready, for people.
pub fn list_warnings(objects: &[BuiltObject]) -> impl Iterator<Item = String> {
    let ready = objects.iter().filter(|object| object.status == "ready");
    ready.filter_map(|object| Some(format!("{}: {}", object.arch, object.reason.as_ref()?)))
}

/// Returns true if a skipped member may have symbols. Reasons that this release does not know count.
fn may_hide_symbols(skipped: &SkippedFile) -> bool {
    // Those that are not named are of the kinds of those that are.
    !skipped.path.is_empty()
        && !SkipReason::HARMLESS.iter().any(|harmless| skipped.reason == harmless.as_str())
}

/// Describes a skipped member for people.
pub fn describe_skipped(skipped: &SkippedFile) -> String {
    let why = skipped.detail.as_ref().unwrap_or(&skipped.reason);
    if skipped.path.is_empty() { why.clone() } else { format!("{}: {why}", skipped.path) }
}

/// Describes the objects of a sent file for people.
pub fn describe_objects(objects: &[BuiltObject]) -> String {
    if objects.is_empty() {
        return "uploaded".to_owned();
    }
    let ready = objects.iter().map(|object| {
        let id = object.debug_id.map_or_else(|| "without a debug id".to_owned(), |id| id.to_string());
        format!("{} {id} ready", object.arch)
    });
    ready.collect::<Vec<_>>().join(", ")
}

fn judge_upload(upload: Upload, existing: bool) -> Result<Sent, String> {
    if upload.status == "failed" {
        let reason = upload.reason.unwrap_or_else(|| "failed".to_owned());
        return Err(upload.detail.map_or_else(|| reason.clone(), |detail| format!("{reason}: {detail}")));
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
    if upload.skipped.iter().any(may_hide_symbols) {
        return Err("symbols may be missing: the server could not read all of it".to_owned());
    }
    Ok(if existing { Sent::Known(upload.objects) } else { Sent::New(upload.objects) })
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, SendError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| SendError::File(error.to_string()))?;
    done.map_err(|error| SendError::File(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upload with symbols, of which this was skipped.
    fn upload(skipped: &serde_json::Value) -> Upload {
        let object = serde_json::json!({ "sha256": "0", "arch": "arm64", "status": "ready" });
        let upload =
            serde_json::json!({ "id": "7", "status": "done", "objects": [object], "skipped": skipped });
        serde_json::from_value(upload).unwrap()
    }

    #[test]
    fn what_may_have_hidden_symbols_fails_a_file_and_what_holds_none_does_not() {
        let of = |reason: &SkipReason| {
            let detail = reason.to_string();
            serde_json::json!([{ "path": "a/b", "reason": reason.as_str(), "detail": detail }])
        };
        for fine in [SkipReason::Link, SkipReason::Special, SkipReason::StaticLibrary] {
            assert!(judge_upload(upload(&of(&fine)), false).is_ok(), "{fine}");
        }
        for wrong in [
            SkipReason::Encrypted,
            SkipReason::EncryptedBinary,
            SkipReason::Method(12),
            SkipReason::Broken("cut off".to_owned()),
            SkipReason::TooDeep,
            SkipReason::PathTooLong,
            SkipReason::Kind('D'),
            SkipReason::Holes("overlap"),
            SkipReason::Format("xz"),
        ] {
            for existing in [false, true] {
                assert!(judge_upload(upload(&of(&wrong)), existing).is_err(), "{wrong}");
            }
        }
        let more = serde_json::json!([{ "path": "", "reason": "more", "detail": "and 7 more" }]);
        assert!(judge_upload(upload(&more), false).is_ok());
        let unknown = serde_json::json!([{ "path": "a", "reason": "of_a_later_release" }]);
        assert!(judge_upload(upload(&unknown), false).is_err());
    }
}
