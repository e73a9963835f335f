//! Sends packs, and waits until the server has built what is in them.

use super::pack::Pack;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use unslide_cli::{Accepted, BoxError, Client, ClientError, CommandError, UploadBody};
use unslide_model::{ContentHash, DebugId};
use unslide_system_symbols_formats::{BuildImages, MAX_PAGE_IMAGES, RecordedBuild};

/// A pack that the server has received.
pub struct SentPack {
    pub upload_id: String,
    pub bytes: u64,
}

/// Sends a pack, unless the server has received the same bytes before.
///
/// # Errors
/// Returns an error if the API refuses the pack or does not answer.
pub async fn send_pack(client: &Client, pack: &Pack, name: &str) -> Result<SentPack, BoxError> {
    let bytes = Bytes::from(pack.to_tar()?);
    let size = bytes.len() as u64;
    let hash = ContentHash(Sha256::digest(&bytes).into()).to_string();
    let was_sent = AtomicBool::new(false);
    if let Some(upload) = client.find_upload(&hash).await.map_err(explain_refusal)? {
        return Ok(SentPack { upload_id: upload.id, bytes: 0 });
    }
    let body = UploadBody::new(bytes, hash.clone())?;
    let send = || async {
        // A try before this one may have arrived, and only its answer was lost.
        if was_sent.swap(true, Relaxed)
            && let Some(upload) = client.find_upload_once(&hash).await?
        {
            return Ok(Accepted { id: upload.id, existing: false });
        }
        client.upload_file(name, &body, |_| {}).await
    };
    let accepted = client.retry_transient(send).await.map_err(explain_refusal)?;
    Ok(SentPack { upload_id: accepted.id, bytes: if accepted.existing { 0 } else { size } })
}

/// Waits until the server has built an upload. Returns the images that it refused, with the reasons.
///
/// # Errors
/// Returns an error if the API does not answer.
pub async fn wait_for_build(client: &Client, upload_id: &str) -> Result<Vec<String>, BoxError> {
    loop {
        let upload = client.upload_status(upload_id).await.map_err(explain_refusal)?;
        if !upload.is_final() {
            continue;
        }
        if upload.status == "failed" {
            let reason = upload.reason.unwrap_or_else(|| "failed".to_owned());
            return Ok(vec![
                upload.detail.map_or_else(|| reason.clone(), |detail| format!("{reason}: {detail}")),
            ]);
        }
        let refused = upload.objects.iter().filter(|object| object.status != "ready");
        return Ok(refused
            .map(|object| {
                let id = object.debug_id.map_or_else(|| "an image".to_owned(), |id| id.to_string());
                let reason = object.reason.as_deref().unwrap_or("no reason filter_given");
                format!("{id} is {}: {reason}", object.status)
            })
            .collect());
    }
}

/// Records which images each build and architecture has.
///
/// # Errors
/// Returns an error if the API refuses them or does not answer.
pub async fn record_builds(
    client: &Client,
    builds: &BTreeMap<(String, &'static str), BTreeSet<DebugId>>,
) -> Result<(), BoxError> {
    for ((build, arch), ids) in builds {
        let path = format!("{}/builds/{build}", client.symbols_path());
        let ids: Vec<DebugId> = ids.iter().copied().collect();
        for page in ids.chunks(MAX_PAGE_IMAGES) {
            let images = BuildImages { arch: (*arch).to_owned(), debug_ids: page.to_vec() };
            let body = serde_json::to_value(&images)?;
            let _: RecordedBuild = client.put(&path, &body).await.map_err(explain_refusal)?;
        }
    }
    Ok(())
}

/// Says what to do if the key may not write.
pub fn explain_refusal(error: ClientError) -> BoxError {
    match &error {
        ClientError::Refused { status: 403, .. } => {
            let text = "the key may not write these symbols. Use an operator's key for symbols of all tenants, or \
                        --tenant-only with a key that has the scope symbols:write";
            CommandError::caused(text, error).into()
        }
        _ => error.into(),
    }
}
