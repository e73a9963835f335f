//! What sends the same number of statements however many rows it is about.

use crate::objects::NewObject;
use crate::reports::{self, Arrival};
use crate::tests::database::{
    Database, acme, arrival, debug_id, execute, image, publish, symbols as published,
};
use crate::tests::kafka::dead_letters::letter;
use crate::tests::symbols::symbols_and_uploads::object;
use crate::wakes::{self, Arrived};
use crate::{Result, objects, slots, symbols, uploads, usage};
use unslide_model::{ContentHash, Owner, Quality};
use unslide_testkit::statements;

async fn counted<T>(work: impl Future<Output = Result<T>>) -> (T, usize) {
    let (done, statements) = statements::counted(work).await;
    (done.unwrap(), statements)
}

async fn cost<T>(work: impl Future<Output = Result<T>>) -> usize {
    counted(work).await.1
}

fn assert_same(costs: &[usize]) {
    assert!(costs[0] > 0, "statements are counted");
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

/// Object number `n` of a debug id, among those of as many `rows`.
fn numbered(rows: u8, n: u8, debug: u8) -> NewObject {
    let mut hash = [rows; 32];
    (hash[0], hash[1]) = (n, debug);
    NewObject { content_hash: ContentHash(hash), ..object(n, Some(debug)) }
}

#[tokio::test]
async fn symbols_are_noted_checked_shown_and_deleted_in_the_same_statements_however_many_there_are() {
    let database = Database::new().await;
    let (mut finds, mut checks, mut states, mut deletions, mut ends) =
        (vec![], vec![], vec![], vec![], vec![]);
    for rows in [1, 40] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
        for n in 0..rows {
            objects::record_found(&mut tx, upload, &[("of one debug id", &numbered(rows, n, 100))])
                .await
                .unwrap();
        }
        let ids: Vec<_> = (0..rows).map(|n| debug_id(n + 100)).collect();
        checks.push(cost(symbols::check_readiness(&mut tx, &ids)).await);
        states.push(cost(uploads::get(&mut tx, upload)).await);
        deletions.push(cost(symbols::delete_symbols(&mut tx, &debug_id(100))).await);
        let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
        let each: Vec<_> = (0..rows).map(|n| numbered(rows, n, n)).collect();
        let each: Vec<_> = each.iter().map(|object| ("each of its own", object)).collect();
        finds.push(cost(objects::record_found(&mut tx, upload, &each)).await);
        usage::lock_usage(&mut tx).await.unwrap();
        ends.push(cost(objects::give_up(&mut tx, upload)).await);
        tx.commit().await.unwrap();
    }
    for costs in [finds, checks, states, deletions, ends] {
        assert_same(&costs);
    }
    // One for each debug id that was deleted, and one for each object that was given up.
    assert_eq!(database.number("SELECT count(*) FROM jobs WHERE kind = 'purge'").await, 2 + 1 + 40);
}

#[tokio::test]
async fn a_report_is_deleted_in_the_same_statements_however_many_images_it_lacks() {
    let database = Database::new().await;
    let app = (1..=40).map(|n| image(n, false, None));
    let images = app.chain((200..=239).map(|n| image(n, true, None))).collect();
    // The third stays, so that the version does.
    database.store(&[arrival(1), Arrival { images, ..arrival(2) }, arrival(3)]).await;
    let mut costs = Vec::new();
    for n in [1, 2] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        costs.push(cost(reports::delete_report(&mut tx, arrival(n).report_id, 0, None)).await);
        tx.commit().await.unwrap();
    }
    assert_same(&costs);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_page_of_a_wake_costs_the_same_statements_however_many_reports_it_has() {
    let database = Database::new().await;
    database.store(&(1..=40).map(arrival).collect::<Vec<_>>()).await;
    let generation = publish(&database, 1, Quality::Dwarf).await;
    let (id, mut from, mut costs) = (debug_id(1), None, Vec::new());
    for limit in [2, 30] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (page, cost) = counted(wakes::request_page(&mut tx, &id, generation, from, limit)).await;
        tx.commit().await.unwrap();
        assert_eq!((page.requested, page.next.is_some()), (limit.into(), true));
        from = page.next;
        costs.push(cost);
    }
    assert_same(&costs);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_page_of_a_wake_for_system_symbols_costs_the_same_statements_however_many_reports_it_has() {
    let database = Database::new().await;
    database.store(&(1..=40).map(arrival).collect::<Vec<_>>()).await;
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    let generation = slots::publish_symbols(&mut tx, &published(200, Quality::Dwarf)).await.unwrap();
    tx.commit().await.unwrap();
    let arrived = [Arrived { debug_id: debug_id(200), generation }];
    let (mut from, mut costs) = (None, Vec::new());
    // The first finds the day.
    for limit in [1, 2, 30] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (page, cost) = counted(wakes::system::request_page(&mut tx, &arrived, from, limit)).await;
        tx.commit().await.unwrap();
        assert_eq!((page.requested, page.next.is_some()), (limit.into(), true));
        from = page.next;
        costs.push(cost);
    }
    assert_same(&costs[1..]);
}

