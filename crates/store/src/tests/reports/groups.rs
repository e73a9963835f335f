//! Groups: what they count, whatever happens to their reports.

use crate::Uuid;
use crate::groups::{self as actions, GroupActor, MergeOutcome};
use crate::queries::groups::{self, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::reports as listed;
use crate::reports::{self, Arrival};
use crate::tests::database::{Database, acme, arrival, grouping, image, revised, tenant_id};
use sqlx::Row;
use time::{Duration, OffsetDateTime};

const ACTOR: GroupActor<'static> = GroupActor { actor: "test", name: None };

async fn list(database: &Database, filter: &GroupFilter, order: GroupOrder) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    groups::list(&mut tx, filter, order, None, 100).await.unwrap()
}

async fn all(database: &Database) -> Vec<ListedGroup> {
    list(database, &GroupFilter::default(), GroupOrder::LastSeen).await
}

async fn delete(database: &Database, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    reports::delete(&mut tx, arrival(n).report_id, 0, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// A report of bug 7, in this version, so many days ago.
pub fn of_bug(n: u8, version: &str, days: i64) -> Arrival {
    let mut arrival = arrival(n);
    arrival.received_at -= Duration::days(days);
    arrival.facts.version = version.into();
    arrival.facts.grouping = Some(grouping(7, false));
    arrival
}

#[tokio::test]
async fn a_group_has_its_reports_by_version_and_day() {
    let database = Database::new().await;
    let mut without = arrival(9);
    without.facts.grouping = None;
    let mut unknown = of_bug(10, "1.1", 0);
    unknown.facts.device = None;
    // Reports 1 and 13 are of one device.
    database.store(&[of_bug(1, "1.0", 2), of_bug(13, "1.1", 0), unknown, without]).await;
    let found = all(&database).await;
    let [group] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((group.app.as_str(), group.title.as_str(), group.reports), ("com.acme.shop", "bug 7", 3));
    assert_eq!(group.affected_devices, 1);
    assert_eq!((group.first_version.as_str(), group.last_version.as_str()), ("1.0", "1.1"));
    assert_eq!((group.first_seen, group.last_seen), (of_bug(1, "", 2).received_at, arrival(13).received_at));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let detail = groups::get(&mut tx, group.id, Some("com.acme.shop")).await.unwrap().unwrap();
    let versions: Vec<_> = detail.versions.iter().map(|one| (one.version.as_str(), one.reports)).collect();
    assert_eq!(versions, [("1.1", 2), ("1.0", 1)]);
    assert_eq!(detail.days.iter().map(|day| day.reports).collect::<Vec<_>>(), [2, 1]);
    let models: Vec<_> = detail.devices.iter().map(|one| (one.model.as_str(), one.reports)).collect();
    assert_eq!(models, [("iPhone1,1", 2), ("", 1)]);
    let systems: Vec<_> =
        detail.os_versions.iter().map(|one| (one.os_version.as_str(), one.reports)).collect();
    assert_eq!(systems, [("iOS 18.1", 2), ("iOS 18.0", 1)]);
    assert!(groups::get(&mut tx, group.id, Some("com.acme.bank")).await.unwrap().is_none());
    let filter = listed::ReportFilter { group: Some(group.id), ..listed::ReportFilter::default() };
    assert_eq!(listed::count(&mut tx, &filter).await.unwrap(), 3);
    drop(tx);
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(groups::get(&mut other, group.id, None).await.unwrap().is_none(), "another tenant's");
    assert!(
        groups::list(&mut other, &GroupFilter::default(), GroupOrder::Reports, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

/// Proves: late-symbols
#[tokio::test]
async fn late_symbols_move_a_report_and_every_count_with_it_once() {
    let database = Database::new().await;
    // Two of the first bug, which symbols show to be different ones.
    database.store(&[arrival(3), arrival(6)]).await;
    assert_eq!(
        all(&database).await.iter().map(|g| (g.provisional, g.reports)).collect::<Vec<_>>(),
        [(true, 2)]
    );
    let better = revised(&arrival(3), 2, image(1, false, Some(1)));
    for _ in 0..2 {
        database.store(std::slice::from_ref(&better)).await;
        let found = all(&database).await;
        let counts: Vec<_> = found.iter().map(|g| (g.provisional, g.reports, g.first_seen)).collect();
        let expected = [(true, 1, arrival(6).received_at), (false, 1, arrival(3).received_at)];
        assert_eq!(counts, expected);
    }
    database.store(&[revised(&arrival(6), 2, image(1, false, Some(1)))]).await;
    assert!(
        all(&database).await.iter().all(|g| !g.provisional && g.reports == 1),
        "the provisional one is gone"
    );
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM group_days").await, 2);
}

#[tokio::test]
async fn filters_combine_and_every_order_has_pages() {
    let database = Database::new().await;
    database.store(&(1..=30).map(arrival).collect::<Vec<_>>()).await;
    database.store(&[of_bug(40, "2.0", 0), of_bug(41, "2.0", 1)]).await;
    let by = async |filter: GroupFilter| list(&database, &filter, GroupOrder::LastSeen).await.len();
    let app = || Some("com.acme.shop".to_owned());
    assert_eq!(by(GroupFilter { app: app(), ..GroupFilter::default() }).await, 4);
    assert_eq!(
        by(GroupFilter { app: app(), version: Some("2.0".into()), ..GroupFilter::default() }).await,
        1
    );
    assert_eq!(by(GroupFilter { text: Some("BUG 2".into()), ..GroupFilter::default() }).await, 1);
    assert_eq!(by(GroupFilter { text: Some("cart.SWIFT".into()), ..GroupFilter::default() }).await, 4);
    assert_eq!(by(GroupFilter { text: Some("100%_".into()), ..GroupFilter::default() }).await, 0);
    assert_eq!(by(GroupFilter { provisional: Some(false), ..GroupFilter::default() }).await, 1);
    assert_eq!(by(GroupFilter { kind: Some("hang".into()), ..GroupFilter::default() }).await, 0);
    for order in [GroupOrder::LastSeen, GroupOrder::FirstSeen, GroupOrder::Reports] {
        let whole = list(&database, &GroupFilter::default(), order).await;
        let (mut paged, mut after): (Vec<ListedGroup>, _) = (Vec::new(), None);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        loop {
            let page = groups::list(&mut tx, &GroupFilter::default(), order, after, 1).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(order.position(last));
            paged.extend(page);
        }
        assert_eq!(paged, whole, "{order:?}");
    }
}

/// A report of which every third was made by MetricKit, of the run that KSCrash told before it.
fn of_run(n: u8) -> Arrival {
    let mut arrival = arrival(n);
    arrival.facts.run_id = Some(Uuid::from_bytes([(n + 1) / 3; 16]));
    arrival.facts.metric_kit = n.is_multiple_of(3);
    arrival
}

async fn count_once(database: &Database) -> u64 {
    reports::count_once(&database.store, 1).await.unwrap()
}

#[tokio::test]
async fn a_crash_that_metric_kit_tells_too_counts_once_whichever_came_first() {
    let database = Database::new().await;
    // Report 3 comes before the one of its run; 6 is of a run that only MetricKit tells; 12 of one with an error that
    // the app survived; 15 of one that tells how an earlier run ended.
    let mut survived = of_run(11);
    survived.facts.summary = serde_json::json!({"fatal": false});
    let mut out_of_memory = of_run(14);
    out_of_memory.facts.kind = "out_of_memory".into();
    database.store(&[of_run(3)]).await;
    assert_eq!(count_once(&database).await, 0);
    database.store(&[of_run(2), of_run(6), of_run(8), of_run(9), survived, of_run(12)]).await;
    database.store(&[out_of_memory, of_run(15)]).await;
    assert_eq!(count_once(&database).await, 2);
    assert_eq!(count_once(&database).await, 0);
    let other = "SELECT same_crash_as FROM reports WHERE same_crash_as IS NOT NULL ORDER BY report_id";
    let other: Vec<Uuid> = database.rows(other).await.iter().map(|row| row.get(0)).collect();
    assert_eq!(other, [arrival(2).report_id.uuid(), arrival(8).report_id.uuid()]);
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 7);
    check_counts(&database).await;
    // Late symbols and a deletion change nothing of that.
    database.store(&[revised(&of_run(3), 2, image(1, false, Some(1)))]).await;
    check_counts(&database).await;
    delete(&database, 9).await;
    check_counts(&database).await;
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 7);
}

/// What groups count is what is stored, after any history of arrivals, better answers, deletions, merges and splits.
#[tokio::test]
async fn every_count_is_that_of_the_stored_reports() {
    let database = Database::new().await;
    let mut seed = 1_107_u64;
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let (mut merges, mut splits, mut twice, mut most_groups) = (0, 0, 0, 0);
    for _ in 0..160 {
        let n = u8::try_from(next(25) + 1).unwrap();
        match next(11) {
            0 => delete(&database, n).await,
            1 | 2 => drop(database.store(&[revised(&of_run(n), 2, image(1, false, Some(1)))]).await),
            3 => drop(database.store(&[of_run(n), revised(&of_run(n), 2, image(1, false, Some(1)))]).await),
            4 | 5 => {
                let groups = database.rows("SELECT id, merged_into FROM groups ORDER BY id").await;
                let pick = |at: u64| groups.get(usize::try_from(at).unwrap() % groups.len().max(1));
                let (Some(one), Some(other)) = (pick(next(9)), pick(next(9))) else { continue };
                let (one, into): (Uuid, Option<Uuid>) = (one.get(0), one.get(1));
                match into {
                    Some(into) if next(2) == 0 => splits += u32::from(split(&database, into, one).await),
                    _ => merges += u32::from(merge(&database, other.get(0), one).await),
                }
            }
            6 => twice += count_once(&database).await,
            _ => drop(database.store(&[of_run(n), of_run(n % 25 + 1)]).await),
        }
        check_counts(&database).await;
        most_groups = most_groups.max(database.number("SELECT count(*) FROM groups").await);
    }
    assert!(merges > 5 && splits > 2 && twice > 2, "{merges} merges, {splits} splits, {twice} told twice");
    assert!(most_groups > 3, "{most_groups}");
}

async fn merge(database: &Database, target: Uuid, group: Uuid) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = actions::merge(&mut tx, target, &[group], None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    outcome == MergeOutcome::Done && group != target
}

async fn split(database: &Database, target: Uuid, group: Uuid) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let outcome = actions::split(&mut tx, target, group, None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    outcome == MergeOutcome::Done
}

type Count = (Uuid, i64, OffsetDateTime, OffsetDateTime);

/// Compares what groups count with what is stored: of their own, with what is merged into them, and by day.
async fn check_counts(database: &Database) {
    let row = |row: &sqlx::postgres::PgRow| -> Count { (row.get(0), row.get(1), row.get(2), row.get(3)) };
    let read = async |query: &str| database.rows(query).await.iter().map(row).collect::<Vec<Count>>();
    let counted = |id: &str| {
        format!(
            "SELECT {id}, count(*), min(r.received_at), max(r.received_at)
             FROM reports r JOIN groups g ON g.id = r.group_id GROUP BY 1 ORDER BY 1"
        )
    };
    let own =
        "SELECT id, own_reports, own_first_seen, own_last_seen FROM groups WHERE own_reports <> 0 ORDER BY 1";
    assert_eq!(read(own).await, read(&counted("g.id")).await);
    let listed = "SELECT id, reports, first_seen, last_seen FROM groups
                  WHERE merged_into IS NULL AND reports <> 0 ORDER BY 1";
    assert_eq!(read(listed).await, read(&counted("coalesce(g.merged_into, g.id)")).await);
    let by_day = "SELECT group_id, sum(reports)::bigint, now(), now() FROM group_days GROUP BY 1 ORDER BY 1";
    let days: Vec<(Uuid, i64)> = read(by_day).await.iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(days, read(&counted("g.id")).await.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>());
    check_devices(database).await;
    let grouped = "SELECT count(*) FROM reports WHERE group_id IS NOT NULL";
    let total = "SELECT coalesce(sum(own_reports), 0)::bigint FROM groups";
    assert_eq!(database.number(total).await, database.number(grouped).await);
    let counted = "SELECT count(*) FROM reports WHERE same_crash_as IS NULL";
    let days = "SELECT coalesce(sum(reports), 0)::bigint FROM app_days";
    assert_eq!(database.number(days).await, database.number(counted).await);
    let useless = "SELECT count(*) FROM groups g WHERE g.reports <= 0 AND g.merged_into IS NULL
                   AND NOT EXISTS (SELECT FROM groups m WHERE m.merged_into = g.id)";
    assert_eq!(database.number(useless).await, 0);
    let unfound = "SELECT count(*) FROM groups g WHERE g.own_reports > 0 AND NOT EXISTS (
                       SELECT FROM group_terms t WHERE t.group_id = g.id AND position(g.title IN t.terms) > 0)";
    assert_eq!(database.number(unfound).await, 0);
    let chains =
        "SELECT count(*) FROM groups g JOIN groups t ON t.id = g.merged_into WHERE t.merged_into IS NOT NULL";
    assert_eq!(database.number(chains).await, 0);
}

/// The same of the devices that groups have, and of the models and OS versions of their reports.
async fn check_devices(database: &Database) {
    let row = |row: &sqlx::postgres::PgRow| -> (Uuid, String, i64) { (row.get(0), row.get(1), row.get(2)) };
    let read = async |query: &str| {
        let mut rows: Vec<_> = database.rows(query).await.iter().map(row).collect();
        rows.sort_unstable();
        rows
    };
    let of_reports = "FROM reports r JOIN groups g ON g.id = r.group_id";
    let counted = |value: &str| format!("SELECT g.id, {value}, count(*) {of_reports} GROUP BY 1, 2");
    let by_dimension = |dimension: &str| {
        format!(
            "SELECT group_id, value || ' ' || day, reports FROM group_breakdowns WHERE dimension = '{dimension}'"
        )
    };
    let day = "(r.received_at AT TIME ZONE 'UTC')::date";
    let model = format!("coalesce(r.model, '') || ' ' || {day}");
    assert_eq!(read(&by_dimension("model")).await, read(&counted(&model)).await);
    let os = format!("concat_ws(' ', r.os_name, r.os_version) || ' ' || {day}");
    assert_eq!(read(&by_dimension("os_version")).await, read(&counted(&os)).await);
    let rows = "SELECT group_id, encode(device, 'hex'), reports FROM group_devices";
    let device = format!("{of_reports} WHERE r.device IS NOT NULL GROUP BY 1, 2");
    let device = format!("SELECT g.id, encode(r.device, 'hex'), count(*) {device}");
    assert_eq!(read(rows).await, read(&device).await);
    let distinct = |id: &str| format!("SELECT {id}, '', count(DISTINCT r.device) {of_reports} GROUP BY 1");
    let own = "SELECT id, '', own_devices FROM groups WHERE own_reports <> 0";
    assert_eq!(read(own).await, read(&distinct("g.id")).await);
    let listed = "SELECT id, '', devices FROM groups WHERE merged_into IS NULL AND reports <> 0";
    assert_eq!(read(listed).await, read(&distinct("coalesce(g.merged_into, g.id)")).await);
    let empty = "SELECT count(*) FROM groups WHERE own_reports = 0 AND own_devices <> 0";
    assert_eq!(database.number(empty).await, 0);
}
