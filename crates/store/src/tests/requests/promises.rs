//! Work that carries a promise: it is done in the end, whatever dies, and what was missed is found.

use crate::jobs::{self, Failed, JobKind, JobLease, Stalled, Work};
use crate::reports::{self, Effects};
use crate::requests::{self, RequestOutcome};
use crate::tests::database::{
    Database, acme, arrival, debug_id, execute, image, publish, revised, symbols, tenant_id,
};
use crate::wakes::{self, missed, system};
use crate::{ReprocessId, slots};
use time::Duration;
use unslide_model::{ContentHash, Owner, Quality};

async fn lease(database: &Database, kind: JobKind) -> Option<JobLease> {
    let lease = Duration::seconds(30);
    jobs::lease_jobs(&database.store, &[kind], "builder", lease, 1).await.unwrap().pop()
}

/// Does one wake of the app's symbols; returns the requests that it made.
async fn wake(database: &Database) -> Option<u64> {
    let job = lease(database, JobKind::Wake).await?;
    let Work::Wake { debug_id, generation, mut from } = job.work.clone() else { panic!("{job:?}") };
    let mut requested = 0;
    loop {
        let mut tx = database.store.tenant(job.tenant().unwrap()).await.unwrap();
        let page = wakes::request_page(&mut tx, &debug_id, generation, from, 10).await.unwrap();
        requested += page.requested;
        from = page.next;
        if from.is_none() {
            jobs::complete_job(&mut tx, &job).await.unwrap();
            tx.commit().await.unwrap();
            return Some(requested);
        }
        tx.commit().await.unwrap();
    }
}

/// Does one wake of the system's symbols; returns the requests that it made.
async fn wake_system(database: &Database) -> Option<u64> {
    let job = lease(database, JobKind::WakeSystem).await?;
    let arrived =
        system::list_arrived(&mut database.store.owner(&Owner::System).await.unwrap()).await.unwrap();
    let mut requested = 0;
    for tenant in system::list_tenants(&database.store, &arrived, None, 10).await.unwrap() {
        let mut from = None;
        loop {
            let mut tx = database.store.tenant(&tenant).await.unwrap();
            let page = system::request_page(&mut tx, &arrived, from, 10).await.unwrap();
            tx.commit().await.unwrap();
            requested += page.requested;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
    }
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    assert!(!system::remove_arrived(&mut tx, &arrived).await.unwrap());
    jobs::complete_job(&mut tx, &job).await.unwrap();
    tx.commit().await.unwrap();
    Some(requested)
}

async fn publish_for_all(database: &Database, n: u8) {
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    slots::publish_symbols(&mut tx, &symbols(n, Quality::Symtab)).await.unwrap();
    tx.commit().await.unwrap();
}

async fn missed(database: &Database) -> u64 {
    missed::add_missed_wakes(&database.store).await.unwrap()
}

async fn answered(database: &Database, n: u8, answer: RequestOutcome) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let report = (arrival(n).report_id, 0);
    let sent = database.sent(report).await;
    assert!(requests::close_request(&mut tx, report, 2, answer, sent).await.unwrap().is_some());
    tx.commit().await.unwrap();
}

