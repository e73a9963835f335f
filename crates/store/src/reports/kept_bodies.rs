//! Bodies that are chosen among those of a group and day, and bodies that are dropped. A report without a body keeps its row, and its
//! part in every list and count. It asks for no symbols any more, because there is nothing to symbolicate.

use super::{find_arrival_times, lock_known};
use crate::column::ReportIdColumn;
use crate::history;
use crate::number::{from_row32, to_row32};
use crate::segments::{day_bounds, drop_frames};
use crate::{Result, TenantTx};
use time::{Date, OffsetDateTime};
use unslide_model::ReportId;

/// A revision of a stored report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRevision {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The revision.
    pub revision: u32,
}

/// A report of which the body is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnkeptBody {
    /// The report.
    pub report: StoredRevision,
    /// The report with a body that is most like it, by its id and variant.
    pub like: (ReportId, u32),
    /// How many bodies its group keeps of a day.
    pub kept_bodies: u32,
}

/// A choice among the bodies of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyChoice {
    /// Reports of which the bodies are kept.
    pub kept: Vec<StoredRevision>,
    /// Reports of which the bodies are dropped.
    pub dropped: Vec<UnkeptBody>,
    /// Whether bodies are dropped, too, of reports that wait for symbols which could not be fetched.
    pub drops_waiting: bool,
}

/// Returns a column of reports, as a statement takes it.
fn to_column<R, T>(reports: &[R], value: impl Fn(&R) -> T) -> Vec<T> {
    reports.iter().map(value).collect()
}

/// Records which bodies are kept, and drops the others, as far as each report still has the revision that was chosen by, and no
/// request for a better one is under way. Returns the number of bodies that were dropped.
pub async fn store_choice(tx: &mut TenantTx, choice: &BodyChoice) -> Result<u64> {
    let reports = choice.kept.iter().chain(choice.dropped.iter().map(|one| &one.report));
    let reports: Vec<_> = reports.map(|one| (one.report_id.uuid(), to_row32(one.variant))).collect();
    // In the lock order of all writers of reports.
    let keys = lock_known(tx, &reports).await?;
    history::bring_back(tx, &keys).await?;
    mark_kept(tx, &choice.kept).await?;
    if choice.dropped.is_empty() {
        return Ok(0);
    }
    let dropped = mark_dropped(tx, choice).await?;
    drop_bodies(tx, &dropped).await?;
    Ok(dropped.len() as u64)
}

async fn mark_kept(tx: &mut TenantTx, kept: &[StoredRevision]) -> Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    // The times once more: by them the days of other reports are left out, and the rest is found in the index.
    sqlx::query!(
        "UPDATE reports r SET body_kept = true
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::integer[]) AS n (received_at, report_id, variant, revision)
         WHERE r.tenant = $1 AND r.received_at = ANY ($2) AND r.received_at = n.received_at AND r.report_id = n.report_id
           AND r.variant = n.variant AND r.revision = n.revision AND r.body_kept IS NULL",
        tenant,
        &to_column(kept, |one| one.received_at),
        &to_column(kept, |one| one.report_id.uuid()),
        &to_column(kept, |one| to_row32(one.variant)),
        &to_column(kept, |one| to_row32(one.revision))
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Marks the reports that may lose their bodies, and returns them.
async fn mark_dropped(tx: &mut TenantTx, choice: &BodyChoice) -> Result<Vec<StoredRevision>> {
    let dropped = &choice.dropped;
    let (connection, tenant, _) = tx.parts();
    let marked = sqlx::query!(
        r#"UPDATE reports r
           SET body_kept = false, kept_bodies = n.kept_bodies, like_report = n.like_report, like_variant = n.like_variant
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::integer[], $6::uuid[], $7::integer[], $8::integer[])
                AS n (received_at, report_id, variant, revision, like_report, like_variant, kept_bodies)
           WHERE r.tenant = $1 AND r.received_at = ANY ($2) AND r.received_at = n.received_at AND r.report_id = n.report_id
             AND r.variant = n.variant AND r.revision = n.revision AND r.body_kept IS NOT FALSE
             AND EXISTS (SELECT FROM report_keys k
                         WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant AND k.deleted_at IS NULL
                           AND k.requested_at IS NULL AND NOT k.ask_pending AND ($9 OR k.retry_at IS NULL))
           RETURNING r.received_at, r.report_id AS "report_id: ReportIdColumn", r.variant, r.revision"#,
        tenant,
        &to_column(dropped, |one| one.report.received_at),
        &to_column(dropped, |one| one.report.report_id.uuid()),
        &to_column(dropped, |one| to_row32(one.report.variant)),
        &to_column(dropped, |one| to_row32(one.report.revision)),
        &to_column(dropped, |one| one.like.0.uuid()),
        &to_column(dropped, |one| to_row32(one.like.1)),
        &to_column(dropped, |one| to_row32(one.kept_bodies)),
        choice.drops_waiting
    )
    .fetch_all(connection)
    .await?;
    let marked = marked.into_iter().map(|row| StoredRevision {
        received_at: row.received_at,
        report_id: row.report_id.into(),
        variant: from_row32(row.variant),
        revision: from_row32(row.revision),
    });
    Ok(marked.collect())
}

