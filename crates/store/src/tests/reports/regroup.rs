//! Stored reports that move between groups because the tenant's rules changed.

use super::groups::of_bug;
use crate::groups::rules::{self, RegroupStatus, SETTLING_INTERVAL};
use crate::groups::{self, GroupActor, GroupStatus, GroupUpdate};
use crate::jobs::{self, JobKind};
use crate::queries::groups::{self as listed, GroupFilter, GroupOrder, ListedGroup};
use crate::report_rows::list_newest_reports;
use crate::reports::regroup::{self, RegroupPage, RegroupStep, Regrouped};
use crate::tests::database::{Database, acme, grouping, image, revised, tenant_id};
use time::Duration;

const ACTOR: GroupActor<'static> = GroupActor { actor: "test", name: None };

async fn set(database: &Database, text: &str) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (rules, _) = rules::set_rules(&mut tx, "key", text).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    rules.version
}

async fn next(database: &Database, version: u64) -> RegroupStep {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    regroup::next(&mut tx, version, 2).await.unwrap()
}

async fn page(database: &Database, version: u64) -> RegroupPage {
    match next(database, version).await {
        RegroupStep::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// The page's reports, all of one bug.
fn all_of(page: &RegroupPage, bug: u8) -> Vec<Regrouped> {
    let of = |(report_id, variant): &_| Regrouped {
        report_id: *report_id,
        variant: *variant,
        revision: 1,
        grouping: Some(grouping(bug, false)),
        terms: vec![format!("moved_to_{bug}")],
    };
    page.reports.iter().map(of).collect()
}

async fn store(database: &Database, page: &RegroupPage, regrouped: &[Regrouped]) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stored = regroup::store_regrouped(&mut tx, page, regrouped).await.unwrap();
    if stored {
        tx.commit().await.unwrap();
    }
    stored
}

/// Moves every report to the bug, up to the pause in which late ones may come.
async fn move_all(database: &Database, version: u64, bug: u8) {
    while let RegroupStep::Page(page) = next(database, version).await {
        assert!(store(database, &page, &all_of(&page, bug)).await);
    }
}

async fn list(database: &Database) -> Vec<ListedGroup> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    listed::list_groups(&mut tx, &GroupFilter::default(), GroupOrder::FirstSeen, None, 100).await.unwrap()
}

async fn counts(database: &Database) -> Vec<(String, i64)> {
    let mut counts: Vec<_> =
        list(database).await.into_iter().map(|group| (group.title, group.reports)).collect();
    counts.sort();
    counts
}

fn of(bug: u8, reports: i64) -> (String, i64) {
    (format!("bug {bug}"), reports)
}

/// Three reports of bug 7 and two of bug 8.
async fn two_bugs(database: &Database) {
    let of_other = |n| {
        let mut arrival = of_bug(n, "1.1", 1);
        arrival.facts.grouping = Some(grouping(8, false));
        arrival
    };
    let of_one = |n| of_bug(n, "1.0", 0);
    database.store(&[of_one(1), of_one(2), of_one(3), of_other(4), of_other(5)]).await;
}

#[tokio::test]
async fn reports_move_page_by_page_and_back_and_groups_keep_their_state() {
    let database = Database::new().await;
    two_bugs(&database).await;
    let before = list(&database).await;
    let seven = before.iter().find(|group| group.title == "bug 7").unwrap().clone();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let resolved = GroupUpdate { status: Some(GroupStatus::Resolved), ..GroupUpdate::default() };
    groups::update_group(&mut tx, seven.id, None, ACTOR, &resolved).await.unwrap();
    tx.commit().await.unwrap();
    let version = set(&database, "ignore function f").await;
    // A page is stored once, whichever process has read it.
    let first = page(&database, version).await;
    assert_eq!(first.reports.len(), 2);
    assert!(store(&database, &first, &all_of(&first, 8)).await);
    assert!(!store(&database, &first, &all_of(&first, 8)).await);
    move_all(&database, version, 8).await;
    assert_eq!(counts(&database).await, [of(8, 5)]);
    let moved = "SELECT count(*) FROM group_terms WHERE position('moved_to_8' IN terms) > 0";
    assert_eq!(database.number(moved).await, 1);
    let merged = &list(&database).await[0];
    assert_eq!((merged.first_version.as_str(), merged.last_version.as_str()), ("1.1", "1.0"));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let now = rules::get(&mut tx).await.unwrap().unwrap();
    assert_eq!((now.version, now.status, now.moved, now.unread), (1, RegroupStatus::Settling, 3, 0));
    drop(tx);
    // The rules of before: bug 7 is as it was, resolved.
    let version = set(&database, "").await;
    while let RegroupStep::Page(page) = next(&database, version).await {
        let back = all_of(&page, 7).into_iter().map(|one| Regrouped {
            grouping: Some(grouping(if one.report_id.0[0] > 3 { 8 } else { 7 }, false)),
            ..one
        });
        assert!(store(&database, &page, &back.collect::<Vec<_>>()).await);
    }
    let after = list(&database).await;
    let again = after.iter().find(|group| group.id == seven.id).unwrap();
    assert_eq!((again.status, again.reports), (GroupStatus::Resolved, 3));
    let spans = |groups: &[ListedGroup]| -> Vec<_> {
        let of = |one: &ListedGroup| (one.id, one.first_seen, one.last_seen, one.last_version.clone());
        groups.iter().map(of).collect()
    };
    assert_eq!(spans(&after), spans(&before));
}

#[tokio::test]
async fn nothing_but_the_group_changes_and_a_newer_revision_stays() {
    let database = Database::new().await;
    two_bugs(&database).await;
    let version = set(&database, "ignore function f").await;
    let read = page(&database, version).await;
    // While bodies were read, a report got its next revision.
    let newer = revised(&of_bug(4, "1.1", 1), 2, image(1, false, Some(1)));
    let own = newer.facts.grouping.clone().unwrap().title;
    database.store(&[newer]).await;
    assert!(store(&database, &read, &all_of(&read, 7)).await);
    assert_eq!(counts(&database).await, [(own, 1), of(7, 4)]);
    let rows = "SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'";
    assert_eq!(database.number(rows).await, 0, "no report is symbolicated again");
}

#[tokio::test]
async fn reports_that_came_late_are_looked_at_again_and_other_rules_end_the_job() {
    let database = Database::new().await;
    two_bugs(&database).await;
    let version = set(&database, "ignore function f").await;
    move_all(&database, version, 8).await;
    let RegroupStep::Wait(pause) = next(&database, version).await else { panic!("it does not wait") };
    assert_eq!(pause, SETTLING_INTERVAL);
    // Symbolicated by the rules of before.
    database.store(&[of_bug(6, "1.2", 0)]).await;
    database.wait(SETTLING_INTERVAL);
    move_all(&database, version, 8).await;
    assert_eq!(counts(&database).await, [of(8, 6)]);
    assert!(matches!(next(&database, version).await, RegroupStep::Over));
    let newer = set(&database, "").await;
    assert!(matches!(next(&database, version).await, RegroupStep::Over));
    let jobs = jobs::lease_jobs(&database.store, &[JobKind::Regroup], "builder", Duration::MINUTE, 10)
        .await
        .unwrap();
    assert_eq!((newer, jobs.len()), (2, 2));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = list_newest_reports(&mut tx, 2).await.unwrap();
    assert_eq!(found.iter().map(|one| one.report_id.0[0]).collect::<Vec<_>>(), [6, 3]);
    drop(tx);
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(rules::get(&mut other).await.unwrap().is_none());
    assert!(list_newest_reports(&mut other, 10).await.unwrap().is_empty());
}