/// Proves: late-symbols
#[tokio::test]
async fn a_job_that_carries_a_promise_has_no_last_attempt() {
    let database = Database::new().await;
    let works = [
        Work::Wake { debug_id: debug_id(1), generation: 1, from: None },
        Work::Reprocess { id: ReprocessId::default() },
        Work::Purge { debug_id: debug_id(1), objects: Vec::new(), generation: 1 },
        Work::Erase,
    ];
    for work in &works {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        jobs::add_job(&mut tx, work).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    jobs::add_job(&mut tx, &Work::WakeSystem { from: None }).await.unwrap();
    tx.commit().await.unwrap();
    let kinds = [JobKind::Wake, JobKind::WakeSystem, JobKind::Reprocess, JobKind::Purge, JobKind::Erase];
    for death in 1..=30 {
        // Its worker dies, and the lease ends.
        for kind in kinds {
            let job = lease(&database, kind).await.unwrap_or_else(|| panic!("{kind:?} after {death} deaths"));
            assert_eq!((job.attempt, job.exhausted), (death, false), "{kind:?}");
        }
        database.wait(Duration::seconds(31));
        let pause = match death {
            0..=6 => 0,
            7..=12 => 5 << (death - 6),
            _ => 600,
        };
        if pause > 0 {
            database.wait(Duration::seconds(pause) - Duration::seconds(5));
            for kind in kinds {
                assert!(
                    lease(&database, kind).await.is_none(),
                    "{kind:?} waits {pause} s after {death} deaths"
                );
            }
            database.wait(Duration::seconds(6));
        }
        let stalled = jobs::count_stalled_jobs(&database.store).await.unwrap();
        assert_eq!(stalled.len(), if death < 6 { 0 } else { kinds.len() }, "after {death} deaths");
    }
    for kind in kinds {
        let job = lease(&database, kind).await.unwrap();
        let mut tx = database.store.owner(&job.owner).await.unwrap();
        let failed = jobs::fail_job(&mut tx, &job, "it cannot be done", true).await.unwrap();
        assert!(matches!(failed, Failed::Again(_)), "{kind:?}");
        tx.commit().await.unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM jobs WHERE status = 'failed'").await, 0);
}

/// Proves: late-symbols
#[tokio::test]
async fn attempts_count_since_the_last_page_and_a_job_that_fails_for_an_hour_shows() {
    let database = Database::new().await;
    let work = Work::Wake { debug_id: debug_id(1), generation: 1, from: None };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::add_job(&mut tx, &work).await.unwrap();
    tx.commit().await.unwrap();
    for _ in 0..5 {
        lease(&database, JobKind::Wake).await.unwrap();
        database.wait(Duration::MINUTE);
    }
    let job = lease(&database, JobKind::Wake).await.unwrap();
    assert_eq!(job.attempt, 6);
    let stalled = async || jobs::count_stalled_jobs(&database.store).await.unwrap();
    let one = [Stalled { kind: "wake".into(), jobs: 1 }];
    assert_eq!(stalled().await, one);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::record_progress(&mut tx, &job, &work).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stalled().await, []);
    database.wait(Duration::MINUTE);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let next = lease(&database, JobKind::Wake).await.unwrap();
    assert_eq!(next.attempt, 2, "one death since the page");
    assert!(jobs::record_progress(&mut tx, &job, &work).await.is_err(), "the dead one has no say any more");
    tx.rollback().await.unwrap();
    // A failure is none of these, until it has lasted.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::put_off(&mut tx, &next, "object storage is away").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stalled().await, []);
    database.wait(Duration::HOUR);
    assert_eq!(stalled().await, one);
}

/// Proves: late-symbols
#[tokio::test]
async fn wakes_that_were_lost_are_found_and_asked_for_again() {
    let database = Database::new().await;
    for n in 1..=3 {
        database.store(&[arrival(n)]).await;
    }
    let umbrella = tenant_id("umbrella");
    let mut tx = database.store.tenant(&umbrella).await.unwrap();
    reports::store_arrivals(&mut tx, &[arrival(4)], Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    publish(&database, 1, Quality::Dwarf).await;
    publish_for_all(&database, 200).await;
    execute(&database, "DELETE FROM jobs; DELETE FROM system_wakes").await;
    assert_eq!(missed(&database).await, 3 + 2, "three reports, and a day of two tenants");
    assert_eq!(missed(&database).await, 0, "jobs have it");
    assert_eq!(wake(&database).await, Some(3));
    database.wait(Duration::seconds(3));
    assert_eq!(wake_system(&database).await, Some(1), "of the others there is a request already");
    assert_eq!(missed(&database).await, 0);
    // A tenant's own symbols for a system image that the system has none for.
    let mut report = arrival(5);
    report.images = vec![image(201, true, None)];
    database.store(&[report]).await;
    publish(&database, 201, Quality::Dwarf).await;
    execute(&database, "DELETE FROM jobs").await;
    assert_eq!((missed(&database).await, wake(&database).await), (1, Some(1)));
    assert_eq!(missed(&database).await, 0);
}

/// Proves: late-symbols
#[tokio::test]
async fn in_health_no_wake_is_missed() {
    let database = Database::new().await;
    for n in 1..=5 {
        database.store(&[arrival(n)]).await;
    }
    assert_eq!(missed(&database).await, 0, "there are no symbols");
    publish(&database, 1, Quality::Symtab).await;
    publish_for_all(&database, 200).await;
    assert_eq!(missed(&database).await, 0, "jobs wait");
    assert_eq!(wake(&database).await, Some(5));
    assert_eq!(missed(&database).await, 0, "requests are on their way");
    answered(&database, 1, RequestOutcome::Unchanged).await;
    answered(&database, 2, RequestOutcome::FetchingFailed).await;
    answered(&database, 3, RequestOutcome::Dead).await;
    database.store(&[revised(&arrival(4), 2, image(1, false, Some(1)))]).await;
    database.wait(Duration::seconds(3));
    wake_system(&database).await.unwrap();
    assert_eq!(missed(&database).await, 0, "each has its answer, and the clock the one that failed");
    // A worker that did not know of the system's symbols yet: its report is asked for as it is stored.
    let stored = database.store(&[arrival(6)]).await;
    assert!(stored[0].requested.is_some());
    assert_eq!(missed(&database).await, 0);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(5).report_id, 0, None).await.unwrap());
    crate::symbols::delete_symbols(&mut tx, &debug_id(1)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(missed(&database).await, 0, "nothing is asked for what is gone");
    // During a replay its end asks.
    publish(&database, 7, Quality::Dwarf).await;
    assert_eq!(wake(&database).await, Some(0));
    let mut replayed = arrival(7);
    replayed.images = vec![image(7, false, None)];
    database.store_as(&[replayed], Effects::Deferred).await;
    assert_eq!(missed(&database).await, 0);
    while requests::ask_pending(&database.store, 10).await.unwrap() > 0 {}
    assert_eq!(missed(&database).await, 0);
}

/// A day with more reports than one turn asks for: what was answered meanwhile is not asked for again.
#[tokio::test]
async fn a_wake_of_the_system_goes_on_inside_a_day_unless_other_symbols_came() {
    let database = Database::new().await;
    for n in 1..=5 {
        database.store(&[arrival(n)]).await;
    }
    publish_for_all(&database, 200).await;
    database.wait(Duration::seconds(3));
    let arrived = async || {
        system::list_arrived(&mut database.store.owner(&Owner::System).await.unwrap()).await.unwrap()
    };
    let first = arrived().await;
    let page = async |cursor| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = system::request_page(&mut tx, &first, cursor, 2).await.unwrap();
        tx.commit().await.unwrap();
        page
    };
    let begun = page(None).await;
    assert_eq!(begun.requested, 2);
    let job = lease(&database, JobKind::WakeSystem).await.unwrap();
    let resume = system::Resume::at_cursor(&first, &acme(), begun.next.unwrap(), true);
    let mut tx = database.store.owner(&Owner::System).await.unwrap();
    jobs::record_progress(&mut tx, &job, &Work::WakeSystem { from: Some(resume) }).await.unwrap();
    jobs::postpone_job(&mut tx, &job, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
    for n in [5, 4] {
        answered(&database, n, RequestOutcome::Unchanged).await;
    }
    let job = lease(&database, JobKind::WakeSystem).await.unwrap();
    let Work::WakeSystem { from: Some(resume) } = job.work else { panic!("{job:?}") };
    assert!(resume.is_of(&first));
    assert_eq!((&resume.tenant, resume.left_out), (&acme(), true));
    let (mut cursor, mut requested) = (Some(resume.cursor), 0);
    while cursor.is_some() {
        let page = page(cursor).await;
        requested += page.requested;
        cursor = page.next;
    }
    assert_eq!(requested, 3, "neither of the two that have their answers");
    publish_for_all(&database, 201).await;
    assert!(!resume.is_of(&arrived().await));
}

#[tokio::test]
async fn a_wake_locks_the_reports_that_wait_and_no_other_of_their_ids() {
    let database = Database::new().await;
    let mut other = arrival(1);
    other.content_hash = ContentHash([99; 32]);
    other.images = vec![image(2, false, None)];
    database.store(&[arrival(1), other]).await;
    publish(&database, 1, Quality::Dwarf).await;
    let mut holder = database.store.tenant(&acme()).await.unwrap();
    sqlx::query("SELECT FROM report_keys WHERE variant = 1 FOR UPDATE")
        .fetch_one(holder.parts().0)
        .await
        .unwrap();
    let woken = tokio::time::timeout(std::time::Duration::from_secs(60), wake(&database)).await;
    assert_eq!(woken.expect("it waits for no other report"), Some(1));
    holder.rollback().await.unwrap();
}
