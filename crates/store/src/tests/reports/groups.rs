//! Groups: what they count, whatever happens to their reports.

use crate::Uuid;
use crate::queries::groups::{self, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::reports as listed;
use crate::reports::{self, Arrival};
use crate::tests::database::{Database, acme, arrival, grouping, image, revised, tenant_id};
use sqlx::Row;
use time::Duration;

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
fn of_bug(n: u8, version: &str, days: i64) -> Arrival {
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
    database.store(&[of_bug(1, "1.0", 2), of_bug(2, "1.1", 0), of_bug(3, "1.1", 0), without]).await;
    let found = all(&database).await;
    let [group] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((group.app.as_str(), group.title.as_str(), group.reports), ("com.acme.shop", "bug 7", 3));
    assert_eq!((group.first_version.as_str(), group.last_version.as_str()), ("1.0", "1.1"));
    assert_eq!((group.first_seen, group.last_seen), (of_bug(1, "", 2).received_at, arrival(3).received_at));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let detail = groups::get(&mut tx, group.id, Some("com.acme.shop")).await.unwrap().unwrap();
    let versions: Vec<_> = detail.versions.iter().map(|one| (one.version.as_str(), one.reports)).collect();
    assert_eq!(versions, [("1.1", 2), ("1.0", 1)]);
    assert_eq!(detail.days.iter().map(|day| day.reports).collect::<Vec<_>>(), [2, 1]);
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

/// What groups count is what is stored, after any history of arrivals, better answers and deletions.
#[tokio::test]
async fn every_count_is_that_of_the_stored_reports() {
    let database = Database::new().await;
    let mut seed = 1_107_u64;
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    for _ in 0..60 {
        let n = u8::try_from(next(25) + 1).unwrap();
        match next(8) {
            0 => delete(&database, n).await,
            1 | 2 => drop(database.store(&[revised(&arrival(n), 2, image(1, false, Some(1)))]).await),
            3 => drop(database.store(&[arrival(n), revised(&arrival(n), 2, image(1, false, Some(1)))]).await),
            _ => drop(database.store(&[arrival(n), arrival(n % 25 + 1)]).await),
        }
    }
    let counted =
        "SELECT group_id, count(*), min(received_at), max(received_at) FROM reports GROUP BY 1 ORDER BY 1";
    let stored = "SELECT id, reports, first_seen, last_seen FROM groups ORDER BY 1";
    let by_day = "SELECT group_id, sum(reports)::bigint FROM group_days GROUP BY 1 ORDER BY 1";
    let read = async |query: &str| database.rows(query).await;
    let row = |row: &sqlx::postgres::PgRow| {
        (
            row.get::<Uuid, _>(0),
            row.get::<i64, _>(1),
            row.get::<time::OffsetDateTime, _>(2),
            row.get::<time::OffsetDateTime, _>(3),
        )
    };
    let expected: Vec<_> = read(counted).await.iter().map(row).collect();
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(read(stored).await.iter().map(row).collect::<Vec<_>>(), expected);
    let days: Vec<(Uuid, i64)> = read(by_day).await.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(days, expected.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>());
}
