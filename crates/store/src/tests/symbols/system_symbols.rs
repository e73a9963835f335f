//! Symbols of the system: every tenant reads them, none writes them, and their coming concerns all.

use crate::jobs::{self, JobKind, JobLease, Work};
use crate::outbox::{Message, NeededSymbols};
use crate::reports::{self, Effects};
use crate::tests::database::{Database, acme, arrival, debug_id, image, symbols, tenant_id};
use crate::wakes::system::{self, Arrived};
use crate::{StoreError, Uuid, objects, requests, slots, uploads};
use sqlx::Row;
use std::collections::BTreeMap;
use time::Duration;
use unslide_model::{Owner, Quality, TenantId};

async fn publish(database: &Database, n: u8) -> u64 {
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    let generation = slots::publish_symbols(&mut tx, &symbols(n, Quality::Symtab)).await.unwrap();
    tx.commit().await.unwrap();
    generation
}

/// Stores report `n` of a tenant, which lacks these system images.
async fn store(database: &Database, tenant: &TenantId, n: u8, lacks: &[u8]) -> Option<u32> {
    let mut report = arrival(n);
    report.images = lacks.iter().map(|n| image(*n, true, None)).collect();
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let stored = reports::store_arrivals(&mut tx, &[report], Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    stored[0].requested
}

async fn lease(database: &Database) -> Option<JobLease> {
    let lease = Duration::seconds(30);
    let mut jobs = jobs::lease_jobs(&database.store, &[JobKind::WakeSystem], "w", lease, 5).await.unwrap();
    assert!(jobs.len() <= 1, "one job for everything");
    jobs.pop()
}

async fn arrived(database: &Database) -> Vec<Arrived> {
    system::list_arrived(&mut database.store.owner(&Owner::System).await.unwrap()).await.unwrap()
}

/// Pages as the builder does, and gives up after `pages` of them; the requests made, and whether it
/// came to the end.
async fn wake(database: &Database, job: &JobLease, mut pages: usize) -> (u64, bool) {
    let arrived = arrived(database).await;
    let mut requested = 0;
    for tenant in system::list_tenants(&database.store, &arrived, None, 10).await.unwrap() {
        let mut from = None;
        loop {
            if pages == 0 {
                return (requested, false);
            }
            pages -= 1;
            let mut tx = database.store.tenant(&tenant).await.unwrap();
            let page = system::request_page(&mut tx, &arrived, from, 2).await.unwrap();
            tx.commit().await.unwrap();
            requested += page.requested;
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
    }
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    assert!(!system::remove_arrived(&mut tx, &arrived).await.unwrap());
    jobs::complete_job(&mut tx, job).await.unwrap();
    tx.commit().await.unwrap();
    (requested, true)
}

/// The requests in the outbox: by tenant and report, what each was made for.
async fn requests_made(database: &Database) -> Vec<(String, u8, Vec<NeededSymbols>)> {
    let mut relay = database.relay().await;
    let unsent = relay.next(1_000).await.unwrap();
    let requests = unsent.into_iter().filter_map(|unsent| match unsent.message {
        Message::Resymbolicate { report_id, needs, .. } => {
            Some((unsent.owner.to_string(), report_id.0[0], needs))
        }
        _ => None,
    });
    let mut requests: Vec<_> = requests.collect();
    requests.sort_unstable();
    requests
}

fn need(n: u8, generation: u64) -> NeededSymbols {
    NeededSymbols { debug_id: debug_id(n), generation, system: true }
}

/// Proves: late-symbols
#[tokio::test]
async fn many_system_images_wake_each_report_of_every_tenant_once_for_all_that_it_lacks() {
    let database = Database::new().await;
    let umbrella = tenant_id("umbrella");
    for n in 1..=5 {
        store(&database, &acme(), n, &[200, 201, 202]).await;
    }
    store(&database, &umbrella, 7, &[201]).await;
    store(&database, &umbrella, 8, &[203]).await;
    for n in [200, 201] {
        assert_eq!(publish(&database, n).await, 1);
    }
    assert!(lease(&database).await.is_none(), "what else comes in the next moments is waited for");
    database.wait(Duration::seconds(3));
    let job = lease(&database).await.unwrap();
    assert_eq!((&job.owner, &job.work), (&Owner::System, &Work::WakeSystem { from: None }));
    assert!(matches!(job.tenant(), Err(StoreError::Corrupt { .. })));
    // The first one dies after a page; a second one does the rest, and asks nobody twice.
    assert_eq!(wake(&database, &job, 1).await, (2, false));
    database.wait(Duration::minutes(1));
    let job = lease(&database).await.unwrap();
    assert_eq!(wake(&database, &job, 100).await, (4, true));
    let requests = requests_made(&database).await;
    let made: Vec<_> = requests.iter().map(|(tenant, n, _)| (tenant.as_str(), *n)).collect();
    assert_eq!(made, [("acme", 1), ("acme", 2), ("acme", 3), ("acme", 4), ("acme", 5), ("umbrella", 7)]);
    for (tenant, _, needs) in requests {
        let wanted = if tenant == "acme" { vec![need(200, 1), need(201, 1)] } else { vec![need(201, 1)] };
        assert_eq!(needs, wanted, "{tenant}");
    }
    database.wait(Duration::minutes(1));
    assert!(lease(&database).await.is_none());
    // The same again finds nobody: all have seen it.
    publish(&database, 203).await;
    database.wait(Duration::minutes(1));
    let job = lease(&database).await.unwrap();
    assert_eq!(wake(&database, &job, 100).await, (1, true));
}

/// Proves: late-symbols
#[tokio::test]
async fn what_comes_while_a_wake_runs_gets_a_wake_of_its_own() {
    let database = Database::new().await;
    store(&database, &acme(), 1, &[200]).await;
    store(&database, &acme(), 2, &[201]).await;
    publish(&database, 200).await;
    database.wait(Duration::seconds(3));
    let job = lease(&database).await.unwrap();
    let before = arrived(&database).await;
    publish(&database, 201).await;
    // The job knows nothing of it, and leaves it to the next.
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    assert!(system::remove_arrived(&mut tx, &before).await.unwrap());
    jobs::complete_job(&mut tx, &job).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::seconds(3));
    let job = lease(&database).await.unwrap();
    assert_eq!(arrived(&database).await, [Arrived { debug_id: debug_id(201), generation: 1 }]);
    assert_eq!(wake(&database, &job, 10).await, (1, true));
}

/// Both orders of an indexer and a publisher that meet.
/// Proves: late-symbols
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_indexer_and_a_publisher_of_system_symbols_never_miss_each_other() {
    let database = Database::new().await;
    let blocked = std::time::Duration::from_millis(300);
    // The indexer is first: the publisher waits for its waits.
    let mut report = arrival(1);
    report.images = vec![image(200, true, None)];
    let mut indexer = database.store.tenant(&acme()).await.unwrap();
    let stored = reports::store_arrivals(&mut indexer, &[report], Effects::Now, None).await.unwrap();
    assert_eq!(stored[0].requested, None);
    let mut publishing = Box::pin(publish(&database, 200));
    assert!(tokio::time::timeout(blocked, &mut publishing).await.is_err(), "it waits");
    indexer.commit().await.unwrap();
    assert_eq!(publishing.await, 1);
    database.wait(Duration::seconds(3));
    let job = lease(&database).await.unwrap();
    assert_eq!(wake(&database, &job, 10).await, (1, true));
    // The publisher is first: the indexer waits, and then sees the new generation.
    let mut publisher = database.store.owner(&Owner::System).await.unwrap();
    slots::publish_symbols(&mut publisher, &symbols(201, Quality::Symtab)).await.unwrap();
    let umbrella = tenant_id("umbrella");
    let mut indexing = Box::pin(store(&database, &umbrella, 2, &[201]));
    assert!(tokio::time::timeout(blocked, &mut indexing).await.is_err(), "it waits");
    publisher.commit().await.unwrap();
    assert_eq!(indexing.await, Some(2));
}

#[tokio::test]
async fn a_report_asks_the_symbols_that_would_answer() {
    let database = Database::new().await;
    // The tenant's own symbols of a system image, then the system's.
    crate::tests::database::publish(&database, 200, Quality::Symtab).await;
    crate::tests::database::publish(&database, 200, Quality::Dwarf).await;
    assert_eq!(store(&database, &acme(), 1, &[200]).await, Some(2));
    publish(&database, 200).await;
    assert_eq!(store(&database, &acme(), 2, &[200]).await, Some(2));
    // An image of the app's own is none of the system's, whatever it is called.
    publish(&database, 1).await;
    let mut own = arrival(3);
    own.images = vec![image(1, false, None)];
    assert_eq!(database.store(&[own]).await[0].requested, None);
    let requests: BTreeMap<u8, Vec<NeededSymbols>> =
        requests_made(&database).await.into_iter().map(|(_, n, needs)| (n, needs)).collect();
    assert_eq!(requests[&1], [NeededSymbols { debug_id: debug_id(200), generation: 2, system: false }]);
    assert_eq!(requests[&2], [need(200, 1)]);
}

#[tokio::test]
async fn a_replay_asks_at_its_end_for_system_symbols_that_came() {
    let database = Database::new().await;
    publish(&database, 200).await;
    let mut report = arrival(1);
    report.images = vec![image(200, true, None)];
    database.store_as(&[report], Effects::Deferred).await;
    assert_eq!(requests_made(&database).await, []);
    assert_eq!(requests::ask_pending(&database.store, 10).await.unwrap(), 1);
    assert_eq!(requests_made(&database).await, [("acme".to_owned(), 1, vec![need(200, 1)])]);
}

/// Proves: isolation
#[tokio::test]
async fn tenants_read_the_systems_slots_and_write_nothing_of_it() {
    let database = Database::new().await;
    publish(&database, 200).await;
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    let upload = uploads::create_upload(&mut tx, Some("UIKit"), None).await.unwrap();
    objects::record_found(
        &mut tx,
        upload,
        &[("UIKit", &crate::tests::symbols::symbols_and_uploads::object(9, Some(200)))],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let known = [debug_id(200), debug_id(201)];
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let newest = slots::find_answering(&mut tx, &known).await.unwrap();
    assert_eq!((newest.own, newest.system), (BTreeMap::new(), BTreeMap::from([(debug_id(200), 1)])));
    for table in ["uploads", "objects", "upload_objects", "jobs", "outbox"] {
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE tenant = '~system'"));
        let seen = sqlx::query(query).fetch_one(tx.parts().0).await.unwrap();
        assert_eq!(seen.get::<i64, _>(0), 0, "{table}");
    }
    for change in [
        "UPDATE symbol_slots SET quality = 0 WHERE tenant = '~system'",
        "DELETE FROM symbol_slots WHERE tenant = '~system'",
    ] {
        let done = sqlx::query(change).execute(tx.parts().0).await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{change}");
    }
    let inserted =
        sqlx::query("INSERT INTO symbol_slots (tenant, debug_id, updated_at) VALUES ('~system', $1, now())")
            .bind(Uuid::nil())
            .execute(tx.parts().0)
            .await;
    let code = inserted
        .unwrap_err()
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .unwrap()
        .into_owned();
    assert_eq!(code, "42501");
    // An owner is a tenant that there is, or the system.
    let mut nobody = database.store.tenant(&tenant_id("nobody")).await.unwrap();
    assert!(uploads::create_upload(&mut nobody, None, None).await.is_err());
}
