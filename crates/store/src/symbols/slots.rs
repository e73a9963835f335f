//! Slots: which symbols answer for a debug id now. The row lock of a slot is what orders "symbols
//! arrive" and "a report waits for them", so that the second of the two sees the first.

use crate::column::{DebugIdColumn, HashColumn, Nullable, QualityColumn, U64};
use crate::events::StoreEvent;
use crate::jobs::{self, Work};
use crate::number::{from_row, to_row};
use crate::outbox::{self, Message};
use crate::wakes::{self, Arrived};
use crate::{OwnerTx, Result, hooks};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::{ContentHash, DebugId, Owner, Quality};

/// A debug id's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolSlot {
    /// The debug id.
    pub debug_id: DebugId,
    /// Grows with each change; 0 if nothing was ever published.
    pub generation: u64,
    /// Quality of the symbols; [`Quality::None`] if there are none (any more).
    pub quality: Quality,
    /// The object that answers.
    pub content_hash: Option<ContentHash>,
}

/// Symbols that won their debug id in object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedSymbols {
    /// The debug id.
    pub debug_id: DebugId,
    /// Quality of the object.
    pub quality: Quality,
    /// The object.
    pub content_hash: ContentHash,
    /// The version of the symcache's format.
    pub symcache_version: u32,
    /// The generation that the alias in object storage was written with. The slot gets this one or,
    /// if that is not more than it has, its own plus one.
    pub generation: u64,
}

/// Returns the slot of a debug id.
pub async fn get(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<Option<SymbolSlot>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        SymbolSlot,
        r#"SELECT debug_id AS "debug_id: DebugIdColumn", generation AS "generation: U64",
                  quality AS "quality: QualityColumn", content_hash AS "content_hash!: Nullable<HashColumn>"
           FROM symbol_slots WHERE tenant = $1 AND debug_id = $2"#,
        tenant,
        debug_id.uuid()
    )
    .fetch_optional(connection)
    .await?)
}

/// Makes this transaction the only one of its kind for a debug id until it ends: two builders never change
/// the files of one debug id in object storage at the same time. Locks no row, so that indexers go on.
pub async fn lock_debug_id(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(format!("symbols {tenant}/{debug_id}"))
        .execute(connection)
        .await?;
    Ok(())
}

/// Tells the store that new symbols answer for a debug id: the slot's generation grows, a wake job
/// and the event for the workers are added. Comes after the symcache is in object storage. Returns the slot's
/// generation.
///
/// The order of the statements matters: the slot first. An indexer that holds the slot makes this
/// wait, and its waits are then there when the wake job looks; an indexer that comes later sees the
/// new generation.
pub async fn publish_symbols(tx: &mut OwnerTx, new: &PublishedSymbols) -> Result<u64> {
    publish_in_steps(tx, new, async || {}).await
}

/// Does the same, with a pause before each statement that depends on the order.
pub(crate) async fn publish_in_steps(
    tx: &mut OwnerTx,
    new: &PublishedSymbols,
    mut pause: impl AsyncFnMut(),
) -> Result<u64> {
    pause().await;
    if tx.is_system() {
        wakes::system::wait_for_indexers(tx).await?;
    }
    let generation = raise_slot(tx, new).await?;
    pause().await;
    if tx.is_system() {
        let arrived = Arrived { debug_id: new.debug_id, generation };
        wakes::system::record_arrived(tx, &[arrived]).await?;
    } else {
        jobs::add_job(tx, &Work::Wake { debug_id: new.debug_id, generation, from: None }).await?;
    }
    let message = Message::SymbolEvent {
        debug_id: new.debug_id,
        generation,
        quality: new.quality,
        symcache_version: new.symcache_version,
        deleted: false,
        at_micros: outbox::to_micros(tx.now()),
    };
    outbox::append_message(tx, &message).await?;
    if !tx.is_system() {
        hooks::send_event(StoreEvent::SymbolsPublished(tx, &PublishedSymbols { generation, ..*new })).await?;
    }
    Ok(generation)
}

/// Raises the slot: the builder's first statement.
pub(crate) async fn raise_slot(tx: &mut OwnerTx, new: &PublishedSymbols) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let generation = sqlx::query_scalar!(
        "INSERT INTO symbol_slots AS s (tenant, debug_id, generation, quality, content_hash, updated_at)
         VALUES ($1, $2, greatest($3::bigint, 1), $4, $5, $6)
         ON CONFLICT (tenant, debug_id) DO UPDATE
             SET generation = greatest(s.generation + 1, EXCLUDED.generation), quality = EXCLUDED.quality,
                 content_hash = EXCLUDED.content_hash, updated_at = EXCLUDED.updated_at
         RETURNING generation",
        tenant,
        new.debug_id.uuid(),
        to_row(new.generation),
        new.quality.rank(),
        new.content_hash.0.as_slice(),
        now
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(generation))
}

