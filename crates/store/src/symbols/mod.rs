//! Symbols as a tenant sees them: objects, and which of them answers for a debug id.

pub mod files;
pub mod names_files;
pub mod objects;
pub mod partial;
pub mod slots;
pub mod uploads;
pub mod usage;

use crate::column::{DebugIdColumn, HashColumn, QualityColumn};
use crate::events::StoreEvent;
use crate::hooks;
use crate::jobs::{self, Work};
use crate::number::from_row;
use crate::objects::{ObjectRow, ObjectStatus, query_objects};
use crate::outbox::{self, Message};
use crate::{OwnerTx, Result, Uuid};
use serde::{Deserialize, Serialize};
use slots::SymbolSlot;
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{ContentHash, DebugId, Quality};
use utoipa::ToSchema;

/// An object, and whether it answers for its debug id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ListedObject)]
pub struct ObjectListing {
    /// The object itself, as in an upload.
    #[serde(flatten)]
    pub object: ObjectRow,
    /// True for the object that answers for its debug id: the one that offers most, then the newest.
    pub active: bool,
}

/// A page of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectListingPage {
    /// The objects, newest first.
    pub objects: Vec<ObjectListing>,
    /// The position at which the next page begins; `None` on the last one.
    pub next: Option<(OffsetDateTime, ContentHash)>,
}

/// Filter of objects. An absent field does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFilter {
    /// The file's name.
    pub name: Option<String>,
    /// The architecture.
    pub arch: Option<String>,
    /// The object's status.
    pub status: Option<ObjectStatus>,
    /// The lowest and the highest debug id.
    pub debug_ids: Option<(DebugId, DebugId)>,
    /// First came at this time or later.
    pub from: Option<OffsetDateTime>,
    /// First came before this time.
    pub to: Option<OffsetDateTime>,
    /// An upload for this app brought it.
    pub app: Option<String>,
}

/// Lists the objects of the owner, newest first.
pub async fn list_objects(
    tx: &mut OwnerTx,
    filter: &ObjectFilter,
    after: Option<(OffsetDateTime, ContentHash)>,
    limit: u32,
) -> Result<ObjectListingPage> {
    let (connection, tenant, _) = tx.parts();
    let (at, hash) = after.map(|(at, hash)| (at, hash.0.to_vec())).unzip();
    let mut objects = query_objects!(
        "WHERE tenant = $1 AND ($2::timestamptz IS NULL OR (created_at, content_hash) < ($2, $3::bytea))
           AND ($5::text IS NULL OR name = $5) AND ($6::text IS NULL OR arch = $6)
           AND ($7::text IS NULL OR status = $7) AND ($8::uuid IS NULL OR debug_id BETWEEN $8 AND $9)
           AND ($10::timestamptz IS NULL OR created_at >= $10) AND ($11::timestamptz IS NULL OR created_at < $11)
           AND ($12::text IS NULL OR EXISTS (
               SELECT FROM upload_objects b JOIN uploads u ON u.tenant = b.tenant AND u.id = b.upload_id
               WHERE b.tenant = $1 AND b.content_hash = o.content_hash AND u.app = $12))
         ORDER BY created_at DESC, content_hash DESC LIMIT $4",
        tenant,
        at,
        hash,
        i64::from(limit) + 1,
        filter.name,
        filter.arch,
        filter.status.map(ObjectStatus::as_str),
        filter.debug_ids.map(|(lowest, _)| lowest.uuid()),
        filter.debug_ids.map(|(_, highest)| highest.uuid()),
        filter.from,
        filter.to,
        filter.app
    )
    .fetch_all(&mut *connection)
    .await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = objects.len() > limit;
    objects.truncate(limit);
    let last = objects.last().filter(|_| more);
    let next = last.map(|last| (last.created_at, last.content_hash));
    let hashes: Vec<Vec<u8>> = objects.iter().map(|o| o.content_hash.0.to_vec()).collect();
    let debug_ids: Vec<Uuid> = objects.iter().filter_map(|o| o.debug_id).map(DebugId::uuid).collect();
    let active = sqlx::query_scalar!(
        r#"SELECT content_hash AS "content_hash!" FROM symbol_slots
           WHERE tenant = $1 AND debug_id = ANY ($2) AND content_hash = ANY ($3)"#,
        tenant,
        &debug_ids,
        &hashes
    )
    .fetch_all(connection)
    .await?;
    let listed = objects.into_iter().map(|object| ObjectListing {
        active: active.iter().any(|h| h == object.content_hash.0.as_slice()),
        object,
    });
    Ok(ObjectListingPage { objects: listed.collect(), next })
}

