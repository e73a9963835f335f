//! Groups by version and period: what they count, and in which order.

use super::growing::of;
use crate::groups::{self as actions, GroupActor, MergeOutcome};
use crate::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};
use crate::queries::trends;
use crate::reports::{self, Arrival};
use crate::tests::database::{Database, acme, arrival, start, tenant_id};
use sqlx::Row;
use std::collections::BTreeMap;
use time::{Date, Duration};
use unslide_testkit::statements;

const ORDERS: [GroupOrder; 3] = [GroupOrder::LastSeen, GroupOrder::FirstSeen, GroupOrder::Reports];

fn scope(version: Option<&str>, days: Option<(i64, i64)>) -> GroupFilter {
    let day = |ago: i64| -> Date { start().date() - Duration::days(ago) };
    let scope = CountScope {
        version: version.map(str::to_owned),
        from_day: days.map(|(from, _)| day(from)),
        to_day: days.map(|(_, to)| day(to)),
    };
    GroupFilter { scope, ..GroupFilter::default() }
}

/// Every version and period, and some of both.
fn scopes() -> Vec<GroupFilter> {
    let versions = [None, Some("1.0"), Some("2.0"), Some("3.0")];
    let periods = [None, Some((0, 0)), Some((1, 0)), Some((2, 1)), Some((9, 5))];
    let scopes = versions.iter().flat_map(|version| periods.iter().map(|days| scope(*version, *days)));
    scopes.filter(|filter| !filter.scope.is_everything()).collect()
}

async fn list(database: &Database, filter: &GroupFilter, order: GroupOrder) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    groups::list_groups(&mut tx, filter, order, None, 100).await.unwrap()
}

/// Bug 1 has most reports of 1.0, bug 2 of 2.0, and bug 3 is new in 2.0. Two reports of bug 2 are of one device.
async fn filled() -> Database {
    let database = Database::new().await;
    database.store(&[of(1, 1, "1.0", 2), of(2, 1, "1.0", 2), of(3, 1, "1.0", 1), of(4, 1, "2.0", 0)]).await;
    database.store(&[of(5, 2, "1.0", 0), of(6, 2, "2.0", 1), of(18, 2, "2.0", 1), of(7, 2, "2.0", 0)]).await;
    database.store(&[of(8, 3, "2.0", 0), of(9, 3, "2.0", 0)]).await;
    database
}

/// Reports and devices of each group, from the reports themselves.
async fn counted(database: &Database, filter: &GroupFilter) -> BTreeMap<crate::GroupId, (i64, i64)> {
    let CountScope { version, from_day, to_day } = &filter.scope;
    let version = version.as_ref().map_or("true".to_owned(), |version| format!("r.version = '{version}'"));
    let day = "(r.received_at AT TIME ZONE 'UTC')::date";
    let from = from_day.map_or("true".to_owned(), |from| format!("{day} >= '{from}'"));
    let to = to_day.map_or("true".to_owned(), |to| format!("{day} <= '{to}'"));
    let rows = database
        .rows(&format!(
            "SELECT coalesce(g.merged_into, g.id), count(*), count(DISTINCT r.device)
             FROM reports r JOIN groups g ON g.tenant = r.tenant AND g.id = r.group_id
             WHERE {version} AND {from} AND {to} GROUP BY 1"
        ))
        .await;
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

/// Checks each list of each scope: its groups, their counts, their order and its pages.
async fn check(database: &Database) {
    for (filter, order) in scopes().iter().flat_map(|filter| ORDERS.map(|order| (filter, order))) {
        let whole = list(database, filter, order).await;
        let found = whole.iter().map(|group| (group.id, (group.reports, group.affected_devices)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), counted(database, filter).await, "{filter:?}");
        let positions: Vec<_> = whole.iter().map(|group| order.position(group)).collect();
        assert!(positions.is_sorted_by(|one, next| one > next), "{filter:?} {order:?}: {positions:?}");
        let (mut paged, mut after): (Vec<ListedGroup>, _) = (Vec::new(), None);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        loop {
            let page = groups::list_groups(&mut tx, filter, order, after, 1).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(order.position(last));
            paged.extend(page);
        }
        assert_eq!(paged, whole, "{filter:?} {order:?}");
    }
}

/// Titles, reports and all reports, in the order of reports.
async fn ranked(database: &Database, filter: &GroupFilter) -> Vec<(String, i64, Option<i64>)> {
    let found = list(database, filter, GroupOrder::Reports).await;
    found.into_iter().map(|group| (group.title, group.reports, group.all_reports)).collect()
}

fn row(bug: u8, reports: i64, all: i64) -> (String, i64, Option<i64>) {
    (format!("bug {bug}"), reports, Some(all))
}

#[tokio::test]
async fn groups_of_a_version_and_a_period_count_and_rank_by_it() {
    let database = filled().await;
    assert_eq!(ranked(&database, &scope(Some("1.0"), None)).await, [row(1, 3, 4), row(2, 1, 4)]);
    let newer = [row(2, 3, 4), row(3, 2, 2), row(1, 1, 4)];
    assert_eq!(ranked(&database, &scope(Some("2.0"), None)).await, newer);
    assert_eq!(ranked(&database, &scope(None, Some((2, 2)))).await, [row(1, 2, 4)]);
    assert_eq!(ranked(&database, &scope(Some("2.0"), Some((1, 1)))).await, [row(2, 2, 4)]);
    assert_eq!(ranked(&database, &scope(Some("3.0"), None)).await, []);
    let everything = list(&database, &GroupFilter::default(), GroupOrder::Reports).await;
    assert!(everything.iter().all(|group| group.all_reports.is_none()));
    // Nothing is folded, then a part, then all.
    for transactions in [0, 1, usize::MAX] {
        database.fold(4, transactions).await;
        check(&database).await;
    }
    assert_eq!(database.number("SELECT count(*) FROM group_deltas").await, 0);
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    for order in ORDERS {
        let found = groups::list_groups(&mut other, &scope(Some("1.0"), None), order, None, 9).await.unwrap();
        assert_eq!(found, [], "another tenant's");
    }
}

#[tokio::test]
async fn counts_of_a_version_follow_merges_splits_and_deletions() {
    let database = filled().await;
    let by_title = list(&database, &GroupFilter::default(), GroupOrder::Reports).await;
    let id = |bug: u8| by_title.iter().find(|group| group.title == format!("bug {bug}")).unwrap().id;
    let actor = GroupActor { actor: "test", name: None };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let merged = actions::merge_groups(&mut tx, id(1), &[id(3)], None, actor).await.unwrap();
    assert_eq!(merged, MergeOutcome::Done);
    tx.commit().await.unwrap();
    check(&database).await;
    let newer = list(&database, &scope(Some("2.0"), None), GroupOrder::Reports).await;
    assert_eq!(newer.iter().map(|group| group.reports).collect::<Vec<_>>(), [3, 3]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(actions::split_group(&mut tx, id(1), id(3), None, actor).await.unwrap(), MergeOutcome::Done);
    // One of two reports of one device, and the last one of a version.
    for n in [18, 5] {
        reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap();
    }
    tx.commit().await.unwrap();
    check(&database).await;
    assert_eq!(ranked(&database, &scope(Some("1.0"), None)).await, [row(1, 3, 4)]);
}

#[tokio::test]
async fn the_trend_of_a_version_is_of_its_reports_alone() {
    let database = filled().await;
    let groups = list(&database, &GroupFilter::default(), GroupOrder::Reports).await;
    let ids: Vec<_> = groups.iter().map(|group| group.id).collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let first = start().date() - Duration::days(2);
    for (version, reports) in [(None, 10), (Some("1.0"), 4), (Some("2.0"), 6), (Some("3.0"), 0)] {
        let rows = trends::read_group_trends(&mut tx, &ids, version, first).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.reports).sum::<i64>(), reports, "{version:?}");
    }
}

