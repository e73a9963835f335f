//! Crashes that several reports tell of: the best report counts, and the others are kept beside it.

use super::groups;
use super::keys::{KeyRow, find_arrival_times, lock_known};
use super::rollups::{self, Counted};
use crate::column::TenantColumn;
use crate::events::{ReportPlace, StoreEvent};
use crate::groups::lock_out_merges;
use crate::history;
use crate::hooks;
use crate::number::{from_row32, to_row32};
use crate::{GroupId, Result, RunId, Store, TenantTx, Uuid};
use time::{Duration, OffsetDateTime};
use unslide_model::{ReportId, words};

/// The most days between the arrivals of two reports of a crash.
const APART_DAYS: i32 = 3;
/// The days by which MetricKit's report may arrive after the other one. It is looked for so far back once.
const LATE_DAYS: i32 = 30;
/// Time after the arrival of a crash for which its row stays in the database, because MetricKit's report of it may arrive.
pub(crate) const LATE_TELLING_LIMIT: Duration = Duration::days(LATE_DAYS as i64 + 1);
/// Time after which a report is not looked for so far back any more: a few intervals of the check.
const FRESH_TIME: Duration = Duration::HOUR;
/// The maximum number of reports from one that does not count to the one that does.
const STEPS_LIMIT: usize = 8;

words! {
    /// Who tells of a crash, the best first.
    #[derive(PartialOrd, Ord)]
    pub enum CrashTeller {
        /// An extension of the app that the system starts after the crash.
        Corpse = "corpse",
        /// The app's own handler.
        Handler = "handler",
        /// A crash log of the system.
        Log = "log",
        /// MetricKit.
        MetricKit = "metric_kit",
    }
}

/// A report of a crash, by its id and variant.
type ReportKey = (ReportId, i32);

/// Takes reports out of all counts if a better one tells of the same crash, whichever came first. They belong together if they name
/// the same run of the app, or the same process if one of them names no run, or have the same id. Looks up `limit` of them at once,
/// each one once. Returns how many were changed.
pub async fn count_once(store: &Store, limit: u32) -> Result<u64> {
    let since = store.now() - Duration::days(i64::from(APART_DAYS) + 1);
    let fresh_since = store.now() - FRESH_TIME;
    let (mut after, mut changed) = ((since, Uuid::nil(), -1), 0);
    loop {
        let tellings = sqlx::query!(
            r#"SELECT tenant AS "tenant!: TenantColumn", report_id AS "report_id!", variant AS "variant!",
                      stored_at AS "stored_at!", other_id AS "other_id!", other_variant AS "other_variant!"
               FROM unslide_crash_tellings($1, $2, $3, $4, $5, $6, $7)"#,
            after.0,
            after.1,
            after.2,
            fresh_since,
            APART_DAYS,
            LATE_DAYS,
            to_row32(limit)
        )
        .fetch_all(store.pool())
        .await?;
        let Some(last) = tellings.last() else { return Ok(changed) };
        after = (last.stored_at, last.report_id, last.variant);
        // One at a time: rows are locked in the order of one report.
        for row in tellings {
            let mut tx = store.tenant(&row.tenant.into()).await?;
            lock_out_merges(&mut tx).await?;
            let own = (ReportId::from_uuid(row.report_id), row.variant);
            let other = (ReportId::from_uuid(row.other_id), row.other_variant);
            changed += u64::from(join_tellings(&mut tx, own, other).await?);
            tx.commit().await?;
        }
    }
}

/// A report that counts for its crash.
struct Telling {
    key: ReportKey,
    teller: CrashTeller,
    run_id: Option<RunId>,
    received_at: OffsetDateTime,
}

impl Telling {
    /// Returns the order of tellings: the best first, and of equal ones that which came first. Of one id it is the first variant.
    fn rank(&self, other: &Telling) -> (CrashTeller, OffsetDateTime, ReportKey) {
        let teller = if self.key.0 == other.key.0 { CrashTeller::Corpse } else { self.teller };
        let received_at =
            if self.key.0 == other.key.0 { OffsetDateTime::UNIX_EPOCH } else { self.received_at };
        (teller, received_at, self.key)
    }
}

