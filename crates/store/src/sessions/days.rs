//! Counts of sessions by app, version and day.

use super::end::{MemoryEnd, SessionEnd};
use crate::{Result, StoreError, TenantTx};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// App, version and day.
pub type DayKey = (String, String, Date);

/// Sessions that ended for lack of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemoryCounts {
    evident: i64,
    unexplained: i64,
    background: i64,
}

impl MemoryCounts {
    fn add(&mut self, end: Option<MemoryEnd>, sessions: i64) {
        match end {
            None => {}
            Some(MemoryEnd::Evident) => self.evident += sessions,
            Some(MemoryEnd::Unexplained) => self.unexplained += sessions,
            Some(MemoryEnd::Background) => self.background += sessions,
        }
    }
}

/// What a batch adds to one row.
#[derive(Default)]
pub struct DayDelta {
    sessions: i64,
    crashed: i64,
    memory: MemoryCounts,
    squares: i64,
    installations: DistinctSketch,
    crashed_installations: DistinctSketch,
}

impl DayDelta {
    /// Counts a session that is new and stands for `weight` ones.
    pub fn begun(&mut self, installation: &[u8], weight: i64) {
        self.sessions += weight;
        self.squares += weight * weight;
        self.installations.add(sketched(installation));
    }

    /// Counts sessions that were counted before.
    pub fn counted(&mut self, sessions: i64, crashed: i64) {
        self.sessions += sessions;
        self.squares += sessions;
        self.crashed += crashed;
    }

    /// Counts the end of a session of an installation and with a weight that was known to have ended as `before`.
    pub(super) fn ended(
        &mut self,
        (installation, weight): (&[u8], i64),
        before: SessionEnd,
        end: SessionEnd,
    ) {
        if end.crashed() && !before.crashed() {
            self.crashed += weight;
            self.crashed_installations.add(sketched(installation));
        }
        self.memory.add(before.memory(), -weight);
        self.memory.add(end.memory(), weight);
    }
}

/// The bits of an installation's hash that a sketch takes.
pub(crate) fn sketched(installation: &[u8]) -> u64 {
    installation.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// A sketch of a row.
pub(crate) fn sketch(bytes: &[u8]) -> Result<DistinctSketch> {
    DistinctSketch::from_bytes(bytes)
        .ok_or_else(|| StoreError::corrupt("session_days", "a sketch that no program of ours writes"))
}

/// Adds to the counts, in the order of their keys.
pub async fn add(tx: &mut TenantTx, deltas: &BTreeMap<DayKey, DayDelta>) -> Result<()> {
    if deltas.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = deltas.keys().map(|key| key.0.clone()).collect();
    let versions: Vec<String> = deltas.keys().map(|key| key.1.clone()).collect();
    let days: Vec<Date> = deltas.keys().map(|key| key.2).collect();
    let sessions: Vec<i64> = deltas.values().map(|delta| delta.sessions).collect();
    let crashed: Vec<i64> = deltas.values().map(|delta| delta.crashed).collect();
    let squares: Vec<i64> = deltas.values().map(|delta| delta.squares).collect();
    let memory: Vec<MemoryCounts> = deltas.values().map(|delta| delta.memory).collect();
    let evident: Vec<i64> = memory.iter().map(|counts| counts.evident).collect();
    let unexplained: Vec<i64> = memory.iter().map(|counts| counts.unexplained).collect();
    let background: Vec<i64> = memory.iter().map(|counts| counts.background).collect();
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and gives their sketches, those of a new row empty.
    let rows = sqlx::query!(
        r#"INSERT INTO session_days AS d (tenant, app, version, day, sessions, crashed, out_of_memory,
                                          unexplained, background_memory, installations, crashed_installations, squares)
           SELECT $1, n.app, n.version, n.day, n.sessions, n.crashed, n.out_of_memory, n.unexplained,
                  n.background_memory, $10, $10, n.squares
           FROM unnest($2::text[], $3::text[], $4::date[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                       $9::bigint[], $11::bigint[])
                AS n (app, version, day, sessions, crashed, out_of_memory, unexplained, background_memory, squares)
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.day
           ON CONFLICT (tenant, app, version, day) DO UPDATE
           SET sessions = d.sessions + EXCLUDED.sessions, crashed = d.crashed + EXCLUDED.crashed,
               out_of_memory = d.out_of_memory + EXCLUDED.out_of_memory,
               unexplained = d.unexplained + EXCLUDED.unexplained,
               background_memory = d.background_memory + EXCLUDED.background_memory,
               squares = d.squares + EXCLUDED.squares
           RETURNING app, version, day, installations, crashed_installations"#,
        tenant,
        &apps,
        &versions,
        &days,
        &sessions,
        &crashed,
        &evident,
        &unexplained,
        &background,
        DistinctSketch::default().to_bytes(),
        &squares
    )
    .fetch_all(connection)
    .await?;
    let mut changed = Vec::new();
    for row in rows {
        let key = (row.app, row.version, row.day);
        let Some(delta) = deltas.get(&key) else { continue };
        let known = (sketch(&row.installations)?, sketch(&row.crashed_installations)?);
        let mut merged = known.clone();
        merged.0.merge(&delta.installations);
        merged.1.merge(&delta.crashed_installations);
        if merged != known {
            changed.push((key, merged));
        }
    }
    write_sketches(tx, &changed).await
}

async fn write_sketches(
    tx: &mut TenantTx,
    changed: &[(DayKey, (DistinctSketch, DistinctSketch))],
) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = changed.iter().map(|(key, _)| key.0.clone()).collect();
    let versions: Vec<String> = changed.iter().map(|(key, _)| key.1.clone()).collect();
    let days: Vec<Date> = changed.iter().map(|(key, _)| key.2).collect();
    let installations: Vec<Vec<u8>> = changed.iter().map(|(_, (all, _))| all.to_bytes()).collect();
    let crashed: Vec<Vec<u8>> = changed.iter().map(|(_, (_, crashed))| crashed.to_bytes()).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE session_days d SET installations = n.installations, crashed_installations = n.crashed
         FROM unnest($2::text[], $3::text[], $4::date[], $5::bytea[], $6::bytea[])
              AS n (app, version, day, installations, crashed)
         WHERE d.tenant = $1 AND d.app = n.app AND d.version = n.version AND d.day = n.day",
        tenant,
        &apps,
        &versions,
        &days,
        &installations,
        &crashed
    )
    .execute(connection)
    .await?;
    Ok(())
}