/// Returns the apps that uploads brought objects of these debug ids for; `None` if an upload named none.
pub async fn list_apps(
    tx: &mut OwnerTx,
    debug_ids: &[DebugId],
) -> Result<BTreeSet<(DebugId, Option<String>)>> {
    let ids: Vec<Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT DISTINCT o.debug_id AS "debug_id!", u.app
           FROM objects o
           JOIN upload_objects b ON b.tenant = o.tenant AND b.content_hash = o.content_hash
           JOIN uploads u ON u.tenant = b.tenant AND u.id = b.upload_id
           WHERE o.tenant = $1 AND o.debug_id = ANY ($2)"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (DebugId::from_uuid(row.debug_id), row.app)).collect())
}

/// Everything that is known of a debug id's symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugIdSymbols {
    /// The slot with the symbols that answer.
    pub slot: SymbolSlot,
    /// The objects with this debug id, the best first, then the newest.
    pub objects: Vec<ObjectListing>,
}

/// Returns the symbols of a debug id with all of its objects; `None` if the tenant has no object with it.
pub async fn get(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<Option<DebugIdSymbols>> {
    find_symbols(tx, debug_id, None).await
}

/// Returns the symbols of a debug id with its `most` best objects; `None` if the tenant has no object with
/// it.
pub async fn find_symbols(
    tx: &mut OwnerTx,
    debug_id: &DebugId,
    most: Option<u32>,
) -> Result<Option<DebugIdSymbols>> {
    let objects = find_by_debug_id(tx, debug_id, most).await?;
    if objects.is_empty() {
        return Ok(None);
    }
    let slot = slots::get(tx, debug_id).await?.unwrap_or(SymbolSlot {
        debug_id: *debug_id,
        generation: 0,
        quality: Quality::None,
        content_hash: None,
    });
    let objects = objects
        .into_iter()
        .map(|object| ObjectListing { active: slot.content_hash == Some(object.content_hash), object })
        .collect();
    Ok(Some(DebugIdSymbols { slot, objects }))
}

async fn find_by_debug_id(tx: &mut OwnerTx, debug_id: &DebugId, most: Option<u32>) -> Result<Vec<ObjectRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(query_objects!(
        "WHERE tenant = $1 AND debug_id = $2
         ORDER BY quality DESC, created_at DESC, content_hash LIMIT $3",
        tenant,
        debug_id.uuid(),
        most.map(i64::from)
    )
    .fetch_all(connection)
    .await?)
}

/// The deleted symbols of a debug id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The slot's generation from now on.
    pub generation: u64,
    /// The objects that are gone.
    pub objects: Vec<ContentHash>,
}

