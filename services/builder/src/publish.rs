//! Making an object's symcache the one that answers for its debug id, if it is the best.
//!
//! The order is what readers rely on: the immutable symcache, then the alias, then the database
//! (slot, wake job, event), then, by the relay, the event on Kafka. A builder that dies in between
//! leaves an alias that is ahead of its slot; the job's next attempt finds it and goes on there.
//!
//! The alias is written under a lock of the database for the debug id and with a precondition, so
//! that it is safe with stores that check conditions and write in two steps, and without the lock
//! with those that do both in one.

use crate::build::keep;
use crate::failure::Failure;
use crate::slices::{Slice, debug_id};
use crate::worker::Builder;
use bytes::Bytes;
use std::cmp::Reverse;
use unslide_artifacts::{AliasMeta, Condition, ETag, Put, StoreError, keys};
use unslide_model::{ContentHash, DebugId, Owned, Owner, Quality};
use unslide_store::objects::Symcache;
use unslide_store::symbols::{self, Symbols};
use unslide_store::{OwnerTx, objects, slots};
use unslide_symbolicate::symcache::VERSION;

/// How often somebody else may get in between before the job gives way.
const TRIES: usize = 8;

/// A symcache that was built.
pub(crate) struct Built {
    pub(crate) quality: Quality,
    pub(crate) symcache: Bytes,
    pub(crate) sha256: ContentHash,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// It answers, as this generation.
    Wins,
    /// Another object answers.
    Yields,
    /// Its object was deleted in the meantime.
    Deleted,
}

/// What the alias is now.
struct Current {
    meta: AliasMeta,
    etag: ETag,
}

pub(crate) async fn publish(
    builder: &Builder,
    owner: &Owner,
    slice: &Slice,
    built: &Built,
) -> Result<Published, Failure> {
    let id = owner.own(debug_id(slice)?);
    let key = keys::symbols(&id).symcache(VERSION, &built.sha256);
    let absent = Put { condition: Condition::Absent, ..Put::default() };
    match builder.objects.put(&key, built.symcache.clone(), &absent).await {
        // The same symcache was built before.
        Ok(_) | Err(StoreError::Precondition { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for _ in 0..TRIES {
        if let Some(published) = once(builder, &id, slice, built).await? {
            return Ok(published);
        }
    }
    Err(Failure::Server(format!("the symbols for {} change all the time", id.id)))
}

/// One try; `None` where somebody else got in between.
async fn once(
    builder: &Builder,
    id: &Owned<DebugId>,
    slice: &Slice,
    built: &Built,
) -> Result<Option<Published>, Failure> {
    let object = slice.new.content_hash;
    let mut tx = builder.store.owner(&id.owner).await?;
    slots::exclusive(&mut tx, &id.id).await?;
    let known = symbols::get(&mut tx, &id.id).await?;
    let current = current(builder, id).await?;
    let Some(known) = known.filter(|known| created(known, &object).is_some()) else {
        if current.is_some_and(|current| current.meta.object == object) {
            builder.objects.delete(&keys::symbols(id).alias(VERSION)).await?;
            builder.objects.delete(&keys::symbols(id).debuginfo()).await?;
        }
        return Ok(Some(Published::Deleted));
    };
    let symcache = Symcache { size: built.symcache.len() as u64, sha256: built.sha256, version: VERSION };
    let slot = known.slot;
    let ours = current.as_ref().filter(|c| c.meta.object == object && c.meta.sha256 == built.sha256);
    let generation = match (&current, ours) {
        // An attempt before this one came as far as the alias.
        (_, Some(ours)) if ours.meta.generation >= slot.generation => ours.meta.generation,
        (Some(other), None) if !is_better(&known, &object, built.quality, &other.meta) => {
            // Also where whoever wrote the alias died before the slot was raised.
            if other.meta.generation > slot.generation {
                announce(&mut tx, id, &other.meta).await?;
            }
            objects::ready(&mut tx, &object, built.quality, &symcache).await?;
            tx.commit().await?;
            return Ok(Some(Published::Yields));
        }
        _ => {
            let newest = current.as_ref().map_or(0, |current| current.meta.generation);
            let generation = newest.max(slot.generation) + 1;
            let meta = AliasMeta { generation, quality: built.quality, sha256: built.sha256, object };
            if !write(builder, id, slice, built, &meta, current.as_ref()).await? {
                return Ok(None);
            }
            generation
        }
    };
    if slot.content_hash != Some(object) || slot.generation != generation {
        let meta = AliasMeta { generation, quality: built.quality, sha256: built.sha256, object };
        let raised = announce(&mut tx, id, &meta).await?;
        // The slot is locked from here on, so that no deletion comes any more; one may have come
        // since the first look. Then the alias has to say another number, or to go.
        let known = symbols::get(&mut tx, &id.id).await?;
        if raised != generation || known.is_none_or(|known| created(&known, &object).is_none()) {
            tx.rollback().await?;
            return Ok(None);
        }
    }
    // After the slot, as everywhere: a deletion locks them in that order too.
    objects::ready(&mut tx, &object, built.quality, &symcache).await?;
    tx.commit().await?;
    Ok(Some(Published::Wins))
}

async fn announce(tx: &mut OwnerTx, id: &Owned<DebugId>, meta: &AliasMeta) -> Result<u64, Failure> {
    let published = slots::Published {
        debug_id: id.id,
        quality: meta.quality,
        content_hash: meta.object,
        symcache_version: VERSION,
        generation: meta.generation,
    };
    Ok(slots::publish(tx, &published).await?)
}

async fn current(builder: &Builder, id: &Owned<DebugId>) -> Result<Option<Current>, Failure> {
    let head = builder.objects.head(&keys::symbols(id).alias(VERSION)).await?;
    // An alias whose metadata is not ours is replaced.
    Ok(head
        .and_then(|head| Some(Current { meta: AliasMeta::from_metadata(&head.metadata)?, etag: head.etag })))
}

/// Writes the alias and the object beside it; false where somebody else wrote it first.
async fn write(
    builder: &Builder,
    id: &Owned<DebugId>,
    slice: &Slice,
    built: &Built,
    meta: &AliasMeta,
    current: Option<&Current>,
) -> Result<bool, Failure> {
    let keys = keys::symbols(id);
    keep(builder, slice, &keys.debuginfo(), &Condition::Always).await?;
    let condition = current.map_or(Condition::Absent, |current| Condition::Unchanged(current.etag.clone()));
    let put = Put { condition, metadata: meta.to_metadata() };
    match builder.objects.put(&keys.alias(VERSION), built.symcache.clone(), &put).await {
        Ok(_) => Ok(true),
        Err(StoreError::Precondition { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn created(known: &Symbols, object: &ContentHash) -> Option<time::OffsetDateTime> {
    known
        .objects
        .iter()
        .map(|listed| &listed.object)
        .find(|o| o.content_hash == *object)
        .map(|o| o.created_at)
}

/// True where our object answers rather than the alias's: it offers more, or as much and is newer.
fn is_better(known: &Symbols, ours: &ContentHash, quality: Quality, theirs: &AliasMeta) -> bool {
    let Some(their_time) = created(known, &theirs.object) else { return true };
    // Of one upload the smaller hash, so that every builder says the same.
    let our_rank = (quality, created(known, ours).unwrap_or(their_time), Reverse(ours.0));
    our_rank >= (theirs.quality, their_time, Reverse(theirs.object.0))
}
