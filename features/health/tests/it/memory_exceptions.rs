//! Memory exceptions of MetricKit: joined with the session that they are about, whichever came first.

use crate::health::database::{
    APP, database, dump, event, oldest_day, payload, store_payloads, store_sessions,
};
use serde_json::json;
use time::Duration;
use unslide_harness::database::{TestDatabase, acme, arrival, start};
use unslide_health::store::figures;
use unslide_health::store::memory_exceptions::{
    CountedEnds, ExceptionJoin, JoinOutcome, MemoryEndCheck, MemoryExceptionId, check_memory_ends, find_join,
};
use unslide_health::store::sessions::{self, EndReason, SessionArrival, TerminationEvidence};
use unslide_model::ended::EndRule;
use unslide_store::queries::session::{self, TimelinePage};
use unslide_store::reports::{self, Arrival, Effects};
use unslide_store::tables::Selection;
use unslide_store::{TenantTx, Uuid};

/// A memory exception of the device model of [`event`], seconds after the start.
fn exception(n: u8, seconds: i64, pid: Option<u32>) -> Arrival {
    let mut exception = arrival(n);
    let facts = &mut exception.facts;
    facts.kind = "termination".into();
    facts.device_time = Some(start() + Duration::seconds(seconds));
    facts.model = Some("iPhone16,1".into());
    facts.metric_kit = true;
    facts.is_memory_exception = true;
    facts.process_id = pid;
    facts.summary = json!({"fatal": false});
    facts.grouping = None;
    exception
}

/// A session that began seconds after the start and lasted a minute. Nothing explains its end.
fn unexplained(id: &str, seconds: i64, pid: Option<i32>) -> SessionArrival {
    let mut ended = event(id, &format!("installation of {id}"), 0, None);
    ended.event.started_at = start() + Duration::seconds(seconds);
    ended.event.duration = Some(60.0);
    ended.event.termination = Some(TerminationEvidence::default());
    ended.event.pid = pid;
    ended
}

async fn store_exceptions(database: &TestDatabase, told: &[Arrival]) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, told, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
}

async fn join(database: &TestDatabase, told: &Arrival) -> Option<ExceptionJoin> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    find_join(&mut tx, MemoryExceptionId::from_uuid(told.report_id.uuid()), 0).await.unwrap()
}

async fn check(database: &TestDatabase) -> MemoryEndCheck {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let period = (start().date(), (start() + Duration::DAY).date());
    check_memory_ends(&mut tx, APP, period).await.unwrap().unwrap_or_default()
}

/// Sessions out of memory: with evidence, and by exclusion.
async fn memory(database: &TestDatabase) -> [i64; 2] {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let period = (start().date(), (start() + Duration::DAY).date());
    let now = figures::total_figures(&mut tx, (Some(APP), None), period).await.unwrap();
    [now.out_of_memory_sessions - now.unexplained_sessions, now.unexplained_sessions]
}

async fn ended(database: &TestDatabase, id: &str) -> (Option<String>, Option<EndRule>) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = TimelinePage { app: APP, session: id, after: None, limit: 10 };
    let events = session::list_timeline(&mut tx, page).await.unwrap();
    let ended = events.into_iter().find(|event| event.kind == "ended").unwrap();
    (ended.detail, ended.judgement.map(|judgement| judgement.rule))
}

#[tokio::test]
async fn an_exception_replaces_the_inferred_end_whichever_came_first() {
    let told = [exception(1, 50, Some(731))];
    let sessions = [unexplained("s1", 0, None)];
    let mut dumps = Vec::new();
    for exception_first in [true, false] {
        let database = database().await;
        if exception_first {
            store_exceptions(&database, &told).await;
            assert_eq!((check(&database).await.without_session, memory(&database).await), (1, [0, 0]));
            store_sessions(&database, &sessions).await;
        } else {
            store_sessions(&database, &sessions).await;
            assert_eq!(memory(&database).await, [0, 1]);
            store_exceptions(&database, &told).await;
        }
        assert_eq!(memory(&database).await, [1, 0]);
        let expected = (Some("out_of_memory".to_owned()), Some(EndRule::MemoryException));
        assert_eq!(ended(&database, "s1").await, expected);
        let found = check(&database).await;
        assert_eq!((found.exceptions, found.joined, found.inferred), (1, 1, 1));
        assert_eq!((found.inferred_right, found.by_exclusion), (1, 1));
        let expected = ExceptionJoin {
            outcome: JoinOutcome::Joined,
            session: Some((APP.to_owned(), "s1".to_owned())),
            inferred: Some(EndReason::Unexplained),
        };
        assert_eq!(join(&database, &told[0]).await, Some(expected));
        // Replays change nothing.
        let before = dump(&database).await;
        store_exceptions(&database, &told).await;
        store_sessions(&database, &sessions).await;
        assert_eq!(dump(&database).await, before);
        dumps.push(before);
        // Without the report the end is again the one that was inferred.
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        reports::delete_report(&mut tx, told[0].report_id, 0, None).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((memory(&database).await, check(&database).await.exceptions), ([0, 1], 0));
        assert_eq!(ended(&database, "s1").await.1, Some(EndRule::Exclusion));
    }
    assert_eq!(dumps[0], dumps[1]);
}

