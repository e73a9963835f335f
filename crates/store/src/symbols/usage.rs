//! Usage of a tenant, and the one place that decides whether more symbols fit.
//!
//! The limit on stored symbols holds for the bytes of the slices that are kept, each counted once, and of the
//! files that features keep of the same senders: the columns that tables declare as `counted_bytes`. Uploads that wait to be
//! unpacked count with the size of their file, and so do those that come in parts, from their beginning on. A
//! transaction that adds to any of them holds the tenant's lock from its check until the commit, so that two
//! of them together do not exceed the limit.

use crate::number::{from_row, to_row};
use crate::{OwnerTx, Result};
use serde::Serialize;
use sqlx::AssertSqlSafe;
use unslide_model::ContentHash;
use utoipa::ToSchema;

/// Storage, reports and keys that a tenant uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Usage)]
pub struct TenantUsage {
    /// Bytes of stored symbols, each slice once, and of other files that the tenant sent: they count against
    /// `limits.symbol_bytes`.
    pub symbol_bytes: u64,
    /// Bytes of uploads that are sent in parts or wait to be unpacked.
    pub pending_bytes: u64,
    /// Number of stored objects, one for each architecture of a file.
    pub objects: u64,
    /// Reports that were stored, those past their retention too.
    pub reports: u64,
    /// Keys that are in force.
    pub keys: u64,
}

/// Returns the usage of the transaction's tenant.
pub async fn get(tx: &mut OwnerTx) -> Result<TenantUsage> {
    let symbols = read_symbol_bytes(tx).await?;
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT (SELECT count(*) FROM objects WHERE tenant = $1) AS "objects!",
                  (SELECT coalesce(sum(reports - extrapolated), 0)::bigint FROM app_days WHERE tenant = $1) AS "reports!",
                  (SELECT count(*) FROM keys WHERE tenant = $1 AND kind = 'api' AND revoked_at IS NULL
                      AND (expires_at IS NULL OR expires_at > $2)) AS "keys!""#,
        tenant,
        now
    )
    .fetch_one(connection)
    .await?;
    Ok(TenantUsage {
        symbol_bytes: symbols.stored,
        pending_bytes: symbols.pending,
        objects: from_row(row.objects),
        reports: from_row(row.reports),
        keys: from_row(row.keys),
    })
}

/// Bytes of symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SymbolBytes {
    /// Of stored slices and other files.
    pub stored: u64,
    /// Of uploads that come in parts or wait to be unpacked.
    pub pending: u64,
}

impl SymbolBytes {
    /// Returns both together.
    #[must_use]
    pub fn total_bytes(self) -> u64 {
        self.stored.saturating_add(self.pending)
    }
}

/// Returns the size of the tenant's symbols, without a lock: for a first answer.
pub async fn read_symbol_bytes(tx: &mut OwnerTx) -> Result<SymbolBytes> {
    let counted = tx.tables().into_iter().filter_map(|table| Some((table.name, table.counted_bytes?)));
    let sums = counted.map(|(table, column)| {
        format!("(SELECT coalesce(sum({column}), 0)::bigint FROM {table} WHERE tenant = $1)")
    });
    let statement = format!(
        "SELECT {}, (SELECT coalesce(sum(size), 0)::bigint
                     FROM (SELECT size FROM uploads WHERE tenant = $1 AND status IN ('queued', 'building')
                           UNION ALL SELECT size FROM partial_uploads WHERE tenant = $1) p)",
        sums.collect::<Vec<_>>().join(" + ")
    );
    let (connection, tenant, _) = tx.parts();
    let (stored, pending): (i64, i64) =
        sqlx::query_as(AssertSqlSafe(statement)).bind(tenant).fetch_one(connection).await?;
    Ok(SymbolBytes { stored: from_row(stored), pending: from_row(pending) })
}

/// Returns the size of the tenant's symbols. Until the transaction ends no other that takes this lock adds to
/// them.
pub async fn hold_symbols(tx: &mut OwnerTx) -> Result<SymbolBytes> {
    lock_usage(tx).await?;
    // A statement of its own: it sees rows that were committed during the wait for the lock.
    read_symbol_bytes(tx).await
}

/// Takes the lock alone: until the transaction ends no other notes objects of the owner.
pub async fn lock_usage(tx: &mut OwnerTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('symbols of ' || $1, 0))")
        .bind(tenant)
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns the bytes that the tenant does not have yet, of these slices with their sizes.
pub async fn new_bytes(tx: &mut OwnerTx, slices: &[(ContentHash, u64)]) -> Result<u64> {
    let hashes: Vec<Vec<u8>> = slices.iter().map(|(hash, _)| hash.0.to_vec()).collect();
    let sizes: Vec<i64> = slices.iter().map(|(_, size)| to_row(*size)).collect();
    let (connection, tenant, _) = tx.parts();
    let bytes = sqlx::query_scalar!(
        r#"SELECT coalesce(sum(w.size), 0)::bigint AS "bytes!"
           FROM (SELECT DISTINCT content_hash, size FROM unnest($2::bytea[], $3::bigint[]) AS u (content_hash, size)) w
           WHERE NOT EXISTS (SELECT FROM objects o WHERE o.tenant = $1 AND o.content_hash = w.content_hash)"#,
        tenant,
        &hashes,
        &sizes
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(bytes))
}
