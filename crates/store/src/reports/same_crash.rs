//! Crashes that both KSCrash and MetricKit report: KSCrash's report counts, and MetricKit's is kept beside
//! it.

use super::groups;
use super::keys::{KeyRow, lock_known};
use super::rollups::{self, Counted};
use crate::column::TenantColumn;
use crate::groups::lock_out_merges;
use crate::number::to_row32;
use crate::{GroupId, Result, Store, TenantTx, Uuid};
use time::Duration;

/// The most days between the arrivals of the two.
const APART_DAYS: i32 = 3;

/// Takes a MetricKit report out of all counts if a KSCrash report is about the same crash, whichever came
/// first. They belong together if they name the same run of the app, or the same process if one of them names
/// no run. Looks up `limit` of them at once, each one once. Returns how many were changed.
pub async fn count_once(store: &Store, limit: u32) -> Result<u64> {
    let since = store.now() - Duration::days(i64::from(APART_DAYS) + 1);
    let (mut after, mut changed) = ((since, Uuid::nil(), -1), 0);
    loop {
        let twice = sqlx::query!(
            r#"SELECT tenant AS "tenant!: TenantColumn", report_id AS "report_id!", variant AS "variant!",
                      stored_at AS "stored_at!", same_crash_as AS "same_crash_as!"
               FROM unslide_crashes_told_twice($1, $2, $3, $4, $5)"#,
            after.0,
            after.1,
            after.2,
            APART_DAYS,
            to_row32(limit)
        )
        .fetch_all(store.pool())
        .await?;
        let Some(last) = twice.last() else { return Ok(changed) };
        after = (last.stored_at, last.report_id, last.variant);
        // One at a time: rows are locked in the order of one report.
        for row in twice {
            let mut tx = store.tenant(&row.tenant.into()).await?;
            lock_out_merges(&mut tx).await?;
            for key in lock_known(&mut tx, &[(row.report_id, row.variant)]).await? {
                changed += u64::from(stop_counting(&mut tx, &key, row.same_crash_as).await?);
            }
            tx.commit().await?;
        }
    }
}

/// Takes one report out of the counts. Its key must be locked. Returns false if it was taken out before.
async fn stop_counting(tx: &mut TenantTx, key: &KeyRow, other: Uuid) -> Result<bool> {
    let (id, variant) = key.row_key();
    let (connection, tenant, _) = tx.parts();
    let counted: Option<Counted> = sqlx::query_as(
        "UPDATE reports SET same_crash_as = $5
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND same_crash_as IS NULL
         RETURNING *",
    )
    .bind(tenant)
    .bind(key.received_at)
    .bind(id)
    .bind(variant)
    .bind(other)
    .fetch_optional(connection)
    .await?;
    let Some(counted) = counted else { return Ok(false) };
    rollups::take_back(tx, &counted).await?;
    // Its group looks for its first and last report among those that name it.
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE reports SET group_id = NULL, wanted = '{}'
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4",
        tenant,
        key.received_at,
        id,
        variant
    )
    .execute(connection)
    .await?;
    let group = find_group(tx, &counted.app, other).await?;
    groups::take_back(tx, &counted, group).await?;
    Ok(true)
}

/// Returns the group of KSCrash's report of a crash.
async fn find_group(tx: &mut TenantTx, app: &str, report: Uuid) -> Result<Option<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    let group = sqlx::query_scalar!(
        r#"SELECT r.group_id AS "group!: GroupId" FROM report_keys k
           JOIN reports r ON r.tenant = $1 AND r.received_at = k.received_at AND r.report_id = k.report_id
                         AND r.variant = k.variant
           WHERE k.tenant = $1 AND k.report_id = $2 AND r.app = $3 AND NOT r.metric_kit AND r.group_id IS NOT NULL
           ORDER BY k.variant LIMIT 1"#,
        tenant,
        report,
        app
    );
    Ok(group.fetch_optional(connection).await?)
}
