//! Locks of pages and samples of reports over stored days.

use crate::groups::id_of;
use crate::queries::durations::group_durations;
use crate::queries::groups;
use crate::queries::groups::context::read_group_context;
use crate::queries::report::find_report;
use crate::report_rows::{
    ReportFilter, ReportSample, SampleScope, find_neighbours, list_reports, read_samples,
};
use crate::reports::Arrival;
use crate::reports::partitions::{ensure_partitions, read_lock_capacity};
use crate::tests::database::{Database, acme, arrival, grouping, start};
use crate::{Result, TenantTx};
use sqlx::FromRow;
use time::Duration;
use unslide_model::{ContentHash, ReportId};

/// Stored days, of which each has its table and ten indexes or more: a statement over all of them takes more locks than these
/// reads may.
const DAYS: i64 = 60;
/// Locks of tables of reports that a transaction may take: far fewer than for all days.
const LOCKS_LIMIT: i64 = 500;

/// Reports of one group: many on the last days, and some on each tenth day before.
fn list_arrivals() -> Vec<Arrival> {
    let days = (0..120).map(|n| n % 3).chain((0..6).map(|n| 9 + 10 * n));
    let arrivals = (0_u8..).zip(days).map(|(n, days)| {
        let mut one = arrival(n);
        one.report_id = ReportId([n + 1; 16]);
        one.content_hash = ContentHash([n + 1; 32]);
        one.received_at = start() - Duration::days(days) - Duration::minutes(n.into());
        one.facts.grouping = Some(grouping(7, true));
        one.facts.app = "com.acme.shop".into();
        one
    });
    arrivals.collect()
}

async fn count_locks(tx: &mut TenantTx) -> i64 {
    let (connection, ..) = tx.parts();
    let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()";
    sqlx::query_scalar(locks).fetch_one(connection).await.unwrap()
}

#[derive(FromRow)]
struct SampledCount {
    reports: i64,
}

async fn count_sample(tx: &mut TenantTx, scope: SampleScope<'_>, limit: i64) -> Result<i64> {
    let rows: Vec<SampledCount> =
        read_samples(tx, [ReportSample::new(scope, "r.version", limit)], &|query| {
            query.push("SELECT count(*) AS reports FROM newest");
        })
        .await?;
    Ok(rows[0].reports)
}

#[tokio::test]
async fn a_group_and_the_first_page_of_a_list_lock_few_of_the_stored_days() {
    let database = Database::new().await;
    let day = start().date();
    ensure_partitions(&database.store, day - Duration::days(DAYS), day).await.unwrap();
    for batch in list_arrivals().chunks(40) {
        database.store(batch).await;
    }
    let group = id_of("com.acme.shop", grouping(7, true).fingerprint);
    let of_group = ReportFilter { group: Some(group), ..ReportFilter::default() };
    let of_app = ReportFilter { app: Some("com.acme.shop".into()), ..ReportFilter::default() };
    let all = ReportFilter::default();

    // As often as until the server would keep one plan for all values.
    for _ in 0..8 {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let found = groups::get(&mut tx, group, None).await.unwrap().unwrap();
        assert_eq!(found.variants.iter().map(|variant| variant.reports).sum::<i64>(), 126);
        assert_eq!(read_group_context(&mut tx, group).await.unwrap().sample, 126);
        group_durations(&mut tx, group).await.unwrap();
        assert_eq!(list_reports(&mut tx, &of_group, None, 5).await.unwrap().reports.len(), 5);
        let locks = count_locks(&mut tx).await;
        assert!(locks < LOCKS_LIMIT, "{locks} locks of a group's page");
        tx.commit().await.unwrap();

        for filter in [&all, &of_app, &of_group] {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let page = list_reports(&mut tx, filter, None, 50).await.unwrap();
            assert_eq!(page.reports.len(), 50);
            let around = find_neighbours(&mut tx, &page.reports[20]).await.unwrap();
            assert_eq!(around.0.unwrap().0, page.reports[19].report_id);
            assert_eq!(around.1.unwrap().0, page.reports[21].report_id);
            find_report(&mut tx, page.reports[0].report_id, 0).await.unwrap().unwrap();
            let locks = count_locks(&mut tx).await;
            assert!(locks < LOCKS_LIMIT, "{locks} locks of a page of {filter:?}");
        }
    }

    // Days without reports are not read to fill a page or a sample either.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = list_reports(&mut tx, &of_app, None, 500).await.unwrap();
    assert_eq!((page.reports.len(), page.next), (126, None));
    assert_eq!(count_sample(&mut tx, SampleScope::App("com.acme.shop"), 1_000).await.unwrap(), 126);
    assert_eq!(count_sample(&mut tx, SampleScope::Tenant, 1_000).await.unwrap(), 126);
    assert_eq!(count_sample(&mut tx, SampleScope::Group(group), 1_000).await.unwrap(), 126);
    assert_eq!(count_sample(&mut tx, SampleScope::Group(group), 7).await.unwrap(), 7);
    let locks = count_locks(&mut tx).await;
    let widest = read_lock_capacity(&database.store).await.unwrap().widest_statement;
    assert!(locks < widest, "{locks} locks, and {widest} of all days");
}
