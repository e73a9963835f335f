//! Captures: received once, analysed by the last run alone, and never asleep while symbols are there.

use serde_json::{Value, json};
use unslide_captures::JOB_KIND;
use unslide_captures::capture::CaptureForm;
use unslide_captures::store::{
    self as captures, AnalysisEnd, CAPTURE_HOOK, CaptureFile, CaptureFilter, CaptureId, CaptureState,
    NewCapture, ReceivedCapture, SeenSymbols,
};
use unslide_harness::database::{TestDatabase, acme, umbrella};
use unslide_model::{ContentHash, DebugId, Owner, Quality};
use unslide_store::queries::session::{self, TimelineEvent, TimelinePage};
use unslide_store::slots::{self, PublishedSymbols};
use unslide_store::wakes::{self, Arrived};
use unslide_store::{TenantTx, expire_features, feature_files, jobs, segments, usage};
use unslide_testkit::statements;

async fn database() -> TestDatabase {
    TestDatabase::new(&[CAPTURE_HOOK]).await
}

fn debug_id(n: u8) -> DebugId {
    DebugId([n; 16])
}

fn symbols(n: u8) -> PublishedSymbols {
    PublishedSymbols {
        debug_id: debug_id(n),
        quality: Quality::Dwarf,
        content_hash: ContentHash([n; 32]),
        symcache_version: 1,
        generation: 0,
    }
}

/// Publishes new symbols for a debug id. Returns the generation.
async fn publish(database: &TestDatabase, owner: Owner, n: u8) -> u64 {
    let mut tx = database.store.owner(&owner).await.unwrap();
    let generation = slots::publish_symbols(&mut tx, &symbols(n)).await.unwrap();
    tx.commit().await.unwrap();
    generation
}

/// A capture that has its files.
async fn received(tx: &mut TenantTx, n: u8) -> CaptureId {
    received_of(tx, "shop", n, None).await
}

/// The same of an app and of one of its sessions.
async fn received_of(tx: &mut TenantTx, app: &str, n: u8, session_id: Option<&str>) -> CaptureId {
    received_as(tx, app, CaptureForm::Profile, n, session_id).await
}

async fn received_as(
    tx: &mut TenantTx,
    app: &str,
    form: CaptureForm,
    n: u8,
    session_id: Option<&str>,
) -> CaptureId {
    let id = segments::new_id(tx).await.unwrap();
    let keys = [format!("t/acme/captures/{id}/file")];
    captures::expect(tx, &keys).await.unwrap();
    let new = NewCapture {
        id,
        app,
        version: "1.0",
        session_id,
        form,
        files: &[CaptureFile { name: "file".into(), size: 100 }],
        content_hash: ContentHash([n; 32]),
        keys: &keys,
    };
    assert_eq!(captures::receive(tx, &new).await.unwrap(), ReceivedCapture::New);
    assert_eq!(captures::receive(tx, &new).await.unwrap(), ReceivedCapture::Known(id));
    id
}

/// The tenant's symbols of a generation, as a run has seen them.
fn seen(n: u8, generation: u64) -> SeenSymbols {
    SeenSymbols { debug_id: debug_id(n), system: false, generation }
}

async fn begun(database: &TestDatabase, id: CaptureId) -> u32 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let run = captures::begin(&mut tx, id).await.unwrap().unwrap().capture.run;
    tx.commit().await.unwrap();
    run
}

async fn finished(database: &TestDatabase, id: CaptureId, run: u32, seen: &[SeenSymbols]) -> AnalysisEnd {
    finished_as(database, id, run, &json!({}), seen).await
}

async fn finished_as(
    database: &TestDatabase,
    id: CaptureId,
    run: u32,
    summary: &Value,
    seen: &[SeenSymbols],
) -> AnalysisEnd {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let end = captures::finish(&mut tx, id, run, summary, seen).await.unwrap();
    tx.commit().await.unwrap();
    end
}

async fn woken(database: &TestDatabase, n: u8, generation: u64) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrived = [Arrived { debug_id: debug_id(n), generation }];
    let woken = captures::wake(&mut tx, &arrived, false, 10).await.unwrap();
    tx.commit().await.unwrap();
    woken
}

async fn state(database: &TestDatabase, id: CaptureId) -> CaptureState {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    captures::get(&mut tx, id, None).await.unwrap().unwrap().state
}

