//! Publishes an object's symcache for its debug id, if it is the best one.
//!
//! Readers rely on the order of the writes: the immutable symcache, then the alias, then the database (slot,
//! wake job, event), then, by the relay, the event on Kafka. A builder that dies in between leaves an alias
//! that is ahead of its slot. The job's next attempt finds the alias and continues there.
//!
//! While the symcache's format changes there are two of everything, one for each version that this builder
//! writes, with the same generation. A builder that dies between two aliases leaves one of them behind the
//! other, and the job's next attempt updates it.
//!
//! An object that does not answer may have the only code of its image. Then the answer stays, and gets the next
//! generation: the code is stored, the aliases are written again with that generation, then the database follows. The
//! object is marked as ready in the same transaction. So an attempt that finds it not ready repeats the steps that
//! are missing, and one that finds it ready announces nothing.
//!
//! The alias is written under a lock of the database for the debug id and with a precondition. The lock makes
//! it safe with stores that check the condition and write in two steps. Stores that do both in one step need
//! only the precondition, except for an alias that is written again with the same symcache: its ETag may stay.

use crate::build::derive::{BuiltDerivative, find_derivative, find_derivatives, store_derivatives};
use crate::build::resources::BuildResources;
use crate::build::slices::{UploadedSlice, debug_id};
use crate::build::store_slice;
use crate::build::work_folder::Room;
use crate::deleted_tenants::check_alive;
use crate::failure::JobFailure;
use crate::storage::JobStorage;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use unslide_artifacts::keys::ObjectKey;
use unslide_artifacts::{AliasMeta, Condition, ETag, ObjectStore, Put, StorageError, keys};
use unslide_model::{ContentHash, DebugId, Owned, Owner, Quality};
use unslide_store::objects::{ObjectRow, ObjectStatus, Symcache};
use unslide_store::slots::SymbolSlot;
use unslide_store::symbols::{self, DebugIdSymbols};
use unslide_store::{OwnerTx, objects, slots};
use unslide_symbolicate::DerivedSource;
use unslide_symbolicate::object::MAX_SYMCACHE_BYTES;
use unslide_symbolicate::symcache::READ_SYMCACHE_VERSIONS;

/// Number of tries if other writers interfere, before the job is put off.
const PUBLISH_TRIES_LIMIT: usize = 8;
/// Name of the symcache that answers, in a job's folder.
const ANSWER_SYMCACHE: &str = "answer-symcache";

/// Symcaches that were built from one object.
pub(crate) struct BuiltSymcaches {
    pub(crate) quality: Quality,
    /// Parts of the object that are not in the symcaches, with the reason.
    pub(crate) warnings: Vec<String>,
    /// One symcache for each version of the format that this builder writes, the newest first.
    pub(crate) forms: Vec<SymcacheForm>,
    /// What analyses read beside the symcaches.
    pub(crate) derived: Vec<BuiltDerivative>,
}

/// A symcache in one version of the format.
pub(crate) struct SymcacheForm {
    pub(crate) version: u32,
    pub(crate) symcache: Bytes,
    pub(crate) sha256: ContentHash,
}

impl BuiltSymcaches {
    fn find_form(&self, version: u32) -> Option<&SymcacheForm> {
        self.forms.iter().find(|form| form.version == version)
    }

    /// Returns the note in the object's record about parts that were not read, or `None` if all were.
    fn left_out(&self) -> Option<String> {
        (!self.warnings.is_empty()).then(|| self.warnings.join("; "))
    }

    /// Returns the symcache for the object's record: the one in the newest version.
    fn newest_symcache(&self) -> Result<Symcache, JobFailure> {
        let Some(form) = self.forms.first() else {
            return Err(JobFailure::job("internal", "no version of the symcache's format is written"));
        };
        Ok(Symcache { size: form.symcache.len() as u64, sha256: form.sha256, version: form.version })
    }
}

/// Result of publishing a symcache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// The symcache answers, with this generation.
    Wins,
    Yields,
    /// The object was deleted in the meantime.
    Deleted,
}