/// Removes the bodies of reports that were marked, wherever they are, and what would ask for better ones.
async fn drop_bodies(tx: &mut TenantTx, dropped: &[StoredRevision]) -> Result<()> {
    let times = to_column(dropped, |one| one.received_at);
    let ids = to_column(dropped, |one| one.report_id.uuid());
    let variants = to_column(dropped, |one| to_row32(one.variant));
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM report_bodies b USING unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS n (received_at, report_id, variant)
         WHERE b.tenant = $1 AND b.received_at = ANY ($2) AND b.received_at = n.received_at AND b.report_id = n.report_id
           AND b.variant = n.variant",
        tenant,
        &times,
        &ids,
        &variants
    )
    .execute(&mut *connection)
    .await?;
    // Its waits stay, as lists of an image find it by them. They have seen every generation to come.
    sqlx::query!(
        "UPDATE waits w SET seen_generation = $5
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS n (received_at, report_id, variant)
         WHERE w.tenant = $1 AND w.received_at = ANY ($2) AND w.received_at = n.received_at AND w.report_id = n.report_id
           AND w.variant = n.variant",
        tenant,
        &times,
        &ids,
        &variants,
        i64::MAX
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE report_keys k SET retry_at = NULL, retry_needs = NULL, retries = 0
         FROM unnest($2::uuid[], $3::integer[]) AS n (report_id, variant)
         WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant AND k.retry_at IS NOT NULL",
        tenant,
        &ids,
        &variants
    )
    .execute(connection)
    .await?;
    drop_frames(tx, &times, &ids, &variants).await
}

