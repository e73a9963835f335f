//! Counts of sessions by app, version and day.

use crate::{Result, StoreError, TenantTx};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// App, version and day.
pub type DayKey = (String, String, Date);

/// What a batch adds to one row.
#[derive(Default)]
pub struct DayDelta {
    sessions: i64,
    crashed: i64,
    installations: DistinctSketch,
    crashed_installations: DistinctSketch,
}

impl DayDelta {
    /// Counts a session that is new.
    pub fn begun(&mut self, installation: &[u8]) {
        self.sessions += 1;
        self.installations.add(sketched(installation));
    }

    /// Counts a crash of a session that had none.
    pub fn crashed(&mut self, installation: &[u8]) {
        self.crashed += 1;
        self.crashed_installations.add(sketched(installation));
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
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and gives their sketches, those of a new row empty.
    let rows = sqlx::query!(
        r#"INSERT INTO session_days AS d (tenant, app, version, day, sessions, crashed, installations,
                                          crashed_installations)
           SELECT $1, n.app, n.version, n.day, n.sessions, n.crashed, $7, $7
           FROM unnest($2::text[], $3::text[], $4::date[], $5::bigint[], $6::bigint[])
                AS n (app, version, day, sessions, crashed)
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.day
           ON CONFLICT (tenant, app, version, day) DO UPDATE
           SET sessions = d.sessions + EXCLUDED.sessions, crashed = d.crashed + EXCLUDED.crashed
           RETURNING app, version, day, installations, crashed_installations"#,
        tenant,
        &apps,
        &versions,
        &days,
        &sessions,
        &crashed,
        DistinctSketch::default().to_bytes()
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
