//! Reports without a body: what names them, revises them, deletes what they are like, and asks for them again.

use crate::body_cap::fixture::{
    capped_database, complete_report, id, kept, listed, row, set_bodies, store_for, sweep,
};
use unslide_body_cap::sweep::take_turn;
use unslide_harness::database::{TestDatabase, acme};
use unslide_store::queries::report::{BodyPlace, find_like, find_report, get};
use unslide_store::reports::{Arrival, Effects, delete_report, store_arrivals};
use unslide_store::reprocess::{ReprocessFilter, create_reprocess, request_page};

async fn database_with_ten(cap: u32) -> TestDatabase {
    let database = capped_database(cap).await;
    let reports: Vec<Arrival> = (0..10).map(|n| complete_report(n, 1)).collect();
    store_for(&database, &acme(), &reports).await;
    database
}

async fn like(database: &TestDatabase, n: u16) -> Option<(unslide_model::ReportId, u32)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = find_report(&mut tx, id(n), 0).await.unwrap().unwrap();
    assert_eq!(found.place, BodyPlace::Dropped { kept_bodies: 3 });
    assert!(get(&mut tx, id(n), 0).await.unwrap().is_none());
    find_like(&mut tx, &found.listed).await.unwrap()
}

#[tokio::test]
async fn a_report_names_another_one_after_the_one_that_was_like_it_is_deleted() {
    let database = database_with_ten(3).await;
    assert_eq!(sweep(&database).await, 7);
    assert_eq!(kept(&database).await, [0, 1, 9]);
    // Of the version 1.1 is report 1; of the version 1.2 none but the newest was kept.
    assert_eq!((like(&database, 4).await, like(&database, 5).await), (Some((id(1), 0)), Some((id(0), 0))));
    let delete = async |n| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(delete_report(&mut tx, id(n), 0, None).await.unwrap());
        tx.commit().await.unwrap();
    };
    delete(1).await;
    assert_eq!(row(&database, 4).await.like_report, None);
    assert_eq!(like(&database, 4).await, Some((id(0), 0)));
    delete(0).await;
    delete(9).await;
    assert_eq!(like(&database, 4).await, None);
    assert_eq!(listed(&database).await.len(), 7);
}

#[tokio::test]
async fn a_lower_cap_leads_from_a_report_to_one_that_still_has_a_body() {
    let database = database_with_ten(5).await;
    sweep(&database).await;
    let before = row(&database, 8).await.like_report;
    set_bodies(&database, "", Some(3)).await;
    store_for(&database, &acme(), &[complete_report(11, 1), complete_report(12, 1)]).await;
    sweep(&database).await;
    assert_eq!(kept(&database).await.len(), 3);
    assert!(before.is_some());
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = find_report(&mut tx, id(8), 0).await.unwrap().unwrap();
    let (like, _) = find_like(&mut tx, &found.listed).await.unwrap().unwrap();
    assert!(get(&mut tx, like, 0).await.unwrap().is_some(), "{like} has a body");
}

#[tokio::test]
async fn a_revision_that_was_on_its_way_brings_the_body_back_until_the_next_turn() {
    let database = database_with_ten(3).await;
    sweep(&database).await;
    store_for(&database, &acme(), &[complete_report(5, 2)]).await;
    let seen = row(&database, 5).await;
    assert_eq!((seen.revision, seen.body_dropped, seen.like_report), (2, false, None));
    assert_eq!(kept(&database).await, [0, 1, 5, 9]);
    assert_eq!(sweep(&database).await, 1);
    assert_eq!(kept(&database).await, [0, 1, 9]);
}

#[tokio::test]
async fn a_revision_at_the_same_moment_keeps_its_body() {
    let database = database_with_ten(3).await;
    database.wait(time::Duration::minutes(10));
    let mut revision = database.store.tenant(&acme()).await.unwrap();
    store_arrivals(&mut revision, &[complete_report(5, 2)], Effects::Now, None).await.unwrap();
    let (store, tenant) = (database.store.clone(), acme());
    let turn = tokio::spawn(async move { take_turn(&store, &tenant).await.unwrap() });
    database.wait_for_lock().await;
    revision.commit().await.unwrap();
    assert_eq!(turn.await.unwrap(), 6);
    assert_eq!(kept(&database).await, [0, 1, 5, 9]);
    assert_eq!(row(&database, 5).await.revision, 2);
}

#[tokio::test]
async fn a_reprocess_asks_for_the_reports_with_a_body_alone() {
    let database = database_with_ten(3).await;
    sweep(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let run = create_reprocess(&mut tx, "test", &ReprocessFilter::default()).await.unwrap();
    let page = request_page(&mut tx, run.id, 100).await.unwrap().unwrap();
    assert_eq!(page.asked, 3);
    tx.rollback().await.unwrap();
}