/// A slot as an indexer reads it while it holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldSlot {
    pub(crate) debug_id: DebugId,
    pub(crate) generation: u64,
    pub(crate) quality: Quality,
}

/// Makes sure that every debug id has a slot: the indexer's first statement. `debug_ids` must be sorted.
pub(crate) async fn ensure_slots(tx: &mut OwnerTx, debug_ids: &[uuid::Uuid]) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO symbol_slots (tenant, debug_id, updated_at)
         SELECT $1, d, $3 FROM unnest($2::uuid[]) AS d ORDER BY d
         ON CONFLICT DO NOTHING",
        tenant,
        debug_ids,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Holds the slots, so that no builder can raise one before this transaction's waits are committed: the
/// indexer's second statement, with a snapshot of its own.
pub(crate) async fn lock_slots(tx: &mut OwnerTx, debug_ids: &[uuid::Uuid]) -> Result<Vec<HeldSlot>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        HeldSlot,
        r#"SELECT debug_id AS "debug_id: DebugIdColumn", generation AS "generation: U64",
                  quality AS "quality: QualityColumn"
           FROM symbol_slots WHERE tenant = $1 AND debug_id = ANY ($2) ORDER BY debug_id FOR SHARE"#,
        tenant,
        debug_ids
    )
    .fetch_all(connection)
    .await?)
}

/// Reads the slots of the system's symbols for these debug ids, without a lock. They do not change, because this
/// transaction has called [`wakes::system::lock_out_publishers`] before.
pub(crate) async fn read_system_slots(tx: &mut OwnerTx, debug_ids: &[uuid::Uuid]) -> Result<Vec<HeldSlot>> {
    let (connection, _, _) = tx.parts();
    Ok(sqlx::query_as!(
        HeldSlot,
        r#"SELECT debug_id AS "debug_id: DebugIdColumn", generation AS "generation: U64",
                  quality AS "quality: QualityColumn"
           FROM symbol_slots WHERE tenant = $1 AND debug_id = ANY ($2)"#,
        Owner::System.as_str(),
        debug_ids
    )
    .fetch_all(connection)
    .await?)
}

/// The generations of symbols that answer, by debug id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweringGenerations {
    /// Of the transaction's own owner.
    pub own: BTreeMap<DebugId, u64>,
    /// Of the system.
    pub system: BTreeMap<DebugId, u64>,
}

/// Locks the slots of these debug ids until the transaction ends, those of the system too: no builder can
/// raise one before this transaction is committed. Returns the generations of those that answer.
pub async fn hold_answering(
    tx: &mut OwnerTx,
    own: &[DebugId],
    system: &[DebugId],
) -> Result<AnsweringGenerations> {
    let sorted = |ids: &[DebugId]| -> Vec<uuid::Uuid> {
        ids.iter().map(|id| id.uuid()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let (own, system) = (sorted(own), sorted(system));
    wakes::system::lock_out_publishers(tx).await?;
    ensure_slots(tx, &own).await?;
    let (own, system) = (lock_slots(tx, &own).await?, read_system_slots(tx, &system).await?);
    let generations = |slots: Vec<HeldSlot>| -> BTreeMap<DebugId, u64> {
        let answering = slots.into_iter().filter(|slot| slot.quality > Quality::None);
        answering.map(|slot| (slot.debug_id, slot.generation)).collect()
    };
    Ok(AnsweringGenerations { own: generations(own), system: generations(system) })
}

struct AnsweringRow {
    debug_id: DebugId,
    generation: u64,
    own: bool,
}

/// Returns the generations of those symbols of these debug ids that answer, in one statement.
pub async fn find_answering(tx: &mut OwnerTx, debug_ids: &[DebugId]) -> Result<AnsweringGenerations> {
    let ids: Vec<uuid::Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        AnsweringRow,
        r#"SELECT debug_id AS "debug_id: DebugIdColumn", generation AS "generation: U64", tenant = $1 AS "own!"
           FROM symbol_slots WHERE tenant IN ($1, $2) AND debug_id = ANY ($3) AND quality > 0"#,
        tenant,
        Owner::System.as_str(),
        &ids
    )
    .fetch_all(connection)
    .await?;
    let mut found = AnsweringGenerations::default();
    for row in rows {
        let of = if row.own { &mut found.own } else { &mut found.system };
        of.insert(row.debug_id, row.generation);
    }
    Ok(found)
}
