//! Growing and new groups, and reports over time.

use crate::GroupId;
use crate::groups::{self as actions, GroupActor, MergeOutcome};
use crate::queries::groups::growing;
use crate::queries::groups::{CountScope, GroupFilter, ListedGroup};
use crate::queries::trends::{self, TrendStep, VersionFilter};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, arrival, grouping, start, tenant_id};
use time::macros::time;
use time::{Date, Duration};
use unslide_model::TenantId;

/// A report of a bug, in this version, `days` days ago.
pub fn of(n: u8, bug: u8, version: &str, days: i64) -> Arrival {
    let mut arrival = arrival(n);
    arrival.received_at -= Duration::days(days);
    arrival.facts.version = version.into();
    arrival.facts.grouping = Some(grouping(bug, false));
    arrival
}

/// Yesterday: with today, the period.
fn first() -> Date {
    start().date() - Duration::DAY
}

/// The groups that grow, as today ends.
async fn list(database: &Database, tenant: &TenantId, filter: &GroupFilter) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let now = start().replace_time(time!(23:59:59));
    growing::list_growing_groups(&mut tx, filter, first(), now).await.unwrap()
}

/// Titles, with the reports in the period and before it.
async fn growth(database: &Database, filter: &GroupFilter) -> Vec<(String, i64, i64)> {
    let found = list(database, &acme(), filter).await;
    let row = |group: ListedGroup| {
        let growth = group.growth.unwrap();
        (group.title, growth.reports, growth.reports_before)
    };
    found.into_iter().map(row).collect()
}

fn row(bug: u8, reports: i64, before: i64) -> (String, i64, i64) {
    (format!("bug {bug}"), reports, before)
}

/// Of bug 1 there are more, of bug 2 fewer; 3 and 4 are new.
async fn filled() -> Database {
    let database = Database::new().await;
    database.store(&[of(1, 1, "1.0", 2), of(2, 1, "1.0", 1), of(3, 1, "1.0", 0), of(4, 1, "1.0", 0)]).await;
    database.store(&[of(5, 1, "2.0", 0), of(6, 2, "1.0", 3), of(7, 2, "1.0", 2), of(8, 2, "2.0", 0)]).await;
    database.store(&[of(9, 3, "2.0", 1), of(10, 3, "2.0", 0), of(11, 4, "2.0", 0)]).await;
    database
}

#[tokio::test]
async fn the_group_that_grows_most_comes_first() {
    let database = filled().await;
    let all = growth(&database, &GroupFilter::default()).await;
    assert_eq!(all, [row(1, 4, 1), row(3, 2, 0), row(4, 1, 0)]);
    let version = |version: &str| {
        let scope = CountScope { version: Some(version.into()), ..CountScope::default() };
        GroupFilter { scope, ..GroupFilter::default() }
    };
    assert_eq!(growth(&database, &version("1.0")).await, [row(1, 3, 1)]);
    let of_second = growth(&database, &version("2.0")).await;
    assert_eq!(of_second[0], row(3, 2, 0));
    assert_eq!(of_second.len(), 4, "bug 2 grows in it");
    let app = |app: &str| GroupFilter { app: Some(app.into()), ..GroupFilter::default() };
    assert_eq!(growth(&database, &app("com.acme.shop")).await.len(), 3);
    assert_eq!(growth(&database, &app("com.acme.bank")).await, []);
    let text = GroupFilter { text: Some("bug 4".into()), ..GroupFilter::default() };
    assert_eq!(growth(&database, &text).await, [row(4, 1, 0)]);
    let hangs = GroupFilter { kind: Some("hang".into()), ..GroupFilter::default() };
    assert_eq!(growth(&database, &hangs).await, []);
    assert!(list(&database, &tenant_id("umbrella"), &GroupFilter::default()).await.is_empty());
}

#[tokio::test]
async fn a_day_that_is_not_over_is_compared_with_as_much_of_another() {
    let database = Database::new().await;
    let of_day = |n: u8, days| (n..n + 4).map(move |n| of(n, 1, "1.0", days)).collect::<Vec<_>>();
    database.store(&of_day(1, 1)).await;
    database.store(&of_day(11, 0)[..2]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (now, growth) in [(time!(6:00), Some((2, 1))), (time!(12:00), None), (time!(18:00), None)] {
        let now = start().replace_time(now);
        let found =
            growing::list_growing_groups(&mut tx, &GroupFilter::default(), now.date(), now).await.unwrap();
        let found = found.first().and_then(|group| group.growth);
        assert_eq!(found.map(|growth| (growth.reports, growth.reports_before)), growth, "{now}");
    }
}

#[tokio::test]
async fn what_is_merged_grows_with_its_target() {
    let database = filled().await;
    let found = list(&database, &acme(), &GroupFilter::default()).await;
    let ids: Vec<GroupId> = found.iter().map(|group| group.id).collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let actor = GroupActor { actor: "test", name: None };
    let merged = actions::merge_groups(&mut tx, ids[2], &[ids[1]], None, actor).await.unwrap();
    assert_eq!(merged, MergeOutcome::Done);
    tx.commit().await.unwrap();
    let mut both = growth(&database, &GroupFilter::default()).await;
    both.sort_unstable();
    assert_eq!(both, [row(1, 4, 1), row(4, 3, 0)]);
}

#[tokio::test]
async fn new_groups_of_a_version_are_those_that_begin_with_it() {
    let database = filled().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let from = first().midnight().assume_utc();
    let app = Some("com.acme.shop");
    for (app, version, number) in [(None, None, 2), (app, Some("2.0"), 2), (app, Some("1.0"), 0)] {
        let filter = VersionFilter { app, version };
        assert_eq!(trends::new_groups(&mut tx, filter, from, 10).await.unwrap(), number, "{filter:?}");
    }
    let first = GroupFilter { new_in: Some("1.0".into()), ..GroupFilter::default() };
    assert_eq!(growth(&database, &first).await, [row(1, 4, 1)]);
}

#[tokio::test]
async fn days_and_hours_count_the_same_crashes() {
    let database = filled().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let from = first().midnight().assume_utc();
    let to = from + Duration::days(2);
    for (step, frames) in [(TrendStep::Day, 48), (TrendStep::Hour, 0)] {
        let totals = trends::read_totals(&mut tx, VersionFilter::default(), step, from, to).await.unwrap();
        assert_eq!((totals.reports, totals.crashes, totals.frames), (8, 8, frames), "{step:?}");
        let found = trends::by_version(&mut tx, VersionFilter::default(), step, from, 1).await.unwrap();
        let count = |version: Option<&str>| -> i64 {
            found.iter().filter(|row| row.version.as_deref() == version).map(|row| row.count).sum()
        };
        assert_eq!((count(Some("2.0")), count(None)), (5, 3), "{step:?}");
        let of_first = VersionFilter { app: Some("com.acme.shop"), version: Some("1.0") };
        let found = trends::by_version(&mut tx, of_first, step, from, 1).await.unwrap();
        assert_eq!(found.iter().map(|row| row.count).sum::<i64>(), 3, "{step:?}");
    }
}