/// Deletes the symbols of a debug id: the objects' rows go, the workers are notified, and a job deletes the
/// files from object storage. Reports keep the symbols that they were given. `None` if there are none.
pub async fn delete_symbols(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<Option<Deleted>> {
    let (connection, tenant, now) = tx.parts();
    // The slot first, as everywhere.
    let generation = sqlx::query_scalar!(
        "INSERT INTO symbol_slots AS s (tenant, debug_id, generation, updated_at) VALUES ($1, $2, 1, $3)
         ON CONFLICT (tenant, debug_id) DO UPDATE
             SET generation = s.generation + 1, quality = 0, content_hash = NULL, updated_at = EXCLUDED.updated_at
         RETURNING generation",
        tenant,
        debug_id.uuid(),
        now
    )
    .fetch_one(&mut *connection)
    .await?;
    // A client that sends such an upload again means it: it no longer counts as one that is here already.
    sqlx::query!(
        "UPDATE uploads SET content_hash = NULL
         WHERE tenant = $1 AND id IN (
             SELECT u.upload_id FROM upload_objects u JOIN objects o USING (tenant, content_hash)
             WHERE o.tenant = $1 AND o.debug_id = $2)",
        tenant,
        debug_id.uuid()
    )
    .execute(&mut *connection)
    .await?;
    let objects = sqlx::query_scalar!(
        r#"DELETE FROM objects WHERE tenant = $1 AND debug_id = $2 RETURNING content_hash AS "hash: HashColumn""#,
        tenant,
        debug_id.uuid()
    )
    .fetch_all(connection)
    .await?;
    if objects.is_empty() {
        // The caller drops the transaction, and the slot does not change.
        return Ok(None);
    }
    let objects: Vec<ContentHash> = objects.into_iter().map(ContentHash::from).collect();
    let generation = from_row(generation);
    let work = Work::Purge { debug_id: *debug_id, objects: objects.clone(), generation };
    jobs::add_job(tx, &work).await?;
    let message = Message::SymbolEvent {
        debug_id: *debug_id,
        generation,
        quality: Quality::None,
        symcache_version: 0,
        deleted: true,
        at_micros: outbox::to_micros(tx.now()),
    };
    outbox::append_message(tx, &message).await?;
    if !tx.is_system() {
        hooks::send_event(StoreEvent::SymbolsDeleted(tx, debug_id)).await?;
    }
    Ok(Some(Deleted { generation, objects }))
}

/// Whether symbols are available, for a build pipeline that waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolReadiness {
    /// They answer, and are not those of a stripped binary.
    Ready,
    /// They are being built.
    Building,
    /// There are none, or those of a stripped binary.
    Missing,
    /// The uploaded file is damaged.
    Malformed,
    /// The uploaded file is not supported.
    Unsupported,
    /// The uploaded file reached a limit while it was built.
    TooComplex,
}

/// Returns for each debug id whether its symbols are available, in the order asked.
pub async fn check_readiness(
    tx: &mut OwnerTx,
    debug_ids: &[DebugId],
) -> Result<Vec<(DebugId, SymbolReadiness)>> {
    let ids: Vec<Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let published = sqlx::query!(
        "SELECT debug_id, quality FROM symbol_slots
         WHERE tenant = $1 AND debug_id = ANY ($2) AND content_hash IS NOT NULL",
        tenant,
        &ids
    )
    .fetch_all(&mut *connection)
    .await?;
    let objects = sqlx::query!(
        r#"SELECT debug_id AS "debug_id!", status AS "status: ObjectStatus" FROM objects WHERE tenant = $1 AND debug_id = ANY ($2)"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    let state = |id: &DebugId| {
        let slot = published.iter().find(|slot| slot.debug_id == id.uuid());
        if slot.is_some_and(|slot| slot.quality >= Quality::Symtab.rank()) {
            return SymbolReadiness::Ready;
        }
        let has = |wanted: &[ObjectStatus]| {
            objects.iter().any(|o| o.debug_id == id.uuid() && wanted.contains(&o.status))
        };
        // Ready objects without a slot are about to be published.
        let is_pending = slot.is_none() && has(&[ObjectStatus::Ready]);
        if is_pending || has(&[ObjectStatus::Queued, ObjectStatus::Building]) {
            SymbolReadiness::Building
        } else if has(&[ObjectStatus::Malformed]) {
            SymbolReadiness::Malformed
        } else if has(&[ObjectStatus::Unsupported]) {
            SymbolReadiness::Unsupported
        } else if has(&[ObjectStatus::TooComplex]) {
            SymbolReadiness::TooComplex
        } else {
            SymbolReadiness::Missing
        }
    };
    Ok(debug_ids.iter().map(|id| (*id, state(id))).collect())
}

/// Returns the quality of the best built object of each debug id.
pub async fn find_qualities(tx: &mut OwnerTx, debug_ids: &[DebugId]) -> Result<BTreeMap<DebugId, Quality>> {
    let ids: Vec<Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT debug_id AS "debug_id!: DebugIdColumn", max(quality) AS "quality!: QualityColumn" FROM objects
           WHERE tenant = $1 AND debug_id = ANY ($2) AND status = 'ready' AND quality > 0 GROUP BY debug_id"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.debug_id.into(), row.quality.into())).collect())
}
