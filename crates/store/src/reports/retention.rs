//! How long a tenant's reports are kept. Their keys stay longer, so that a replay does not bring them
//! back (see [`crate::partitions::drop_keys`]).

use super::rollups::HOUR_COUNTS_RETENTION;
use crate::number::to_row32;
use crate::reports::RowKey;
use crate::reports::{drop_rest, lock_known};
use crate::reprocess;
use crate::segments::day_bounds;
use crate::{Result, Store, TenantTx, Uuid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::{Date, Duration, OffsetDateTime, UtcOffset};

/// The part of the section `indexer` that says how long what tenants send is kept.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct RetentionSettings {
    /// How long reports are kept, of tenants without a limit of their own.
    #[serde(rename = "retention", with = "unslide_model::units::days")]
    #[schemars(with = "String")]
    pub keep_days: u32,
    /// How long the ids of reports are remembered: longer than reports are kept, and longer than any topic holds them.
    #[serde(rename = "remember", with = "unslide_model::units::days")]
    #[schemars(with = "String")]
    pub remember_days: u32,
}

impl Default for RetentionSettings {
    fn default() -> RetentionSettings {
        RetentionSettings { keep_days: 90, remember_days: 400 }
    }
}

impl RetentionSettings {
    /// Returns the first day (UTC) that is kept of a tenant with a limit of `limit` days, or 0 for the usual.
    #[must_use]
    pub fn first_day(self, limit: u32, now: OffsetDateTime) -> Date {
        first_day(self.kept_days(limit), now)
    }

    /// Returns the number of days that reports are kept of a tenant with a limit of `limit` days, or 0 for the usual.
    #[must_use]
    pub fn kept_days(self, limit: u32) -> u32 {
        kept_days(limit, self.keep_days, self.remember_days)
    }
}

/// Returns the first day (UTC) that is kept if `days` days are.
#[must_use]
pub fn first_day(days: u32, now: OffsetDateTime) -> Date {
    now.to_offset(UtcOffset::UTC).date().saturating_sub(Duration::days(days.into()))
}

/// Returns the number of days that reports are kept of a tenant with the limit `limit` (0: `usual`). Kept
/// reports are also remembered, so no limit reaches beyond `remembered`.
#[must_use]
pub fn kept_days(limit: u32, usual: u32, remembered: u32) -> u32 {
    let wanted = if limit == 0 { usual } else { limit };
    wanted.min(remembered.saturating_sub(1)).max(1)
}

/// Returns the most days that reports of any tenant are kept.
pub async fn read_longest_days(store: &Store, usual: u32, remembered: u32) -> Result<u32> {
    let longest = sqlx::query_scalar!(r#"SELECT unslide_retention_longest($1) AS "days!""#, to_row32(usual))
        .fetch_one(store.pool())
        .await?;
    Ok(kept_days(u32::try_from(longest).unwrap_or(usual), usual, remembered))
}

/// Deletes reports of the transaction's tenant that arrived before the day `before`, at most `limit` of them,
/// with all dependent rows. Returns their number; 0 once no report of those days is left.
pub async fn expire_reports(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (end, _) = day_bounds(before);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT received_at, report_id, variant FROM reports WHERE tenant = $1 AND received_at < $2
         ORDER BY received_at, report_id, variant LIMIT $3",
        tenant,
        end,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let times: Vec<OffsetDateTime> = rows.iter().map(|row| row.received_at).collect();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.report_id).collect();
    let variants: Vec<i32> = rows.iter().map(|row| row.variant).collect();
    let going: Vec<RowKey> = ids.iter().copied().zip(variants.iter().copied()).collect();
    // In the lock order of all writers of reports.
    let keys = lock_known(tx, &going).await?;
    let (connection, tenant, _) = tx.parts();
    // The time once more: by it the days that are kept are left out.
    let gone = sqlx::query!(
        "DELETE FROM reports r
         USING unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
         WHERE r.tenant = $1 AND r.received_at < $5 AND r.received_at = k.received_at
           AND r.report_id = k.report_id AND r.variant = k.variant",
        tenant,
        &times,
        &ids,
        &variants,
        end
    )
    .execute(connection)
    .await?;
    drop_rest(tx, &times, &ids, &variants).await?;
    reprocess::count_ends(tx, &reprocess::count_deleted(&keys)).await?;
    Ok(gone.rows_affected())
}

/// Deletes images that no report wants that arrived on the day `before` or later, at most `limit` of them.
/// Returns their number. The counts of reports, devices and frames stay: a version's history is longer than
/// its reports.
pub async fn forget_wanted(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (end, _) = day_bounds(before);
    let (connection, tenant, _) = tx.parts();
    // All writers lock in this order; a row that was updated in between is checked again.
    let gone = sqlx::query!(
        r#"DELETE FROM wanted_images w
           USING (SELECT app, version, debug_id FROM wanted_images WHERE tenant = $1 AND last_seen < $2
                  ORDER BY app COLLATE "C", version COLLATE "C", debug_id LIMIT $3 FOR UPDATE) o
           WHERE w.tenant = $1 AND w.app = o.app AND w.version = o.version AND w.debug_id = o.debug_id"#,
        tenant,
        end,
        i64::from(limit)
    )
    .execute(connection)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes the counts of hours more than 14 days ago, at most `limit` rows. Returns their number.
pub async fn forget_hours(tx: &mut TenantTx, limit: u32) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    // In the order in which all writers lock them.
    let gone = sqlx::query!(
        r#"DELETE FROM app_hours h
           USING (SELECT app, version, hour FROM app_hours WHERE tenant = $1 AND hour < $2
                  ORDER BY app COLLATE "C", version COLLATE "C", hour LIMIT $3 FOR UPDATE) o
           WHERE h.tenant = $1 AND h.app = o.app AND h.version = o.version AND h.hour = o.hour"#,
        tenant,
        now - HOUR_COUNTS_RETENTION,
        i64::from(limit)
    )
    .execute(connection)
    .await?;
    Ok(gone.rows_affected())
}

/// Condemns the files in object storage of the days before `before`, and deletes rows that depend on those
/// days: for when [`expire_reports`] has nothing left to do, or the days' tables are about to go. At most `limit`
/// objects. Returns their number.
pub async fn condemn_days(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let segments = sqlx::query!(
        "WITH gone AS (
             DELETE FROM segments WHERE tenant = $1 AND id IN (
                 SELECT id FROM segments WHERE tenant = $1 AND day < $2 AND state = 'live' LIMIT $3)
             RETURNING key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $4 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        before,
        i64::from(limit),
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("DELETE FROM system_waits WHERE tenant = $1 AND day < $2", tenant, before)
        .execute(&mut *connection)
        .await?;
    let (end, _) = day_bounds(before);
    sqlx::query!("DELETE FROM report_users WHERE tenant = $1 AND received_at < $2", tenant, end)
        .execute(connection)
        .await?;
    Ok(segments.rows_affected())
}
