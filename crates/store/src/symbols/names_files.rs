//! Deletion of names files, which hold no more than names and where functions begin.

use crate::column::{DebugIdColumn, HashColumn, U64};
use crate::jobs::{self, Work};
use crate::outbox::{self, Message};
use crate::{OwnerTx, Result, Uuid};
use std::collections::BTreeMap;
use time::Duration;
use unslide_model::{ContentHash, DebugId, Quality};

/// A debug id without symbols from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedNames {
    /// The debug id.
    pub debug_id: DebugId,
    /// The slot's generation from now on.
    pub generation: u64,
}

/// Returns the number of these debug ids with symbols that [`delete_names_files`] would delete.
pub async fn count_names_only(tx: &mut OwnerTx, debug_ids: &[DebugId]) -> Result<u64> {
    let ids: Vec<Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let counted = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!: U64" FROM (
               SELECT debug_id FROM objects WHERE tenant = $1 AND debug_id = ANY ($2)
               GROUP BY debug_id HAVING bool_and(kind = 'names')) AS n"#,
        tenant,
        &ids
    )
    .fetch_one(connection)
    .await?;
    Ok(counted.into())
}

/// Deletes the names files of debug ids that have no other symbols: the objects' rows go, the workers are notified,
/// and jobs delete the files from object storage. Reports keep their present names.
///
/// The slots are locked first, in the order of their ids, so that no builder publishes a dSYM between the look for one
/// and the deletion.
pub async fn delete_names_files(tx: &mut OwnerTx, debug_ids: &[DebugId]) -> Result<Vec<DeletedNames>> {
    let ids: Vec<Uuid> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO symbol_slots AS s (tenant, debug_id, updated_at)
         SELECT $1, d, $3 FROM unnest($2::uuid[]) AS d ORDER BY d
         ON CONFLICT (tenant, debug_id) DO UPDATE SET updated_at = s.updated_at",
        tenant,
        &ids,
        now
    )
    .execute(&mut *connection)
    .await?;
    let emptied = sqlx::query!(
        r#"UPDATE symbol_slots AS s SET generation = s.generation + 1, quality = 0, content_hash = NULL, updated_at = $3
           WHERE s.tenant = $1 AND s.debug_id IN (
               SELECT o.debug_id FROM objects o WHERE o.tenant = $1 AND o.debug_id = ANY ($2)
               GROUP BY o.debug_id HAVING bool_and(o.kind = 'names'))
           RETURNING s.debug_id AS "debug_id: DebugIdColumn", s.generation AS "generation: U64""#,
        tenant,
        &ids,
        now
    )
    .fetch_all(&mut *connection)
    .await?;
    let deleted: Vec<DeletedNames> = emptied
        .into_iter()
        .map(|row| DeletedNames { debug_id: row.debug_id.into(), generation: row.generation.into() })
        .collect();
    if deleted.is_empty() {
        return Ok(deleted);
    }
    let ids: Vec<Uuid> = deleted.iter().map(|names| names.debug_id.uuid()).collect();
    // A client that sends such an upload again means it: it no longer counts as one that is here already.
    sqlx::query!(
        "UPDATE uploads SET content_hash = NULL
         WHERE tenant = $1 AND id IN (
             SELECT u.upload_id FROM upload_objects u JOIN objects o USING (tenant, content_hash)
             WHERE o.tenant = $1 AND o.debug_id = ANY ($2))",
        tenant,
        &ids
    )
    .execute(&mut *connection)
    .await?;
    let removed = sqlx::query!(
        r#"DELETE FROM objects WHERE tenant = $1 AND debug_id = ANY ($2) AND kind = 'names'
           RETURNING debug_id AS "debug_id!: DebugIdColumn", content_hash AS "content_hash: HashColumn""#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    let mut objects: BTreeMap<DebugId, Vec<ContentHash>> = BTreeMap::new();
    for row in removed {
        objects.entry(row.debug_id.into()).or_default().push(row.content_hash.into());
    }
    announce_deletion(tx, &deleted, objects).await?;
    Ok(deleted)
}

/// Adds the jobs that delete the files, and the events for the workers.
async fn announce_deletion(
    tx: &mut OwnerTx,
    deleted: &[DeletedNames],
    mut objects: BTreeMap<DebugId, Vec<ContentHash>>,
) -> Result<()> {
    let purge = |names: &DeletedNames| Work::Purge {
        debug_id: names.debug_id,
        objects: objects.remove(&names.debug_id).unwrap_or_default(),
        generation: names.generation,
    };
    let works: Vec<Work> = deleted.iter().map(purge).collect();
    jobs::add_all(tx, &works, Duration::ZERO).await?;
    let at_micros = outbox::to_micros(tx.now());
    let event = |names: &DeletedNames| Message::SymbolEvent {
        debug_id: names.debug_id,
        generation: names.generation,
        quality: Quality::None,
        symcache_version: 0,
        deleted: true,
        at_micros,
    };
    let events: Vec<Message> = deleted.iter().map(event).collect();
    outbox::append_all(tx, &events).await?;
    Ok(())
}