async fn jobs_of(database: &TestDatabase) -> i64 {
    database.number("SELECT count(*) FROM jobs WHERE kind = 'analyse' AND status = 'queued'").await
}

async fn one(database: &TestDatabase) -> CaptureId {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = received(&mut tx, 1).await;
    tx.commit().await.unwrap();
    let leased =
        jobs::lease_jobs(&database.store, &[JOB_KIND], "w", time::Duration::MINUTE, 10).await.unwrap();
    assert_eq!(leased.len(), 1);
    id
}

/// A capture that has seen nothing of the symbols of debug id `n`.
async fn waiting(database: &TestDatabase, content: u8, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = received(&mut tx, content).await;
    tx.commit().await.unwrap();
    let run = begun(database, id).await;
    finished(database, id, run, &[seen(n, 0)]).await;
}

#[tokio::test]
async fn symbols_that_come_together_ask_for_one_analysis() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let end = finished(&database, id, run, &[seen(1, 0), seen(2, 0)]).await;
    assert_eq!(
        (end, state(&database, id).await),
        (AnalysisEnd::Answers { before: None }, CaptureState::Ready)
    );
    for n in [1, 2] {
        publish(&database, acme().into(), n).await;
    }
    assert_eq!((woken(&database, 1, 1).await, woken(&database, 2, 1).await), (1, 0));
    assert_eq!((state(&database, id).await, jobs_of(&database).await), (CaptureState::Queued, 1));
    let run = begun(&database, id).await;
    let end = finished(&database, id, run, &[seen(1, 1), seen(2, 1)]).await;
    assert_eq!(end, AnalysisEnd::Answers { before: Some(1) });
    assert_eq!((woken(&database, 1, 1).await, state(&database, id).await), (0, CaptureState::Ready));
}

