//! Wakes reports of all tenants that wait for system symbols.
//!
//! Nearly every report refers to the same system images, so their slots are not held one by one: one lock of
//! the database represents all of them, which indexers share and a publisher has alone. Operators load
//! symbols by the thousand: each upload records its debug ids, and one job, which waits until no upload is
//! under way, goes through the reports once for all of them.

pub use super::Arrived;
use super::Last;
use super::days::{next_day, page_of_day, to_columns};
use crate::column::{DebugIdColumn, TenantColumn, U64};
use crate::jobs::{self, Work};
use crate::number::{to_row, to_row32};
use crate::{JobId, OwnerTx, Result, Store, TenantTx, Uuid};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};
use time::{Date, Duration};
use unslide_model::TenantId;

/// The lock that represents all slots of the system.
const SYSTEM_SLOTS_LOCK: i64 = 0x756e_736c_6964_6532;
/// The pause from an upload to the job that wakes: one job handles all uploads in between.
const WAKE_JOB_DELAY: Duration = Duration::seconds(2);
/// Debug ids that one job takes on.
const WAKE_SYMBOLS_LIMIT: i64 = 5_000;

/// Waits until no publisher of system symbols is ahead, and makes later ones wait for this transaction: the
/// system's slots do not change until its waits are committed.
pub(crate) async fn lock_out_publishers(tx: &mut OwnerTx) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock_shared($1)")
        .bind(SYSTEM_SLOTS_LOCK)
        .execute(tx.parts().0)
        .await?;
    Ok(())
}

/// Waits until the waits of all transactions that read the slots before are committed: the counterpart of
/// [`lock_out_publishers`].
pub(crate) async fn wait_for_indexers(tx: &mut OwnerTx) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(SYSTEM_SLOTS_LOCK).execute(tx.parts().0).await?;
    Ok(())
}

/// Records that system symbols came, and makes sure that a job will look for waiting reports.
pub(crate) async fn record_arrived(tx: &mut OwnerTx, arrived: &[Arrived]) -> Result<()> {
    let of = |one: &Arrived| (one.debug_id.uuid(), to_row(one.generation));
    let (ids, generations): (Vec<Uuid>, Vec<i64>) = arrived.iter().map(of).unzip();
    let (connection, owner, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO system_wakes AS w (debug_id, generation) SELECT * FROM unnest($1::uuid[], $2::bigint[])
         ON CONFLICT (debug_id) DO UPDATE SET generation = greatest(w.generation, EXCLUDED.generation)",
        &ids,
        &generations
    )
    .execute(&mut *connection)
    .await?;
    // Locked: a job that begins right now is waited for, and then no longer counts as one that will
    // see this; one that is locked first begins after this is committed.
    let queued = sqlx::query_scalar!(
        r#"SELECT id AS "id: JobId" FROM jobs WHERE tenant = $1 AND kind = 'wake_system' AND status = 'queued' LIMIT 1 FOR UPDATE"#,
        owner
    )
    .fetch_optional(connection)
    .await?;
    if queued.is_none() {
        jobs::add_later(tx, &Work::WakeSystem { from: None }, WAKE_JOB_DELAY).await?;
    }
    Ok(())
}

