//! Ten thousand reports that wait for one dSYM.

use crate::jobs::{self, JobKind, JobLease, Work};
use crate::reports::ArrivalOutcome;
use crate::tests::database::{Database, acme, arrival, debug_id, publish};
use crate::{requests, wakes};
use sqlx::Row;
use time::Duration;
use tokio::time::Instant;
use unslide_model::Quality;

const REPORTS: i64 = 10_000;

/// Reports that lack the symbols of image 1, put straight into the tables.
async fn fill(database: &Database) {
    let day = crate::tests::database::start();
    let series = format!("generate_series(1, {REPORTS}) AS n");
    let (id, at) = ("md5(n::text)::uuid", format!("'{day}'::timestamptz + n * interval '1 millisecond'"));
    let image = debug_id(1);
    for statement in [
        format!(
            "INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision)
             SELECT 'acme', {id}, 0, sha256(n::text::bytea), {at}, 1 FROM {series}"
        ),
        format!(
            "INSERT INTO reports (tenant, received_at, report_id, variant, revision, app, version, build, type, status,
                 summary, frames_total, frames_symbolicated, frames_device, frames_device_app,
                 frames_missing, symbols_missing, system_images, wanted, stored_at)
             SELECT 'acme', {at}, {id}, 0, 1, 'com.acme.shop', '1.0', '100', 'mach', 'partial', '{{}}', 10, 4, 2, 0,
                    4, true, '{{}}', '{{}}', '{day}' FROM {series}"
        ),
        format!(
            "INSERT INTO report_bodies (tenant, received_at, report_id, variant, revision, size, body, stored_at)
             SELECT 'acme', {at}, {id}, 0, 1, 2, '\\x00', '{day}' FROM {series}"
        ),
        format!(
            "INSERT INTO waits (tenant, debug_id, received_at, report_id, variant, seen_generation)
             SELECT 'acme', '{image}', {at}, {id}, 0, 0 FROM {series}"
        ),
    ] {
        database.rows(&statement).await;
    }
}

async fn lease(database: &Database) -> JobLease {
    let lease = Duration::seconds(30);
    let mut jobs = jobs::lease_jobs(&database.store, &[JobKind::Wake], "builder", lease, 1).await.unwrap();
    jobs.pop().unwrap()
}

/// Pages as a builder does; the one after `pages` pages dies before it commits. Returns the number of reports
/// that were looked at and of requests that were made, as far as they were committed, and whether it came to
/// the end.
async fn wake(database: &Database, job: &JobLease, pages: usize) -> (u64, u64, bool) {
    let Work::Wake { debug_id, generation, mut from } = job.work else { panic!("{job:?}") };
    let (mut waiting, mut requested) = (0, 0);
    for _ in 0..pages {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = wakes::request_page(&mut tx, &debug_id, generation, from, 200).await.unwrap();
        from = page.next;
        match from {
            None => jobs::complete_job(&mut tx, job).await.unwrap(),
            Some(_) => {
                let rest = Work::Wake { debug_id, generation, from };
                jobs::record_progress(&mut tx, job, &rest).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        waiting += page.waiting;
        requested += page.requested;
        if from.is_none() {
            return (waiting, requested, true);
        }
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    wakes::request_page(&mut tx, &debug_id, generation, from, 200).await.unwrap();
    drop(tx);
    (waiting, requested, false)
}

/// Builders die in their first page, one after the other, more than any job that may be given up bears.
async fn die(database: &Database, mut attempt: u32) {
    for _ in 0..=jobs::MAX_ATTEMPTS {
        let job = lease(database).await;
        assert_eq!(job.attempt, attempt);
        assert_eq!(wake(database, &job, 0).await, (0, 0, false));
        attempt += 1;
        database.wait(Duration::minutes(1));
    }
}

/// Requests in the outbox, and of how many reports.
async fn requests_made(database: &Database) -> (i64, i64) {
    let row = database
        .rows("SELECT count(*), count(DISTINCT message ->> 'report_id') FROM outbox WHERE kind = 'resymbolicate'")
        .await;
    (row[0].get(0), row[0].get(1))
}

/// Proves: late-symbols
#[tokio::test]
async fn ten_thousand_reports_are_asked_for_once_each_however_often_builders_die() {
    let database = Database::new().await;
    fill(&database).await;
    publish(&database, 1, Quality::Symtab).await;
    die(&database, 1).await;
    let first = lease(&database).await;
    let begun = Instant::now();
    assert_eq!(wake(&database, &first, 20).await, (4_000, 4_000, false));
    // It was killed between two pages. Its lease ends, and the others go on where it was.
    database.wait(Duration::minutes(1));
    die(&database, 2).await;
    let second = lease(&database).await;
    assert_eq!(wake(&database, &second, 10).await, (2_000, 2_000, false));
    database.wait(Duration::minutes(1));
    let third = lease(&database).await;
    assert_eq!((third.id, third.attempt), (first.id, 2));
    assert_eq!(wake(&database, &third, 1_000).await, (4_000, 4_000, true));
    let seconds = begun.elapsed().as_secs_f64();
    println!("{REPORTS} reports asked for in {seconds:.2} s: {:.0} a second", 10_000.0 / seconds);
    assert_eq!(requests_made(&database).await, (REPORTS, REPORTS));
    assert_eq!(wakes::missed::add_missed_wakes(&database.store).await.unwrap(), 0);
    // More uploads of the same debug id, as fast as they come: a report has one request at a time.
    for quality in [Quality::Dwarf, Quality::DwarfSymtab] {
        publish(&database, 1, quality).await;
        let job = lease(&database).await;
        assert_eq!(wake(&database, &job, 1_000).await, (10_000, 0, true));
    }
    assert_eq!(requests_made(&database).await, (REPORTS, REPORTS));
    // Nobody has answered for ten minutes: all are sent again, under the same number.
    database.wait(Duration::minutes(11));
    let begun = Instant::now();
    while requests::resend_overdue(&database.store, 500).await.unwrap() == 500 {}
    println!("{REPORTS} requests sent again in {:.2} s", begun.elapsed().as_secs_f64());
    assert_eq!(requests_made(&database).await, (2 * REPORTS, REPORTS));
    let numbers = "SELECT count(DISTINCT message ->> 'revision') FROM outbox WHERE kind = 'resymbolicate'";
    assert_eq!(database.number(numbers).await, 1);
}

#[tokio::test]
async fn an_answer_from_older_symbols_is_asked_for_again_at_once() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    publish(&database, 1, Quality::Symtab).await;
    let job = lease(&database).await;
    assert_eq!(wake(&database, &job, 10).await, (1, 1, true));
    // Better ones come while the answer is on its way; it still says the first generation.
    publish(&database, 1, Quality::Dwarf).await;
    let job = lease(&database).await;
    assert_eq!(wake(&database, &job, 10).await, (1, 0, true));
    let answer =
        crate::tests::database::revised(&arrival(1), 2, crate::tests::database::image(1, false, Some(1)));
    let stored = database.store(&[answer]).await;
    assert_eq!((stored[0].outcome, stored[0].requested), (ArrivalOutcome::Revised, Some(3)));
}