#[tokio::test]
async fn earlier_captures_are_of_the_same_app_and_have_an_analysis() {
    let database = database().await;
    let mut ids = Vec::new();
    for (n, app) in [(1, "shop"), (2, "shop"), (3, "other"), (4, "shop"), (5, "shop"), (6, "shop")] {
        database.wait(time::Duration::milliseconds(1));
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        ids.push(received_of(&mut tx, app, n, None).await);
        tx.commit().await.unwrap();
    }
    for at in [0, 2, 3, 4, 5] {
        let run = begun(&database, ids[at]).await;
        finished(&database, ids[at], run, &[]).await;
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let of = captures::get(&mut tx, ids[4], None).await.unwrap().unwrap();
    let found = captures::earlier(&mut tx, &of, 10).await.unwrap();
    assert_eq!(found.iter().map(|capture| capture.id).collect::<Vec<_>>(), [ids[3], ids[0]]);
    assert_eq!(captures::earlier(&mut tx, &of, 1).await.unwrap().len(), 1);
    let first = captures::get(&mut tx, ids[0], None).await.unwrap().unwrap();
    assert!(captures::earlier(&mut tx, &first, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn earlier_graphs_of_memory_were_read_from_the_same() {
    let database = database().await;
    let mut ids = Vec::new();
    let summaries =
        [json!({"source": "heap"}), json!({"source": "leaks"}), json!({}), json!({"source": "heap"})];
    for (n, summary) in (1..).zip(summaries.iter().chain([&json!({})])) {
        database.wait(time::Duration::milliseconds(1));
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let id = received_as(&mut tx, "shop", CaptureForm::MemoryGraph, n, None).await;
        tx.commit().await.unwrap();
        let run = begun(&database, id).await;
        finished_as(&database, id, run, summary, &[]).await;
        ids.push(id);
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (at, expected) in [(3, vec![ids[0]]), (1, vec![]), (4, vec![])] {
        let of = captures::get(&mut tx, ids[at], None).await.unwrap().unwrap();
        let found = captures::earlier(&mut tx, &of, 10).await.unwrap();
        assert_eq!(found.iter().map(|capture| capture.id).collect::<Vec<_>>(), expected, "{at}");
    }
}

#[tokio::test]
async fn only_the_last_run_ends_and_a_deleted_capture_has_none() {
    let database = database().await;
    let id = one(&database).await;
    let first = begun(&database, id).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let second = captures::begin(&mut tx, id).await.unwrap().unwrap();
    assert_eq!((second.capture.run, second.unfinished), (2, Some(1)));
    tx.commit().await.unwrap();
    assert_eq!(finished(&database, id, first, &[]).await, AnalysisEnd::Useless);
    let mut tx = database.store.owner(&acme().into()).await.unwrap();
    captures::fail(&mut tx, id, "malformed", "with a \0").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(state(&database, id).await, CaptureState::Failed);
    assert_eq!(finished(&database, id, 2, &[seen(1, 0)]).await, AnalysisEnd::Answers { before: None });

    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(usage::read_symbol_bytes(&mut tx).await.unwrap().stored, 100);
    let filter = CaptureFilter { app: Some("shop".into()), ..CaptureFilter::default() };
    assert_eq!(captures::list(&mut tx, &filter, None, 10).await.unwrap().len(), 1);
    assert!(captures::delete(&mut tx, id, Some("other")).await.unwrap().is_none());
    let today = tx.now().date();
    assert_eq!(expire_features(&mut tx, today, 10).await.unwrap(), 0);
    assert_eq!(expire_features(&mut tx, today.next_day().unwrap(), 10).await.unwrap(), 1);
    let condemned = segments::list_keys(&mut tx).await.unwrap().condemned;
    assert!(condemned.contains(&format!("t/acme/captures/{id}/analysis-2")), "{condemned:?}");
    tx.commit().await.unwrap();
    assert_eq!(finished(&database, id, 2, &[]).await, AnalysisEnd::Useless);
    assert_eq!(database.number("SELECT count(*) FROM capture_waits").await, 0);
}

/// The builder that publishes is first: the analysis waits for it, sees what came, and asks for another.
#[tokio::test]
async fn an_analysis_that_ends_after_its_symbols_came_is_made_again() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let mut publisher = database.store.tenant(&acme()).await.unwrap();
    slots::publish_symbols(&mut publisher, &symbols(1)).await.unwrap();
    let store = database.store.clone();
    let ending = tokio::spawn(async move {
        let mut tx = store.tenant(&acme()).await.unwrap();
        let end = captures::finish(&mut tx, id, run, &json!({}), &[seen(1, 0)]).await.unwrap();
        tx.commit().await.unwrap();
        end
    });
    database.wait_for_lock().await;
    assert!(!ending.is_finished(), "it waits for the slot");
    publisher.commit().await.unwrap();
    assert_eq!(ending.await.unwrap(), AnalysisEnd::Answers { before: None });
    assert_eq!((state(&database, id).await, jobs_of(&database).await), (CaptureState::Queued, 1));
    assert_eq!((woken(&database, 1, 1).await, jobs_of(&database).await), (0, 1), "the wake adds nothing");
}

/// The analysis is first: the publisher waits for it, and its wake finds the capture.
#[tokio::test]
async fn symbols_that_come_while_an_analysis_ends_find_it() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let mut ending = database.store.tenant(&acme()).await.unwrap();
    captures::finish(&mut ending, id, run, &json!({}), &[seen(1, 0)]).await.unwrap();
    let store = database.store.clone();
    let publishing = tokio::spawn(async move {
        let mut tx = store.tenant(&acme()).await.unwrap();
        let generation = slots::publish_symbols(&mut tx, &symbols(1)).await.unwrap();
        tx.commit().await.unwrap();
        generation
    });
    database.wait_for_lock().await;
    assert!(!publishing.is_finished(), "it waits for the slot");
    ending.commit().await.unwrap();
    let generation = publishing.await.unwrap();
    assert_eq!(
        (woken(&database, 1, generation).await, state(&database, id).await),
        (1, CaptureState::Queued)
    );
}

#[tokio::test]
async fn symbols_of_the_system_find_the_tenants_whose_captures_lack_them() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let of_system = SeenSymbols { system: true, ..seen(3, 0) };
    finished(&database, id, run, &[of_system, seen(3, 0)]).await;
    publish(&database, Owner::System, 3).await;
    let arrived = [Arrived { debug_id: debug_id(3), generation: 1 }];
    let tenants = wakes::system::list_tenants(&database.store, &arrived, None, 10).await.unwrap();
    assert_eq!(tenants, [acme()]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(captures::wake(&mut tx, &arrived, true, 10).await.unwrap(), 1);
    assert_eq!(captures::wake(&mut tx, &arrived, true, 10).await.unwrap(), 0);
}

async fn missed(database: &TestDatabase) -> u64 {
    let missed = wakes::missed::add_missed_wakes(&database.store).await.unwrap();
    assert_eq!(wakes::missed::add_missed_wakes(&database.store).await.unwrap(), 0, "jobs have it");
    missed
}

/// Proves: late-symbols
#[tokio::test]
async fn the_hourly_check_finds_captures_whose_wake_was_lost() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let of_system = SeenSymbols { system: true, ..seen(2, 0) };
    finished(&database, id, run, &[seen(1, 0), of_system]).await;
    assert_eq!(missed(&database).await, 0);
    publish(&database, acme().into(), 1).await;
    publish(&database, Owner::System, 2).await;
    database.execute("DELETE FROM jobs; DELETE FROM system_wakes").await;
    assert_eq!(missed(&database).await, 2);
    assert_eq!((woken(&database, 1, 1).await, state(&database, id).await), (1, CaptureState::Queued));
    database.execute("DELETE FROM jobs WHERE kind <> 'analyse'; DELETE FROM system_wakes").await;
    assert_eq!(missed(&database).await, 0, "an analysis is on its way");
    // One that failed is not made again for what it had before it.
    begun(&database, id).await;
    let mut tx = database.store.owner(&Owner::Tenant(acme())).await.unwrap();
    captures::fail(&mut tx, id, "malformed", "it is cut off").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((missed(&database).await, state(&database, id).await), (0, CaptureState::Ready));
    database.wait(time::Duration::MINUTE);
    publish(&database, acme().into(), 1).await;
    database.execute("DELETE FROM jobs").await;
    assert_eq!(missed(&database).await, 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn captures_are_woken_in_the_same_statements_however_many_wait() {
    let database = database().await;
    let mut costs = Vec::new();
    for (n, count) in [(1, 2), (2, 20)] {
        for capture in 0..count {
            waiting(&database, 100 * n + capture, n).await;
        }
        let generation = publish(&database, acme().into(), n).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let arrived = [Arrived { debug_id: debug_id(n), generation }];
        let (woken, cost) = statements::counted(captures::wake(&mut tx, &arrived, false, 50)).await;
        tx.commit().await.unwrap();
        assert_eq!(woken.unwrap(), u64::from(count));
        costs.push(cost);
    }
    assert!(costs[0] > 0 && costs[0] == costs[1], "{costs:?}");
    // One when each came, and one for its symbols.
    assert_eq!(database.number("SELECT count(*) FROM jobs WHERE kind = 'analyse'").await, 2 * 22);
}

fn kinds(events: &[TimelineEvent]) -> Vec<(&str, Option<&str>)> {
    events.iter().map(|event| (&*event.kind, event.detail.as_deref())).collect()
}

#[tokio::test]
async fn a_session_has_its_captures_in_the_order_of_time() {
    let database = database().await;
    for (n, session_id) in [(1, Some("s1")), (2, Some("another")), (3, Some("s1"))] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        received_of(&mut tx, "shop", n, session_id).await;
        tx.commit().await.unwrap();
        database.wait(time::Duration::MINUTE);
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    received_of(&mut tx, "other", 4, Some("s1")).await;
    let whole = TimelinePage { app: "shop", session: "s1", after: None, limit: 10 };
    let found = session::list_timeline(&mut tx, whole).await.unwrap();
    assert_eq!(kinds(&found), [("capture", Some("profile")); 2]);
    let first = session::list_timeline(&mut tx, TimelinePage { limit: 1, ..whole }).await.unwrap();
    assert_eq!(first, found[..1]);
    let after = Some((first[0].at, &*first[0].kind, &*first[0].id, first[0].variant));
    assert_eq!(session::list_timeline(&mut tx, TimelinePage { after, ..whole }).await.unwrap(), found[1..]);
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(session::list_timeline(&mut tx, whole).await.unwrap(), []);
}

#[tokio::test]
async fn the_files_of_captures_are_those_of_their_parts_and_runs() {
    let database = database().await;
    let id = one(&database).await;
    let run = begun(&database, id).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let files = async |tx: &mut TenantTx| {
        let files = feature_files(tx).await.unwrap().into_iter();
        files.map(|file| (file.key, file.needed_as.is_some())).collect::<Vec<_>>()
    };
    let key = |name: &str| format!("t/acme/captures/{id}/{name}");
    assert_eq!(files(&mut tx).await, [(key("file"), true), (key("analysis-1"), false)]);
    captures::finish(&mut tx, id, run, &json!({}), &[]).await.unwrap();
    assert_eq!(files(&mut tx).await, [(key("file"), true), (key("analysis-1"), true)]);
}