/// The current state of an alias.
struct Current {
    version: u32,
    /// `None` if the stored alias has no valid metadata, such as after an incomplete write.
    meta: Option<AliasMeta>,
    etag: ETag,
}

impl Current {
    fn is_of(&self, object: &ContentHash) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.object == *object)
    }
}

pub(crate) async fn publish_symcaches(
    resources: &BuildResources,
    owner: &Owner,
    room: &Room,
    slice: &UploadedSlice,
    built: &BuiltSymcaches,
) -> Result<PublishOutcome, JobFailure> {
    let id = owner.own(debug_id(slice)?);
    for form in &built.forms {
        let key = keys::for_symbols(&id).symcache(form.version, &form.sha256);
        let absent = Put { condition: Condition::Absent, ..Put::default() };
        match resources.storage.objects.put(&key, form.symcache.clone(), &absent).await {
            // The same symcache was built before.
            Ok(_) | Err(StorageError::Precondition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for _ in 0..PUBLISH_TRIES_LIMIT {
        if let Some(published) = try_publish(resources, &id, room, slice, built).await? {
            return Ok(published);
        }
    }
    Err(JobFailure::Again(format!("the symbols for {} change all the time", id.id)))
}

/// Tries once; returns `None` if another writer interfered.
async fn try_publish(
    resources: &BuildResources,
    id: &Owned<DebugId>,
    room: &Room,
    slice: &UploadedSlice,
    built: &BuiltSymcaches,
) -> Result<Option<PublishOutcome>, JobFailure> {
    let object = slice.new.content_hash;
    let mut tx = resources.storage.store.owner(&id.owner).await?;
    slots::lock_debug_id(&mut tx, &id.id).await?;
    // The alias is written while this transaction holds off a deletion of the tenant.
    check_alive(&mut tx).await?;
    let known = symbols::get(&mut tx, &id.id).await?;
    let aliases = read_aliases(resources, id).await?;
    let Some(known) = known.filter(|known| find_created_at(known, &object).is_some()) else {
        take_back(resources, id, &object, &aliases).await?;
        return Ok(Some(PublishOutcome::Deleted));
    };
    let symcache = built.newest_symcache()?;
    let slot = known.slot;
    // An alias with an older generation, left by an earlier attempt, no longer counts.
    let current = aliases
        .iter()
        .filter_map(|alias| Some((alias.version, alias.meta.as_ref()?)))
        .max_by_key(|(_, meta)| meta.generation);
    let is_ours = |(version, meta): &(u32, &AliasMeta)| {
        let same = built.find_form(*version).is_none_or(|form| form.sha256 == meta.sha256);
        meta.object == object && same
    };
    let generation = match (current, current.filter(is_ours)) {
        // An earlier attempt wrote an alias, and no deletion has taken its generation since.
        (_, Some((_, ours))) if is_announced(&slot, ours) || ours.generation > slot.generation => {
            ours.generation
        }
        (Some((version, other)), None) if !is_better(&known, &object, built.quality, other) => {
            let code = find_better_code(&resources.storage, id, &known, &object, built).await?;
            // The object's first attempt that is completed announces its code.
            let is_news = !code.is_empty() && !is_ready(&known, &object);
            let generation =
                if is_news { other.generation.max(slot.generation + 1) } else { other.generation };
            let answer = AliasMeta { generation, ..*other };
            store_derivatives(&resources.storage, id, slice, generation, built.quality, code.into_iter())
                .await?;
            // Also needed if the writer of the alias died before it raised the slot.
            let announced = generation <= slot.generation
                || (rewrite_aliases(&resources.storage, id, room, &answer, &aliases).await?
                    && try_announce(&mut tx, id, &answer, version, &object).await?);
            if !announced {
                tx.rollback().await?;
                return Ok(None);
            }
            objects::mark_ready(&mut tx, &object, built.quality, built.left_out().as_deref(), &symcache)
                .await?;
            tx.commit().await?;
            return Ok(Some(PublishOutcome::Yields));
        }
        _ => current.map_or(0, |(_, meta)| meta.generation).max(slot.generation) + 1,
    };
    // Before the aliases: a reader that has seen their generation finds them.
    store_derivatives(&resources.storage, id, slice, generation, built.quality, built.derived.iter()).await?;
    if !write_aliases(&resources.storage, id, slice, built, generation, &aliases).await? {
        return Ok(None);
    }
    let meta = AliasMeta { generation, quality: built.quality, sha256: symcache.sha256, object };
    if !is_announced(&slot, &meta) && !try_announce(&mut tx, id, &meta, symcache.version, &object).await? {
        tx.rollback().await?;
        return Ok(None);
    }
    // Locked after the slot, as everywhere: a deletion locks them in the same order.
    objects::mark_ready(&mut tx, &object, built.quality, built.left_out().as_deref(), &symcache).await?;
    tx.commit().await?;
    Ok(Some(PublishOutcome::Wins))
}

/// Deletes the aliases and derived objects of an object that was deleted while it was built.
async fn take_back(
    resources: &BuildResources,
    id: &Owned<DebugId>,
    object: &ContentHash,
    aliases: &[Current],
) -> Result<(), JobFailure> {
    let ours: Vec<_> = aliases.iter().filter(|alias| alias.is_of(object)).collect();
    for alias in &ours {
        resources.storage.objects.delete(&keys::for_symbols(id).alias(alias.version)).await?;
    }
    if !ours.is_empty() {
        resources.storage.objects.delete(&keys::for_symbols(id).debuginfo()).await?;
    }
    for (key, _) in find_derivatives(resources, id).await?.iter().filter(|(_, of)| of == object) {
        resources.storage.objects.delete(key).await?;
    }
    Ok(())
}

/// Tells the store which symbols answer after an object was built. Returns false if a deletion has happened since the
/// first look-up: then the alias needs another generation, or has to be deleted.
async fn try_announce(
    tx: &mut OwnerTx,
    id: &Owned<DebugId>,
    answer: &AliasMeta,
    version: u32,
    built: &ContentHash,
) -> Result<bool, JobFailure> {
    let published = slots::PublishedSymbols {
        debug_id: id.id,
        quality: answer.quality,
        content_hash: answer.object,
        symcache_version: version,
        generation: answer.generation,
    };
    let raised = slots::publish_symbols(tx, &published).await?;
    // The slot is locked from here on, so no deletion can follow.
    let known = symbols::get(tx, &id.id).await?;
    let is_known = |object| known.as_ref().is_some_and(|known| find_created_at(known, object).is_some());
    Ok(raised == answer.generation && is_known(&answer.object) && is_known(built))
}

/// Returns the code in the built object that should be stored, although another object answers: the code of an image
/// is the same whichever object answers for its names. The code of a better object stays.
async fn find_better_code<'b>(
    storage: &JobStorage,
    id: &Owned<DebugId>,
    known: &DebugIdSymbols,
    object: &ContentHash,
    built: &'b BuiltSymcaches,
) -> Result<Vec<&'b BuiltDerivative>, JobFailure> {
    let mut better = Vec::new();
    for code in built.derived.iter().filter(|one| one.source == DerivedSource::Binary) {
        let stored = find_derivative(storage, id, code.name).await?;
        let stays = stored.filter(|stored| stored.object != *object).is_some_and(|stored| {
            let is_same = stored.sha256 == code.sha256 && is_ready(known, &stored.object);
            is_same || !is_better(known, object, built.quality, &stored)
        });
        if !stays {
            better.push(code);
        }
    }
    Ok(better)
}

/// Returns the versions of the aliases that count: those that this builder writes, and those that workers of
/// this release may still read.
pub(crate) fn alias_versions(resources: &BuildResources) -> BTreeSet<u32> {
    resources.settings.symcache_versions.iter().chain(READ_SYMCACHE_VERSIONS).copied().collect()
}

async fn read_aliases(resources: &BuildResources, id: &Owned<DebugId>) -> Result<Vec<Current>, JobFailure> {
    let mut aliases = Vec::new();
    for version in alias_versions(resources) {
        let Some(head) = resources.storage.objects.head(&keys::for_symbols(id).alias(version)).await? else {
            continue;
        };
        let meta = AliasMeta::from_metadata(&head.metadata);
        aliases.push(Current { version, meta, etag: head.etag });
    }
    Ok(aliases)
}

/// Writes the aliases that are not up to date, and the object beside them. Returns false if another writer
/// was first.
async fn write_aliases(
    storage: &JobStorage,
    id: &Owned<DebugId>,
    slice: &UploadedSlice,
    built: &BuiltSymcaches,
    generation: u64,
    aliases: &[Current],
) -> Result<bool, JobFailure> {
    let keys = keys::for_symbols(id);
    let mut kept = false;
    for form in &built.forms {
        let (object, sha256) = (slice.new.content_hash, form.sha256);
        let meta = AliasMeta { generation, quality: built.quality, sha256, object };
        let current = aliases.iter().find(|alias| alias.version == form.version);
        if current.is_some_and(|current| current.meta.as_ref() == Some(&meta)) {
            continue;
        }
        if !kept {
            store_slice(storage, slice, &keys.debuginfo(), &Condition::Always).await?;
            kept = true;
        }
        if !write_alias(&storage.objects, &keys.alias(form.version), form, &meta, current).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes an alias if it is unchanged since `seen`. Returns false if it has changed.
async fn write_alias(
    objects: &ObjectStore,
    alias: &ObjectKey,
    form: &SymcacheForm,
    meta: &AliasMeta,
    seen: Option<&Current>,
) -> Result<bool, JobFailure> {
    let condition = seen.map_or(Condition::Absent, |seen| Condition::Unchanged(seen.etag.clone()));
    let put = Put { condition, metadata: meta.to_metadata() };
    match objects.put(alias, form.symcache.clone(), &put).await {
        Ok(_) => Ok(true),
        Err(StorageError::Precondition { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes the aliases of the object that answers again, with the generation of `answer`. Returns false if another
/// writer was first.
async fn rewrite_aliases(
    storage: &JobStorage,
    id: &Owned<DebugId>,
    room: &Room,
    answer: &AliasMeta,
    aliases: &[Current],
) -> Result<bool, JobFailure> {
    let (keys, path) = (keys::for_symbols(id), room.path().join(ANSWER_SYMCACHE));
    for alias in aliases.iter().filter(|alias| alias.is_of(&answer.object)) {
        let Some(seen) = alias.meta.filter(|meta| meta.generation != answer.generation) else { continue };
        let key = keys.symcache(alias.version, &seen.sha256);
        // An earlier alias or attempt may have left its file.
        tokio::fs::remove_file(&path).await.ok();
        let fetched = storage.objects.get_to_file(&key, &path, MAX_SYMCACHE_BYTES as u64).await?;
        if fetched.is_none_or(|fetched| fetched.sha256 != seen.sha256) {
            return Err(JobFailure::Again(format!("the symcache {key} is missing or damaged")));
        }
        let meta = AliasMeta { generation: answer.generation, ..seen };
        let put = Put { condition: Condition::Unchanged(alias.etag.clone()), metadata: meta.to_metadata() };
        match storage.objects.put_file(&keys.alias(alias.version), &path, &put).await {
            Ok(_) => {}
            Err(StorageError::Precondition { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Returns true if the slot has the generation and the object of the alias.
fn is_announced(slot: &SymbolSlot, alias: &AliasMeta) -> bool {
    slot.generation == alias.generation && slot.content_hash == Some(alias.object)
}

fn find_object<'k>(known: &'k DebugIdSymbols, object: &ContentHash) -> Option<&'k ObjectRow> {
    known.objects.iter().map(|listed| &listed.object).find(|row| row.content_hash == *object)
}

fn find_created_at(known: &DebugIdSymbols, object: &ContentHash) -> Option<time::OffsetDateTime> {
    find_object(known, object).map(|row| row.created_at)
}

fn is_ready(known: &DebugIdSymbols, object: &ContentHash) -> bool {
    find_object(known, object).is_some_and(|row| row.status == ObjectStatus::Ready)
}

/// Returns true if our object should answer instead of the alias's: its quality is higher, or equal and it is
/// newer.
fn is_better(known: &DebugIdSymbols, ours: &ContentHash, quality: Quality, theirs: &AliasMeta) -> bool {
    let Some(their_time) = find_created_at(known, &theirs.object) else { return true };
    // Within one upload the smaller hash wins, so that every builder decides the same.
    let our_rank = (quality, find_created_at(known, ours).unwrap_or(their_time), Reverse(ours.0));
    our_rank >= (theirs.quality, their_time, Reverse(theirs.object.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::{Duration, OffsetDateTime};
    use unslide_store::objects::Offers;
    use unslide_store::symbols::ObjectListing;

    const ID: DebugId = DebugId([7; 16]);

    fn meta(generation: u64, object: u8, quality: Quality) -> AliasMeta {
        AliasMeta {
            generation,
            quality,
            sha256: ContentHash([object; 32]),
            object: ContentHash([object; 32]),
        }
    }

    /// Two builders have seen the same, and one of them is late: with nothing there, and with something.
    #[tokio::test]
    async fn an_alias_is_written_over_nothing_but_what_was_seen_of_it() {
        let (objects, _memory) = ObjectStore::memory();
        let owner = Owner::Tenant(unslide_model::TenantId::new("acme").unwrap());
        let key = keys::for_symbols(owner.own(ID)).alias(1);
        let put = async |meta: AliasMeta, seen: Option<&Current>| {
            let form =
                SymcacheForm { version: 1, symcache: vec![meta.object.0[0]].into(), sha256: meta.sha256 };
            write_alias(&objects, &key, &form, &meta, seen).await.unwrap()
        };
        let now = async || {
            let head = objects.head(&key).await.unwrap().unwrap();
            Current { version: 1, meta: AliasMeta::from_metadata(&head.metadata), etag: head.etag }
        };
        let (better, worse) = (meta(1, 2, Quality::DwarfSymtab), meta(1, 1, Quality::Symtab));
        assert!(put(better, None).await);
        assert!(!put(worse, None).await, "somebody was first");
        let seen = now().await;
        assert_eq!(seen.meta.as_ref(), Some(&better));
        let best = meta(2, 3, Quality::DwarfSymtab);
        assert!(put(best, Some(&seen)).await);
        assert!(!put(worse, Some(&seen)).await, "it is another one by now");
        assert_eq!(now().await.meta, Some(best));
    }

    #[test]
    fn what_offers_more_answers_then_what_is_newer_and_whom_nobody_knows_any_more_never() {
        let object = |n: u8, age: i64| ObjectListing {
            object: ObjectRow {
                content_hash: ContentHash([n; 32]),
                debug_id: Some(ID),
                name: "app".into(),
                arch: "arm64".into(),
                kind: "dsym".into(),
                offers: Offers::default(),
                quality: Quality::None,
                size: 1,
                status: ObjectStatus::Ready,
                reason: None,
                symcache_size: None,
                symcache_hash: None,
                symcache_version: None,
                created_at: OffsetDateTime::UNIX_EPOCH - Duration::minutes(age),
                updated_at: OffsetDateTime::UNIX_EPOCH,
            },
            active: false,
        };
        let slot = SymbolSlot { debug_id: ID, generation: 0, quality: Quality::None, content_hash: None };
        // Of one upload are 3 and 4.
        let known =
            DebugIdSymbols { slot, objects: vec![object(1, 9), object(2, 5), object(3, 1), object(4, 1)] };
        let better = |ours: u8, quality, theirs: u8, their_quality| {
            is_better(&known, &ContentHash([ours; 32]), quality, &meta(1, theirs, their_quality))
        };
        use Quality::{Dwarf, DwarfSymtab, Exports, Symtab};
        for (more, less) in [(DwarfSymtab, Dwarf), (Dwarf, Symtab), (Symtab, Exports)] {
            assert!(better(1, more, 2, less), "{more:?} that is older");
            assert!(!better(2, less, 1, more), "{less:?} that is newer and late");
        }
        assert!(better(2, Dwarf, 1, Dwarf) && !better(1, Dwarf, 2, Dwarf));
        assert!(better(3, Dwarf, 4, Dwarf) && !better(4, Dwarf, 3, Dwarf), "each builder says the same");
        assert!(better(1, Exports, 9, DwarfSymtab), "its object was deleted");
    }
}
