//! Deletes the objects of deleted symbols from object storage.

use crate::build::derive::find_derivatives;
use crate::build::publish::alias_versions;
use crate::build::resources::BuildResources;
use crate::deletion::Deletion;
use crate::failure::JobFailure;
use std::collections::BTreeSet;
use unslide_artifacts::AliasMeta;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_model::{ContentHash, DebugId, Owned, Quality};
use unslide_store::jobs::{self, JobLease};
use unslide_store::objects::ObjectRow;
use unslide_store::outbox::{self, Message};
use unslide_store::symbols::DebugIdSymbols;
use unslide_store::{objects, slots, symbols, usage};

/// Deletes the objects that a deletion of symbols has left. Symbols that were uploaded again since then stay.
/// The workers are notified a second time, because one may have fetched an old symcache between the deletion
/// and now.
pub(crate) async fn purge_symbols(
    resources: &BuildResources,
    job: &JobLease,
    debug_id: &DebugId,
    deleted: &[ContentHash],
    generation: u64,
) -> Result<(), JobFailure> {
    let id = job.owner.own(*debug_id);
    let mut tx = resources.storage.store.owner(&job.owner).await?;
    slots::lock_debug_id(&mut tx, debug_id).await?;
    let known = symbols::get(&mut tx, debug_id).await?;
    let slot = slots::get(&mut tx, debug_id).await?;
    let alive =
        find_live_keys(resources, &id, known.as_ref(), slot.is_some_and(|s| s.generation > generation))
            .await?;
    let keys = keys::for_symbols(&id);
    let (mut after, mut deletion) = (None, Deletion::new(&resources.storage));
    loop {
        let page = resources.storage.objects.list(&keys.prefix(), after.as_ref(), 1000).await?;
        for entry in page.entries.iter().filter(|entry| !alive.contains(&entry.key)) {
            deletion.delete_object(&entry.key).await?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // An upload that contains one of them has recorded it by now, or will store it again later.
    usage::lock_usage(&mut tx).await?;
    for object in objects::find_missing(&mut tx, deleted).await? {
        deletion.delete_object(&keys::for_object(id.owner.own(object))).await?;
    }
    deletion.into_result()?;
    if generation > 0 && slot.is_some_and(|slot| slot.generation == generation) {
        let message = Message::SymbolEvent {
            debug_id: *debug_id,
            generation,
            quality: Quality::None,
            symcache_version: 0,
            deleted: true,
            at_micros: resources.storage.store.clock().now_micros(),
        };
        outbox::append_message(&mut tx, &message).await?;
    }
    jobs::complete_job(&mut tx, job).await?;
    Ok(tx.commit().await?)
}

/// Returns the keys that have to stay: the symcaches and derived objects of objects that have a row, and the alias of
/// the best one.
async fn find_live_keys(
    resources: &BuildResources,
    id: &Owned<DebugId>,
    known: Option<&DebugIdSymbols>,
    published_since: bool,
) -> Result<BTreeSet<ObjectKey>, JobFailure> {
    let keys = keys::for_symbols(id);
    let Some(known) = known else { return Ok(BTreeSet::new()) };
    let objects = || known.objects.iter().map(|listed| &listed.object);
    let mut alive: BTreeSet<ObjectKey> =
        objects().filter_map(ObjectRow::symcache).map(|s| keys.symcache(s.version, &s.sha256)).collect();
    for version in alias_versions(resources) {
        let head = resources.storage.objects.head(&keys.alias(version)).await?;
        if let Some(meta) = head.and_then(|head| AliasMeta::from_metadata(&head.metadata))
            && (published_since || objects().any(|object| object.content_hash == meta.object))
        {
            alive.extend([keys.alias(version), keys.debuginfo(), keys.symcache(version, &meta.sha256)]);
        }
    }
    for (key, of) in find_derivatives(resources, id).await? {
        if objects().any(|object| object.content_hash == of) {
            alive.insert(key);
        }
    }
    Ok(alive)
}