#[tokio::test]
async fn an_exception_that_fits_no_session_or_two_is_not_joined_and_counted_as_such() {
    let database = database().await;
    // 1 fits two sessions, of which the process decides for 2; 3 comes after the end of all; 4 names its session.
    store_sessions(&database, &[unexplained("a", 0, None), unexplained("b", 10, Some(44))]).await;
    store_exceptions(&database, &[exception(1, 20, None)]).await;
    assert_eq!((check(&database).await.ambiguous, memory(&database).await), (1, [0, 2]));
    store_exceptions(&database, &[exception(2, 20, Some(44)), exception(3, 9_000, None)]).await;
    let run = Uuid::from_u128(5);
    let mut named = exception(4, 9_100, None);
    named.facts.run_id = Some(run);
    store_exceptions(&database, &[named]).await;
    let mut wrong = unexplained(&run.to_string(), 9_050, None);
    wrong.event.termination = Some(TerminationEvidence { hang: true, ..TerminationEvidence::default() });
    wrong.event.device = None;
    store_sessions(&database, &[wrong]).await;
    let found = check(&database).await;
    assert_eq!((found.exceptions, found.joined, found.without_session, found.ambiguous), (4, 2, 1, 1));
    assert_eq!((found.inferred, found.inferred_right), (2, 1), "a hang was inferred");
    assert_eq!(memory(&database).await, [2, 1]);
    // A session that comes late may fit as well: then neither is joined.
    store_exceptions(&database, &[exception(5, 20_000, None)]).await;
    store_sessions(&database, &[unexplained("c", 19_990, None)]).await;
    assert_eq!(memory(&database).await, [3, 1]);
    store_sessions(&database, &[unexplained("d", 19_980, None)]).await;
    assert_eq!((memory(&database).await, check(&database).await.ambiguous), ([2, 3], 2));
    // An exit or a crash is no end that was inferred.
    store_exceptions(&database, &[exception(6, 30_000, None)]).await;
    let mut exited = unexplained("e", 29_990, None);
    exited.event.termination =
        Some(TerminationEvidence { exit_called: true, ..TerminationEvidence::default() });
    store_sessions(&database, &[exited]).await;
    assert_eq!(check(&database).await.without_session, 2);
}

/// Stores a session in a transaction that is still open.
async fn begin_session(database: &TestDatabase, id: &str, version: &str, seconds: i64) -> TenantTx {
    let mut arrival = unexplained(id, seconds, None);
    arrival.event.version = version.to_owned();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    sessions::store(&mut tx, &[&arrival], oldest_day()).await.unwrap();
    tx
}

/// Sessions without an exception near them do not wait for each other; an exception waits for all that are stored, so that none
/// of them misses it.
#[tokio::test]
async fn sessions_are_stored_beside_each_other_and_no_exception_is_missed() {
    let database = database().await;
    let first = begin_session(&database, "s1", "1.0", 0).await;
    let second = begin_session(&database, "s2", "2.0", 0).await;
    second.commit().await.unwrap();
    let told = [exception(1, 50, None)];
    let store_exception = store_exceptions(&database, &told);
    let commit_session = async {
        database.wait_for_lock().await;
        first.commit().await.unwrap();
    };
    tokio::join!(store_exception, commit_session);
    assert_eq!(check(&database).await.joined, 1);
    // Two sessions that may be those of an exception come one after the other: the second finds that both fit.
    store_exceptions(&database, &[exception(2, 20_000, None)]).await;
    let third = begin_session(&database, "s3", "1.0", 19_990).await;
    let fourth = [unexplained("s4", 19_980, None)];
    let store_fourth = store_sessions(&database, &fourth);
    let commit_third = async {
        database.wait_for_lock().await;
        third.commit().await.unwrap();
    };
    tokio::join!(store_fourth, commit_third);
    let found = check(&database).await;
    assert_eq!((found.joined, found.ambiguous), (1, 1));
}

#[tokio::test]
async fn a_crash_that_is_told_later_parts_them() {
    let database = database().await;
    store_sessions(&database, &[unexplained("s1", 0, None)]).await;
    store_exceptions(&database, &[exception(1, 30, None)]).await;
    assert_eq!(memory(&database).await, [1, 0]);
    let mut crashed = unexplained("s1", 0, None);
    (crashed.event.termination, crashed.event.end_reason) = (None, Some(EndReason::Crashed));
    store_sessions(&database, &[crashed]).await;
    assert_eq!((memory(&database).await, check(&database).await.without_session), ([0, 0], 1));
    assert_eq!(ended(&database, "s1").await.0.as_deref(), Some("crashed"));
}

#[tokio::test]
async fn exceptions_end_with_the_retention_of_their_reports() {
    let database = database().await;
    store_sessions(&database, &[unexplained("s1", 0, None)]).await;
    store_exceptions(&database, &[exception(1, 30, None), exception(2, 9_000, None)]).await;
    let day = (start() + Duration::DAY).date();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    Selection::Expired { first_kept: day }.delete_rows(&mut tx, None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM memory_exceptions").await, 0);
}

#[tokio::test]
async fn ends_that_metric_kit_counts_are_added_up_by_cause_once() {
    let database = database().await;
    let report = json!({"timeRange": {"begin": 0, "end": 0}, "intervalEntries": [{"duration": {"value": 86_400, "unit": "s"}, "values": [
        {"foregroundTerminationMetric": {"normalTerminationCount": 6, "memoryLimitTerminationCount": 2}},
        {"backgroundTerminationMetric": {"systemPressureTerminationCount": 3}}]}]});
    for id in ["m1", "m1", "m2"] {
        store_payloads(&database, &[payload(id, 0, &json!({"metric_kit": report}))]).await;
    }
    let found = check(&database).await;
    assert_eq!(found.foreground_ends, Some(CountedEnds { ends: 16, out_of_memory: 4 }));
    assert_eq!(found.background_ends, Some(CountedEnds { ends: 6, out_of_memory: 6 }));
}