/// Proves: late-symbols
#[tokio::test]
async fn wakes_that_were_missed_are_added_in_the_same_statements_however_many_there_are() {
    let database = Database::new().await;
    let mut costs = Vec::new();
    for (first, symbols) in [(1, 2), (10, 20)] {
        let app = (first..first + symbols).map(|n| image(n, false, None));
        let images = app.chain((first..first + symbols).map(|n| image(200 + n, true, None))).collect();
        database.store(&[Arrival { images, ..arrival(first) }]).await;
        for n in first..first + symbols {
            publish(&database, n, Quality::Dwarf).await;
            let mut tx = database.store.owner(&Owner::System).await.unwrap();
            slots::publish_symbols(&mut tx, &published(200 + n, Quality::Dwarf)).await.unwrap();
            tx.commit().await.unwrap();
        }
        // The least of several: a new connection sets itself up.
        let mut least = usize::MAX;
        for _ in 0..3 {
            execute(&database, "DELETE FROM jobs").await;
            execute(&database, "DELETE FROM system_wakes").await;
            least = least.min(cost(wakes::missed::add_missed_wakes(&database.store)).await);
        }
        costs.push(least);
    }
    assert_same(&costs);
    assert_eq!(database.number("SELECT count(*) FROM jobs WHERE kind = 'wake'").await, 22);
    assert_eq!(database.number("SELECT count(*) FROM system_wakes").await, 22);
}

#[tokio::test]
async fn reports_of_one_id_are_stored_in_the_same_statements_however_many_there_are() {
    let database = Database::new().await;
    let mut costs = Vec::new();
    for (n, variants) in [(1, 1), (2, 2), (3, 40)] {
        let first = arrival(n);
        let others =
            (0..=variants).map(|hash| Arrival { content_hash: ContentHash([hash; 32]), ..first.clone() });
        let others: Vec<Arrival> = others.collect();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        costs.push(cost(reports::store_arrivals(&mut tx, &others, reports::Effects::Now, None)).await);
        tx.commit().await.unwrap();
    }
    // The first makes the group.
    assert_same(&costs[1..]);
    assert_eq!(database.number("SELECT count(*) FROM report_keys").await, 2 + 3 + 41);
}

#[tokio::test]
async fn dead_letters_are_noted_in_the_same_statements_however_many_there_are() {
    let database = Database::new().await;
    let mut costs = Vec::new();
    for (first, letters) in [(0, 2), (1_000, 40)] {
        let of = |tenant| move |n: i64| letter(first + n, tenant);
        let own = (0..letters).map(of(Some("acme")));
        let without_tenant = (50..50 + letters).map(of(None));
        let all: Vec<_> = own.chain(without_tenant).collect();
        let mut tx = database.store.batch().await.unwrap();
        let (noted, cost) = counted(crate::dead_letters::note(&mut tx, &all)).await;
        tx.commit().await.unwrap();
        assert_eq!(noted.new, all.len() as u64);
        costs.push(cost);
    }
    assert_same(&costs);
}
