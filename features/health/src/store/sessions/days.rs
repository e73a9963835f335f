//! Counts of sessions by app, version and day.

use super::end::{MemoryEnd, SessionEnd};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_model::DistinctSketch;
use unslide_store::sql::json_bytes;
use unslide_store::{Result, StoreError, TenantTx};

pub type DayKey = (String, String, Date);
/// App, hour and version.
pub type SessionHourKey = (String, OffsetDateTime, String);

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

/// Counts that a batch adds to one row.
#[derive(Default)]
pub struct SessionDelta {
    sessions: i64,
    crashed: i64,
    memory: MemoryCounts,
    squares: i64,
    sketches: DaySketches,
}

/// Counts that a batch adds to rows of days, and of the hours that are kept.
#[derive(Default)]
pub struct SessionDeltas {
    pub days: BTreeMap<DayKey, SessionDelta>,
    pub hours: BTreeMap<SessionHourKey, SessionDelta>,
}

impl SessionDeltas {
    /// Applies a change to the counts of a day, and to those of the hour of a session if it counts.
    pub fn change(&mut self, key: DayKey, hour: Option<OffsetDateTime>, change: impl Fn(&mut SessionDelta)) {
        if let Some(hour) = hour {
            let (app, version, _) = &key;
            change(self.hours.entry((app.clone(), hour, version.clone())).or_default());
        }
        change(self.days.entry(key).or_default());
    }
}

/// Those that had sessions, and those of them that had one that crashed.
#[derive(Clone, Default, PartialEq)]
struct DaySketches {
    installations: DistinctSketch,
    crashed_installations: DistinctSketch,
    users: DistinctSketch,
    crashed_users: DistinctSketch,
}

impl DaySketches {
    /// Reads the sketches of a row: of all, and of those with a crash.
    fn read(installations: [&[u8]; 2], users: [&[u8]; 2]) -> Result<DaySketches> {
        Ok(DaySketches {
            installations: read_sketch(installations[0])?,
            crashed_installations: read_sketch(installations[1])?,
            users: read_sketch(users[0])?,
            crashed_users: read_sketch(users[1])?,
        })
    }

    fn merged(&self, other: &DaySketches) -> DaySketches {
        let mut merged = self.clone();
        merged.installations.merge(&other.installations);
        merged.crashed_installations.merge(&other.crashed_installations);
        merged.users.merge(&other.users);
        merged.crashed_users.merge(&other.crashed_users);
        merged
    }
}

/// A session to count: hashes of its installation and of its user, and its weight.
#[derive(Clone, Copy)]
pub struct CountedSession<'a> {
    pub installation: &'a [u8],
    pub user: Option<&'a [u8]>,
    pub weight: i64,
}

impl SessionDelta {
    /// Returns the counts as columns of a row, added to those of its key.
    pub(super) fn add_columns(&self, mut columns: Value) -> Value {
        columns["sessions"] = self.sessions.into();
        columns["crashed"] = self.crashed.into();
        columns["out_of_memory"] = self.memory.evident.into();
        columns["unexplained"] = self.memory.unexplained.into();
        columns["background_memory"] = self.memory.background.into();
        columns["squares"] = self.squares.into();
        columns
    }

    /// Returns the users, and those of them with a crash, as sketches.
    pub(super) fn users(&self) -> [&DistinctSketch; 2] {
        [&self.sketches.users, &self.sketches.crashed_users]
    }

    /// Counts a session that is new. If squares differ from the sum, some of the sessions were sampled, also
    /// if one of them counts once.
    pub fn begun(&mut self, session: CountedSession<'_>, is_sampled: bool) {
        self.sessions += session.weight;
        let least = if is_sampled { 2 } else { 1 };
        self.squares += (session.weight * session.weight).max(least);
        self.sketches.installations.add_hash(sketch_hash(session.installation));
        if let Some(user) = session.user {
            self.sketches.users.add_hash(sketch_hash(user));
        }
    }

    /// Counts sessions that were counted before.
    pub fn counted(&mut self, sessions: i64, crashed: i64) {
        self.sessions += sessions;
        self.squares += sessions;
        self.crashed += crashed;
    }

