//! The symcaches that a capture can use, fetched into its job's folder.

use crate::capture::CaptureImage;
use crate::store::SeenSymbols;
use std::path::{Path, PathBuf};
use unslide_artifacts::{StorageError, keys};
use unslide_builder::feature::{FeatureJob, JobFailure, Room};
use unslide_model::{DebugId, Owned, Owner, TenantId};
use unslide_store::slots;
use unslide_symbolicate::symcache::READ_SYMCACHE_VERSIONS;

/// The most bytes of the symcaches of one capture.
const SYMCACHE_BYTES_LIMIT: u64 = 1 << 30;

/// Returns the file of a symcache in the job's folder.
pub(crate) fn file(debug_id: &DebugId) -> PathBuf {
    PathBuf::from(format!("symcache-{debug_id}"))
}

/// Symbols that were fetched for a capture.
pub(super) struct CaptureSymbols {
    /// The debug ids of the symcaches in the folder.
    pub(super) fetched: Vec<DebugId>,
    /// Images with symcaches that found no room.
    pub(super) too_large: u64,
    /// The generation of every image's symbols, for wake-ups.
    pub(super) seen: Vec<SeenSymbols>,
}

/// Fetches the symcaches of images that have some. As with reports, the system's answer for an image of the system, and
/// otherwise the tenant's own.
pub(super) async fn fetch(
    job: &FeatureJob<'_>,
    tenant: &TenantId,
    room: &Room,
    wanted: &[CaptureImage],
) -> Result<CaptureSymbols, JobFailure> {
    let ids: Vec<DebugId> = wanted.iter().map(|image| image.debug_id).collect();
    let mut tx = job.store().tenant(tenant).await?;
    let answering = slots::find_answering(&mut tx, &ids).await?;
    tx.rollback().await?;
    let mut found = CaptureSymbols { fetched: Vec::new(), too_large: 0, seen: Vec::new() };
    let mut left = SYMCACHE_BYTES_LIMIT.min(room.limits().total_bytes);
    for CaptureImage { debug_id, system } in wanted {
        let own = answering.own.get(debug_id).copied();
        let of_system = answering.system.get(debug_id).copied().filter(|_| *system);
        found.seen.push(SeenSymbols { debug_id: *debug_id, system: false, generation: own.unwrap_or(0) });
        if *system {
            let generation = of_system.unwrap_or(0);
            found.seen.push(SeenSymbols { debug_id: *debug_id, system: true, generation });
        }
        let owner = match (of_system, own) {
            (Some(_), _) => Owner::System,
            (None, Some(_)) => Owner::Tenant(tenant.clone()),
            (None, None) => continue,
        };
        match fetch_one(job, &owner.own(*debug_id), room.path(), left).await {
            Ok(Some(size)) => {
                left = left.saturating_sub(size);
                found.fetched.push(*debug_id);
            }
            // They were deleted in between.
            Ok(None) => {}
            Err(StorageError::TooLarge { .. }) => found.too_large += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Fetches one symcache of at most `limit` bytes. Returns its size.
async fn fetch_one(
    job: &FeatureJob<'_>,
    id: &Owned<DebugId>,
    folder: &Path,
    limit: u64,
) -> Result<Option<u64>, StorageError> {
    let path = folder.join(file(&id.id));
    for version in READ_SYMCACHE_VERSIONS.iter().rev() {
        let fetched = job.objects().get_to_file(&keys::for_symbols(id).alias(*version), &path, limit).await;
        if let Some(fetched) = fetched? {
            return Ok(Some(fetched.head.size));
        }
    }
    Ok(None)
}
