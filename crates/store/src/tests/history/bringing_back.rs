//! Revisions, moves to other groups, late symbols, deletions and erasures of moved reports work as those of others.

use super::{Past, today};
use crate::groups::rules::{self, SETTLING_INTERVAL};
use crate::history;
use crate::persons::PersonHash;
use crate::reports::regroup::{self, RegroupStep, Regrouped};
use crate::reports::{
    ArrivalOutcome, PersonReports, delete_report, list_person_reports, pages, rewrite_reports,
};
use crate::requests;
use crate::tests::database::{Database, acme, arrival, grouping, image, publish, revised, start};
use crate::tests::reports::segments::move_all;
use crate::{Uuid, wakes};
use time::Duration;
use unslide_model::Quality;

/// A database where the same was done without a history.
async fn without_history(count: u8) -> Database {
    let database = Database::new().await;
    database.store(&(1..=count).map(arrival).collect::<Vec<_>>()).await;
    move_all(&database, "old").await;
    database.wait(Duration::days(40));
    database
}

/// What readers have, without columns that say when.
async fn counts(database: &Database) -> String {
    database.fold(1_000, usize::MAX).await;
    let mut all = String::new();
    for table in [
        "app_days",
        "app_devices",
        "wanted_images",
        "groups",
        "group_days",
        "group_breakdowns",
        "group_devices",
        "group_terms",
    ] {
        for row in database
            .rows(&format!(
                "SELECT (to_jsonb(t) - 'updated_at' - 'created_at')::text FROM {table} t ORDER BY 1"
            ))
            .await
        {
            all.push_str(&format!("{table} {}\n", sqlx::Row::get::<String, _>(&row, 0)));
        }
    }
    all
}