    /// Counts the end of a session that was known to have ended as `before`.
    pub(super) fn ended(&mut self, session: CountedSession<'_>, before: &SessionEnd, end: &SessionEnd) {
        if end.crashed() && !before.crashed() {
            self.crashed += session.weight;
            self.sketches.crashed_installations.add_hash(sketch_hash(session.installation));
            if let Some(user) = session.user {
                self.sketches.crashed_users.add_hash(sketch_hash(user));
            }
        }
        self.memory.add(before.memory(), -session.weight);
        self.memory.add(end.memory(), session.weight);
    }
}

/// Returns the bits of the hash of an installation or of a user that a sketch takes.
pub fn sketch_hash(hash: &[u8]) -> u64 {
    hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Reads a sketch of a row.
pub fn read_sketch(bytes: &[u8]) -> Result<DistinctSketch> {
    DistinctSketch::from_bytes(bytes)
        .ok_or_else(|| StoreError::corrupt("session_days", "a sketch that no program of ours writes"))
}

/// Adds to the counts, in the order of their keys.
pub async fn add(tx: &mut TenantTx, deltas: &BTreeMap<DayKey, SessionDelta>) -> Result<()> {
    if deltas.is_empty() {
        return Ok(());
    }
    let rows = deltas.iter().map(|((app, version, day), delta)| {
        delta.add_columns(json!({"app": app, "version": version, "day": day.to_string()}))
    });
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and returns their sketches; those of a new row are empty.
    let rows = sqlx::query!(
        r#"INSERT INTO session_days AS d (tenant, app, version, day, sessions, crashed, out_of_memory,
                                          unexplained, background_memory, installations, crashed_installations, users,
                                          crashed_users, squares)
           SELECT $1, n.app, n.version, n.day, n.sessions, n.crashed, n.out_of_memory, n.unexplained,
                  n.background_memory, $3, $3, $3, $3, n.squares
           FROM jsonb_populate_recordset(NULL::session_days, $2) AS n
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.day
           ON CONFLICT (tenant, app, version, day) DO UPDATE
           SET sessions = d.sessions + EXCLUDED.sessions, crashed = d.crashed + EXCLUDED.crashed,
               out_of_memory = d.out_of_memory + EXCLUDED.out_of_memory,
               unexplained = d.unexplained + EXCLUDED.unexplained,
               background_memory = d.background_memory + EXCLUDED.background_memory,
               squares = d.squares + EXCLUDED.squares
           RETURNING app, version, day, installations, crashed_installations, users, crashed_users"#,
        tenant,
        rows.collect::<Value>(),
        DistinctSketch::default().to_bytes()
    )
    .fetch_all(connection)
    .await?;
    let mut changed = Vec::new();
    for row in rows {
        let key = (row.app, row.version, row.day);
        let Some(delta) = deltas.get(&key) else { continue };
        let installations = [&row.installations[..], &row.crashed_installations];
        let known = DaySketches::read(installations, [&row.users, &row.crashed_users])?;
        let merged = known.merged(&delta.sketches);
        if merged != known {
            changed.push((key, merged));
        }
    }
    write_sketches(tx, &changed).await
}

async fn write_sketches(tx: &mut TenantTx, changed: &[(DayKey, DaySketches)]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let rows = changed.iter().map(|((app, version, day), sketches)| {
        json!({
            "app": app,
            "version": version,
            "day": day.to_string(),
            "installations": json_bytes(&sketches.installations.to_bytes()),
            "crashed_installations": json_bytes(&sketches.crashed_installations.to_bytes()),
            "users": json_bytes(&sketches.users.to_bytes()),
            "crashed_users": json_bytes(&sketches.crashed_users.to_bytes()),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE session_days d SET installations = n.installations, crashed_installations = n.crashed_installations,
                users = n.users, crashed_users = n.crashed_users
         FROM jsonb_populate_recordset(NULL::session_days, $2) AS n
         WHERE d.tenant = $1 AND d.app = n.app AND d.version = n.version AND d.day = n.day",
        tenant,
        rows.collect::<Value>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