/// Returns the symbols that came since the last job was done, with the present generations of their slots.
pub async fn list_arrived(tx: &mut OwnerTx) -> Result<Vec<Arrived>> {
    let (connection, owner, _) = tx.parts();
    Ok(sqlx::query_as!(
        Arrived,
        r#"SELECT w.debug_id AS "debug_id: DebugIdColumn", s.generation AS "generation: U64" FROM system_wakes w
           JOIN symbol_slots s ON s.tenant = $1 AND s.debug_id = w.debug_id
           WHERE s.quality > 0 ORDER BY w.debug_id LIMIT $2"#,
        owner,
        WAKE_SYMBOLS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Removes the entries of symbols that every tenant was asked about, and of symbols that were deleted in
/// between. Returns true if entries are left.
pub async fn remove_arrived(tx: &mut OwnerTx, arrived: &[Arrived]) -> Result<bool> {
    let (ids, generations) = to_columns(arrived);
    let (connection, owner, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM system_wakes w USING unnest($1::uuid[], $2::bigint[]) AS d (debug_id, generation)
         WHERE w.debug_id = d.debug_id AND w.generation <= d.generation",
        &ids,
        &generations
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM system_wakes w USING symbol_slots s
         WHERE s.tenant = $1 AND s.debug_id = w.debug_id AND s.quality = 0 AND s.generation >= w.generation",
        owner
    )
    .execute(&mut *connection)
    .await?;
    Ok(sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM system_wakes) AS "any!""#)
        .fetch_one(connection)
        .await?)
}

/// Returns the tenants that have a report which lacks one of these, by slug.
pub async fn list_tenants(
    store: &Store,
    arrived: &[Arrived],
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>> {
    let (ids, generations) = to_columns(arrived);
    let tenants = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_system_waits_tenants($1, $2, $3, $4)"#,
        &ids,
        &generations,
        after.map_or("", TenantId::as_str),
        to_row32(limit)
    );
    Ok(tenants.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// The position from which the wake of one tenant's reports continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemWakeCursor {
    day: Date,
    /// None: the day is done, and an earlier one follows.
    last: Option<Last>,
}

/// The position from which the job continues. It is kept in the job, so that a builder that dies or has had
/// its turn costs one page, and a day with more reports than one turn asks for comes to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Fingerprint of the symbols that were asked for so far: if others came since, the position does not
    /// count.
    symbols: u64,
    /// The tenant to go on with.
    pub tenant: TenantId,
    /// The position in its reports.
    pub cursor: SystemWakeCursor,
    /// A tenant before this one failed, and was left out.
    pub left_out: bool,
}

impl Resume {
    /// Makes the position to continue with a tenant's reports for these symbols.
    #[must_use]
    pub fn at_cursor(
        arrived: &[Arrived],
        tenant: &TenantId,
        cursor: SystemWakeCursor,
        left_out: bool,
    ) -> Resume {
        Resume { symbols: hash_symbols(arrived), tenant: tenant.clone(), cursor, left_out }
    }

    /// Returns true if it was made for these symbols.
    #[must_use]
    pub fn is_of(&self, arrived: &[Arrived]) -> bool {
        self.symbols == hash_symbols(arrived)
    }
}

/// Hashes the symbols. Another program may compute another number; the wake then begins again.
fn hash_symbols(arrived: &[Arrived]) -> u64 {
    let mut hasher = DefaultHasher::new();
    arrived.hash(&mut hasher);
    hasher.finish()
}

/// The result of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemWakePage {
    /// How many requests were made.
    pub requested: u64,
    /// The position to continue from; `None` when the tenant's reports are done.
    pub next: Option<SystemWakeCursor>,
}

/// Asks for the next `limit` reports of a tenant that lack one of these symbols, the newest first, each once
/// for all that it lacks. Commit after each page. The progress is recorded day by day: after a restart it
/// continues with the remaining days.
pub async fn request_page(
    tx: &mut TenantTx,
    arrived: &[Arrived],
    from: Option<SystemWakeCursor>,
    limit: u32,
) -> Result<SystemWakePage> {
    let (before, that_too) = (from.map(|c| c.day), from.is_some_and(|c| c.last.is_some()));
    let Some(lacking) = next_day(tx, arrived, before, that_too).await? else {
        return Ok(SystemWakePage { requested: 0, next: None });
    };
    let day = lacking.day;
    let last = from.filter(|cursor| cursor.day == day).and_then(|cursor| cursor.last);
    let page = page_of_day(tx, arrived, true, &lacking, last, limit).await?;
    Ok(SystemWakePage { requested: page.requested, next: Some(SystemWakeCursor { day, last: page.last }) })
}