#[tokio::test]
async fn a_revision_and_a_deletion_of_moved_reports_count_as_without_a_history() {
    let past = Past::with_moved(6).await;
    let plain = without_history(6).await;
    for database in [&*past, &plain] {
        let stored = database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
        assert_eq!(stored[0].outcome, ArrivalOutcome::Revised);
        let replayed = database.store(&[arrival(2)]).await;
        assert_eq!(replayed[0].outcome, ArrivalOutcome::Duplicate);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(delete_report(&mut tx, arrival(3).report_id, 0, None).await.unwrap());
        assert!(!delete_report(&mut tx, arrival(3).report_id, 0, None).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(counts(&past).await, counts(&plain).await);
    assert_eq!(past.places().await, (1, 4));
    assert_eq!(past.delete_queued().await, 2);
    assert_eq!(past.versions().await.len(), 4);
}

#[tokio::test]
async fn late_symbols_ask_for_moved_reports() {
    let past = Past::with_moved(3).await;
    let generation = publish(&past, 200, Quality::Dwarf).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let (mut from, mut requested) = (None, 0);
    loop {
        let page = wakes::request_page(&mut tx, &image(200, true, None).debug_id, generation, from, 2)
            .await
            .unwrap();
        requested += page.requested;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    tx.commit().await.unwrap();
    assert_eq!(requested, 3, "a system image of moved rows");
    assert_eq!(past.places().await, (3, 0));
    let asked: Vec<_> = (1..=3).map(|n| (arrival(n).report_id, 0)).collect();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(requests::find_sources(&mut tx, &asked).await.unwrap().len(), 3);
}

#[tokio::test]
async fn jobs_page_over_both_and_read_where_bodies_are() {
    let past = Past::with_moved(4).await;
    // Two are back, among those that are not.
    past.store(&[
        revised(&arrival(2), 2, image(1, false, Some(1))),
        revised(&arrival(4), 2, image(1, false, Some(1))),
    ])
    .await;
    assert_eq!(past.places().await, (2, 2));
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let (mut after, mut listed) = (None, Vec::new());
    loop {
        let page = pages::list_oldest_reports(&mut tx, after.as_ref(), 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.cursor);
        listed.extend(page.iter().map(|report| (report.report_id.0[0], report.app.clone())));
    }
    let app = || "com.acme.shop".to_owned();
    assert_eq!(listed, [(1, app()), (2, app()), (3, app()), (4, app())]);
    let all: Vec<_> = (1..=4).map(|n| (arrival(n).report_id, 0)).collect();
    let sources = requests::find_sources(&mut tx, &all).await.unwrap();
    let revisions: Vec<u32> = all.iter().map(|report| sources[report].revision).collect();
    assert_eq!(revisions, [1, 2, 1, 2]);
    // A rule that takes something out of a text changes a moved report in its place.
    let mut scrubbed = arrival(1);
    scrubbed.facts.reason = Some("***".into());
    assert_eq!(rewrite_reports(&mut tx, &[scrubbed]).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(past.places().await, (3, 1));
    let reason = "SELECT count(*) FROM reports WHERE reason = '***'";
    assert_eq!(past.number(reason).await, 1);
}

#[tokio::test]
async fn only_reports_that_change_their_group_come_back_for_it() {
    let past = Past::with_moved(6).await;
    let plain = without_history(6).await;
    for database in [&*past, &plain] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (set, _) = rules::set_rules(&mut tx, "key", "").await.unwrap().unwrap();
        tx.commit().await.unwrap();
        database.wait(SETTLING_INTERVAL);
        loop {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let RegroupStep::Page(page) = regroup::next(&mut tx, set.version, 4).await.unwrap() else {
                break;
            };
            let regrouped: Vec<Regrouped> = page
                .reports
                .iter()
                .map(|(report_id, variant)| Regrouped {
                    report_id: *report_id,
                    variant: *variant,
                    revision: 1,
                    // The bug of half of them.
                    grouping: Some(grouping(if report_id.0[0] <= 3 { 9 } else { report_id.0[0] % 3 }, true)),
                    terms: Vec::new(),
                })
                .collect();
            assert!(regroup::store_regrouped(&mut tx, &page, &regrouped).await.unwrap());
            tx.commit().await.unwrap();
        }
    }
    assert_eq!(past.places().await, (3, 3));
    assert_eq!(counts(&past).await, counts(&plain).await);
}

#[tokio::test]
async fn erasures_find_moved_reports_by_device_session_and_user() {
    const USER: PersonHash = [9; 16];
    let mut of_person = arrival(1);
    of_person.facts.users = vec![USER];
    let mut of_session = arrival(2);
    of_session.facts.run_id = Some(Uuid::from_u128(5));
    let past = Past::with_old_reports(&[of_person, of_session, arrival(3), arrival(7)]).await;
    assert_eq!(past.move_rows().await, 4);
    let later = past.clock_now();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let mut find = async |search| {
        let found = list_person_reports(&mut tx, search, later, 10).await.unwrap();
        found.into_iter().map(|(id, _)| id.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(find(PersonReports::User(USER)).await, [1]);
    assert_eq!(find(PersonReports::Installation([3; 16], today())).await, [3, 7]);
    assert_eq!(find(PersonReports::Sessions(&[Uuid::from_u128(5)])).await, [2]);
    for n in [1, 2, 3, 7] {
        assert!(delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
    }
    assert_eq!(
        list_person_reports(&mut tx, PersonReports::Installation([3; 16], today()), later, 10).await.unwrap(),
        [],
        "ClickHouse still has them, and no key names them"
    );
    tx.commit().await.unwrap();
    assert_eq!(past.versions().await.len(), 4);
    assert_eq!(past.delete_queued().await, 4);
    assert_eq!(past.versions().await, []);
}

/// Proves: isolation
#[tokio::test]
async fn rows_that_were_put_into_clickhouse_by_hand_do_nothing() {
    let past = Past::with_moved(2).await;
    let read = past.history.read(&acme(), &[past.versions().await[0].place]).await.unwrap().remove(0);
    // Outdated, of another tenant in the place of ours, and of a report that has no key.
    let mut outdated = read.clone();
    outdated.version -= 1;
    outdated.row = read.row.replace("it crashed", "outdated");
    let mut foreign = read.clone();
    foreign.report_id = arrival(9).report_id;
    foreign.row = read.row.replace("acme", "umbrella");
    past.history.insert(&acme(), Uuid::from_u128(2), &[outdated, foreign]).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let listed = pages::list_oldest_reports(&mut tx, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|report| report.report_id.0[0]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(
        past.number("SELECT count(*) FROM reports WHERE reason = 'it crashed' AND tenant = 'acme'").await,
        2
    );
    // A row of another tenant under our key is refused.
    assert_eq!(past.move_rows().await, 2);
    let mut swapped = past.history.read(&acme(), &[past.versions().await[0].place]).await.unwrap().remove(0);
    swapped.row = swapped.row.replace("\"tenant\": \"acme\"", "\"tenant\": \"umbrella\"");
    let version = swapped.version;
    past.history.delete(&acme(), &[past.versions().await[0]]).await.unwrap();
    past.history.insert(&acme(), Uuid::from_u128(3), &[swapped]).await.unwrap();
    assert_eq!(past.versions().await[0].version, version);
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let refused = history::bring_back_oldest(&mut tx, 10).await.unwrap_err();
    assert!(matches!(refused, crate::StoreError::Corrupt { .. }), "{refused}");
    drop(tx);
    assert_eq!(past.places().await, (0, 2));
    assert!(past.clock_now() > start());
}