/// Drops bodies of the transaction's tenant of reports that arrived before the day `before`, at most `limit` of them. The reports stay in
/// lists and counts; those with rows in ClickHouse come back, and move again. A report that is requested keeps its body until
/// the answer. Returns the number of bodies.
pub async fn expire_bodies(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (end, _) = day_bounds(before);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT b.report_id AS "report_id!", b.variant AS "variant!" FROM (
               SELECT received_at, report_id, variant FROM report_frames WHERE tenant = $1 AND received_at < $2
               UNION ALL
               SELECT received_at, report_id, variant FROM report_bodies WHERE tenant = $1 AND received_at < $2) b
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = b.report_id AND k.variant = b.variant
           WHERE k.deleted_at IS NULL AND k.requested_at IS NULL AND NOT k.ask_pending
           ORDER BY b.received_at LIMIT $3"#,
        tenant,
        end,
        i64::from(limit)
    );
    let rows = rows.fetch_all(connection).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let reports: Vec<_> = rows.into_iter().map(|row| (row.report_id, row.variant)).collect();
    // In the lock order of all writers of reports.
    let keys = lock_known(tx, &reports).await?;
    history::bring_back(tx, &keys).await?;
    let ids: Vec<_> = keys.iter().map(|key| key.report_id.uuid()).collect();
    let times: Vec<_> = keys.iter().map(|key| key.received_at).collect();
    let variants: Vec<_> = keys.iter().map(|key| to_row32(key.variant)).collect();
    let (connection, tenant, _) = tx.parts();
    let expired = sqlx::query!(
        r#"UPDATE reports r SET body_kept = false, kept_bodies = 0, like_report = NULL, like_variant = NULL
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS n (received_at, report_id, variant)
           WHERE r.tenant = $1 AND r.received_at = ANY ($2) AND r.received_at = n.received_at AND r.report_id = n.report_id
             AND r.variant = n.variant
             AND EXISTS (SELECT FROM report_keys k
                         WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant AND k.deleted_at IS NULL
                           AND k.requested_at IS NULL AND NOT k.ask_pending)
           RETURNING r.received_at, r.report_id AS "report_id: ReportIdColumn", r.variant, r.revision"#,
        tenant,
        &times,
        &ids,
        &variants
    )
    .fetch_all(connection)
    .await?;
    let expired: Vec<StoredRevision> = expired
        .into_iter()
        .map(|row| StoredRevision {
            received_at: row.received_at,
            report_id: row.report_id.into(),
            variant: from_row32(row.variant),
            revision: from_row32(row.revision),
        })
        .collect();
    drop_bodies(tx, &expired).await?;
    Ok(expired.len() as u64)
}

/// A report without a body, and the one that is like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeReport {
    /// The report, by its id and variant.
    pub report: (ReportId, u32),
    /// Its revision.
    pub revision: u32,
    /// The report that was most like it when its body was dropped, by its id and variant.
    pub like: (ReportId, u32),
}

/// Returns those of these reports that have no body, each with the one that is like it.
pub async fn list_like_reports(tx: &mut TenantTx, reports: &[(ReportId, u32)]) -> Result<Vec<LikeReport>> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<_> = reports.iter().map(|(id, variant)| (id.uuid(), to_row32(*variant))).collect();
    let moved = history::read_moved(tx, &wanted).await?;
    let ids = to_column(reports, |(id, _)| id.uuid());
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH moved AS MATERIALIZED (SELECT * FROM unslide_moved_reports($4::text::jsonb))
           SELECT r.report_id AS "report_id!: ReportIdColumn", r.variant AS "variant!", r.revision AS "revision!",
                  r.like_report AS "like_report!: ReportIdColumn", r.like_variant AS "like_variant!"
           FROM unnest($2::uuid[], $3::integer[]) AS n (id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = n.id AND k.variant = n.variant AND k.deleted_at IS NULL
           CROSS JOIN LATERAL (
               SELECT o.* FROM (
                   (SELECT * FROM reports o WHERE o.tenant = $1 AND o.received_at = ANY ($5) AND o.received_at = k.received_at
                                              AND o.report_id = k.report_id AND o.variant = k.variant LIMIT 1)
                   UNION ALL
                   SELECT * FROM moved m WHERE m.tenant = $1 AND m.received_at = k.received_at AND m.report_id = k.report_id
                                           AND m.variant = k.variant AND k.history_version IS NOT NULL) o
               WHERE o.body_kept IS FALSE AND o.like_report IS NOT NULL AND o.like_variant IS NOT NULL
               LIMIT 1) r"#,
        tenant,
        &ids,
        &to_column(reports, |(_, variant)| to_row32(*variant)),
        moved,
        &times
    )
    .fetch_all(connection)
    .await?;
    let likes = rows.into_iter().map(|row| LikeReport {
        report: (row.report_id.into(), from_row32(row.variant)),
        revision: from_row32(row.revision),
        like: (row.like_report.into(), from_row32(row.like_variant)),
    });
    Ok(likes.collect())
}
