//! Deleting one report.

use super::groups;
use super::keys::lock_known;
use super::rollups::{self, Counted};
use crate::events::{DeletedReport, ReportPlace, StoreEvent};
use crate::groups::lock_out_merges;
use crate::history;
use crate::hooks;
use crate::number::to_row32;
use crate::reprocess;
use crate::segments::drop_frames;
use crate::{Result, TenantTx, Uuid};
use sqlx::{AssertSqlSafe, FromRow};
use time::OffsetDateTime;
use unslide_model::ReportId;

/// Deletes a report: its row, its body wherever that is, its waits, and its part in the counts of its
/// version, of affected devices and of missing images. A request for it has ended. Its key remains, so that
/// neither a replay nor an answer that is on its way brings it back. With `app`, deletes only a report of
/// that app. Returns false if there is no such report.
pub async fn delete_report(
    tx: &mut TenantTx,
    report_id: ReportId,
    variant: u32,
    app: Option<&str>,
) -> Result<bool> {
    lock_out_merges(tx).await?;
    let keys = lock_known(tx, &[(report_id.uuid(), to_row32(variant))]).await?;
    let Some(key) = keys.into_iter().find(|key| !key.deleted) else { return Ok(false) };
    history::bring_back(tx, &[key]).await?;
    let (connection, tenant, now) = tx.parts();
    let deleted: Option<Deleted> = sqlx::query_as(
        "DELETE FROM reports
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND ($5::text IS NULL OR app = $5)
         RETURNING *",
    )
    .bind(tenant)
    .bind(key.received_at)
    .bind(report_id.uuid())
    .bind(to_row32(variant))
    .bind(app)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(Deleted { counted, same_crash_as }) = deleted else { return Ok(false) };
    sqlx::query!(
        "UPDATE report_keys SET deleted_at = $4 WHERE tenant = $1 AND report_id = $2 AND variant = $3",
        tenant,
        report_id.uuid(),
        to_row32(variant),
        now
    )
    .execute(connection)
    .await?;
    drop_rest(tx, &[key.received_at], &[report_id.uuid()], &[to_row32(variant)]).await?;
    if same_crash_as.is_none() {
        rollups::take_back(tx, &counted).await?;
        groups::take_back(tx, &counted, None).await?;
    }
    reprocess::count_ends(tx, &reprocess::count_deleted(&[key])).await?;
    let place = ReportPlace { id: report_id, variant, received_at: key.received_at };
    let report = DeletedReport { place, app: counted.app, revision: key.latest_revision };
    hooks::send_event(StoreEvent::ReportDeleted(tx, &report)).await?;
    Ok(true)
}

#[derive(FromRow)]
struct Deleted {
    #[sqlx(flatten)]
    counted: Counted,
    same_crash_as: Option<Uuid>,
}

/// Removes the bodies and waits of reports without rows and what features have about them, and ends the requests for them.
/// Their keys have to be locked.
pub(crate) async fn drop_rest(
    tx: &mut TenantTx,
    times: &[OffsetDateTime],
    ids: &[Uuid],
    variants: &[i32],
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    // The times once more: by them the days of other reports are left out, and the rest is found in the index.
    macro_rules! delete_of {
        ($table:tt) => {
            sqlx::query!(
                "DELETE FROM "
                    + $table
                    + " r USING unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
                        WHERE r.tenant = $1 AND r.received_at = ANY ($2) AND r.received_at = k.received_at
                          AND r.report_id = k.report_id AND r.variant = k.variant",
                tenant,
                times,
                ids,
                variants
            )
            .execute(&mut *connection)
            .await?
        };
    }
    delete_of!("report_bodies");
    delete_of!("waits");
    delete_of!("report_users");
    sqlx::query!(
        "UPDATE report_keys r SET requested_at = NULL, asked_at = NULL, requested_needs = NULL,
                reprocess_id = NULL, ask_pending = false
         FROM unnest($2::uuid[], $3::integer[]) AS k (report_id, variant)
         WHERE r.tenant = $1 AND r.report_id = k.report_id AND r.variant = k.variant
           AND (r.requested_at IS NOT NULL OR r.ask_pending)",
        tenant,
        ids,
        variants
    )
    .execute(connection)
    .await?;
    drop_frames(tx, times, ids, variants).await?;
    delete_about_reports(tx, ids, variants).await
}

/// Deletes the rows that are about reports, of all tables that declare the report's column.
async fn delete_about_reports(tx: &mut TenantTx, ids: &[Uuid], variants: &[i32]) -> Result<()> {
    for table in tx.tables() {
        let Some(report) = table.report else { continue };
        let of_variant = match table.report_variant {
            Some(variant) => format!("t.{variant} = k.variant"),
            None => "true".to_owned(),
        };
        let statement = format!(
            "DELETE FROM {} t USING unnest($2::uuid[], $3::integer[]) AS k (report_id, variant)
             WHERE t.tenant = $1 AND t.{report} = k.report_id AND {of_variant}",
            table.name
        );
        let (connection, tenant, _) = tx.parts();
        let query =
            sqlx::query(AssertSqlSafe(statement)).bind(tenant).bind(ids.to_vec()).bind(variants.to_vec());
        query.execute(connection).await?;
    }
    Ok(())
}