#[tokio::test]
async fn the_hours_and_the_versions_of_a_group_have_those_merged_into_it_folded_or_not() {
    let database = filled().await;
    let groups = list(&database, &GroupFilter::default(), GroupOrder::Reports).await;
    let id = |bug: u8| groups.iter().find(|group| group.title == format!("bug {bug}")).unwrap().id;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    actions::merge_groups(&mut tx, id(1), &[id(3)], None, actor).await.unwrap();
    tx.commit().await.unwrap();
    let hour = start().truncate_to_hour();
    let first = start().date() - Duration::days(2);
    for transactions in [0, 1, usize::MAX] {
        database.fold(4, transactions).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let hours = trends::read_group_hours(&mut tx, id(1), hour - Duration::hours(24)).await.unwrap();
        let hours: Vec<_> = hours.iter().map(|one| (one.hour, one.reports)).collect();
        assert_eq!(hours, [(hour, 3), (hour - Duration::DAY, 1)]);
        let mut read = async |version: Option<&'static str>, most: u32| {
            let rows = trends::read_group_versions(&mut tx, id(1), version, first, most).await.unwrap();
            let ago = |at: time::OffsetDateTime| (start().date() - at.date()).whole_days();
            rows.into_iter().map(|row| (ago(row.at), row.version, row.count)).collect::<Vec<_>>()
        };
        let named = |version: &str| Some(version.to_owned());
        let both = [(2, named("1.0"), 2), (1, named("1.0"), 1), (0, named("2.0"), 3)];
        assert_eq!(read(None, 2).await, both);
        assert_eq!(read(Some("2.0"), 2).await, [(0, named("2.0"), 3)]);
        assert_eq!(read(None, 1).await, [(2, named("1.0"), 2), (1, named("1.0"), 1), (0, None, 3)]);
    }
}

#[tokio::test]
async fn a_list_by_version_costs_the_same_statements_however_many_groups_it_has() {
    let database = Database::new().await;
    database.store(&(1..=30).map(|n| of(n, n, "1.0", 0)).collect::<Vec<Arrival>>()).await;
    for order in ORDERS {
        let mut costs = Vec::new();
        for limit in [1, 30] {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let filter = scope(Some("1.0"), Some((1, 0)));
            let (found, cost) =
                statements::counted(groups::list_groups(&mut tx, &filter, order, None, limit)).await;
            assert_eq!(found.unwrap().len(), limit as usize);
            costs.push(cost);
        }
        assert!(costs[0] > 0 && costs[0] == costs[1], "{order:?}: {costs:?}");
    }
}