/// Takes the worse of two tellings of a crash out of the counts. Returns false if one of them does not count any more.
async fn join_tellings(tx: &mut TenantTx, own: ReportKey, other: ReportKey) -> Result<bool> {
    let Some(counted) = find_counted(tx, other).await? else { return Ok(false) };
    if counted == own {
        return Ok(false);
    }
    let keys = lock_known(tx, &[own, counted].map(|(id, variant)| (id.uuid(), variant))).await?;
    history::bring_back(tx, &keys).await?;
    let find_key = |(id, variant): ReportKey| keys.iter().find(|key| key.row_key() == (id.uuid(), variant));
    let (Some(own_key), Some(counted_key)) = (find_key(own), find_key(counted)) else { return Ok(false) };
    let (Some(own), Some(counted)) = (read_counted(tx, own_key).await?, read_counted(tx, counted_key).await?)
    else {
        return Ok(false);
    };
    if own.run_id.zip(counted.run_id).is_some_and(|(own, counted)| own != counted) {
        return Ok(false);
    }
    let is_own_better = own.rank(&counted) < counted.rank(&own);
    let (better, worse, key) =
        if is_own_better { (own, counted, counted_key) } else { (counted, own, own_key) };
    if !stop_counting(tx, key, better.key.0.uuid()).await? {
        return Ok(false);
    }
    // Reports that this one counted for.
    let (connection, tenant, _) = tx.parts();
    let counted_before = sqlx::query!(
        r#"UPDATE reports SET same_crash_as = $3 WHERE tenant = $1 AND same_crash_as = $2 AND (report_id, variant) <> ($3, $4)
           RETURNING report_id AS "report_id!", variant AS "variant!", received_at AS "received_at!""#,
        tenant,
        worse.key.0.uuid(),
        better.key.0.uuid(),
        better.key.1
    )
    .fetch_all(connection)
    .await?;
    let mut moved: Vec<ReportPlace> = counted_before
        .into_iter()
        .map(|row| ReportPlace {
            id: ReportId::from_uuid(row.report_id),
            variant: from_row32(row.variant),
            received_at: row.received_at,
        })
        .collect();
    moved.push(ReportPlace { id: key.report_id, variant: key.variant, received_at: key.received_at });
    hooks::send_event(StoreEvent::ReportsMoved(tx, &moved)).await?;
    Ok(true)
}

/// Finds the report that counts for the crash of another one.
async fn find_counted(tx: &mut TenantTx, report: ReportKey) -> Result<Option<ReportKey>> {
    let (mut id, mut variant) = (report.0.uuid(), Some(report.1));
    for _ in 0..STEPS_LIMIT {
        let moved = history::read_moved_of_id(tx, id).await?;
        let times = find_arrival_times(tx, &[id]).await?;
        let (connection, tenant, _) = tx.parts();
        let found = sqlx::query!(
            r#"WITH moved AS MATERIALIZED (SELECT * FROM unslide_moved_reports($4::text::jsonb))
               SELECT r.variant AS "variant!", r.same_crash_as FROM report_keys k
               CROSS JOIN LATERAL (
                   SELECT o.variant, o.fatal, o.same_crash_as FROM reports o
                   WHERE o.tenant = $1 AND o.received_at = ANY ($5) AND o.received_at = k.received_at AND o.report_id = k.report_id
                     AND o.variant = k.variant
                   UNION ALL
                   SELECT m.variant, m.fatal, m.same_crash_as FROM moved m
                   WHERE m.tenant = $1 AND m.received_at = k.received_at AND m.report_id = k.report_id AND m.variant = k.variant
                     AND k.history_version IS NOT NULL) r
               WHERE k.tenant = $1 AND k.report_id = $2 AND CASE WHEN $3::integer IS NULL THEN r.fatal AND r.same_crash_as IS NULL
                                                                 ELSE k.variant = $3 END
               ORDER BY k.variant LIMIT 1"#,
            tenant,
            id,
            variant,
            moved,
            &times
        )
        .fetch_optional(connection)
        .await?;
        let Some(found) = found else { return Ok(None) };
        match found.same_crash_as {
            None => return Ok(Some((ReportId::from_uuid(id), found.variant))),
            Some(next) => (id, variant) = (next, None),
        }
    }
    Ok(None)
}

/// Reads a report if it counts for its crash.
async fn read_counted(tx: &mut TenantTx, key: &KeyRow) -> Result<Option<Telling>> {
    let (id, variant) = key.row_key();
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        "SELECT teller, metric_kit, run_id FROM reports
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND fatal AND same_crash_as IS NULL",
        tenant,
        key.received_at,
        id,
        variant
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| Telling {
        key: (key.report_id, variant),
        teller: teller_from_columns(row.teller.as_deref(), row.metric_kit),
        run_id: row.run_id.map(RunId::from_uuid),
        received_at: key.received_at,
    }))
}

/// Returns the teller of a row; those of before have no word for it.
fn teller_from_columns(teller: Option<&str>, metric_kit: bool) -> CrashTeller {
    let before = if metric_kit { CrashTeller::MetricKit } else { CrashTeller::Handler };
    teller.and_then(CrashTeller::parse).unwrap_or(before)
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

/// Returns the group of the report that counts for a crash.
async fn find_group(tx: &mut TenantTx, app: &str, report: Uuid) -> Result<Option<GroupId>> {
    let times = find_arrival_times(tx, &[report]).await?;
    let (connection, tenant, _) = tx.parts();
    let group = sqlx::query_scalar!(
        r#"SELECT r.group_id AS "group!: GroupId" FROM report_keys k
           JOIN reports r ON r.tenant = $1 AND r.received_at = ANY ($4) AND r.received_at = k.received_at
                         AND r.report_id = k.report_id AND r.variant = k.variant
           WHERE k.tenant = $1 AND k.report_id = $2 AND r.app = $3 AND r.same_crash_as IS NULL AND r.group_id IS NOT NULL
           ORDER BY k.variant LIMIT 1"#,
        tenant,
        report,
        app,
        &times
    );
    Ok(group.fetch_optional(connection).await?)
}
