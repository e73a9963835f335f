//! An event is written with each stored revision, each move and each deletion of a report, and by no other transaction.

use crate::stored_events::reports::{NAMES, RUN, named_report, report_of_run, revise_report};
use crate::stored_events::waiting::{describe_events, read_waiting, writing_database};
use time::Duration;
use unslide_harness::database::{TestDatabase, acme, arrival, erase_tenant, grouping, umbrella};
use unslide_person_erasure::search::PersonSearch;
use unslide_person_erasure::store::{NewPersonErasure, begin_erasure as begin_person_erasure, find_open};
use unslide_proto::Message;
use unslide_proto::stored::StoredEvent;
use unslide_store::erasure;
use unslide_store::groups::rules;
use unslide_store::outbox::to_micros;
use unslide_store::persons::PersonKind;
use unslide_store::reports::regroup::{self, RegroupStep, Regrouped};
use unslide_store::reports::{count_once, delete_report};
use unslide_stored_events::store::{
    SILENT_HOOK, TurnEnd, claim_turn, delete_sent, find_oldest, finish_turn, list_due, list_waiting,
};

fn list_expected(events: &[(&str, u32, bool)]) -> Vec<(String, u32, bool)> {
    events.iter().map(|(id, revision, deleted)| ((*id).to_owned(), *revision, *deleted)).collect()
}

async fn delete(database: &TestDatabase, n: u8) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let deleted = delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap();
    tx.commit().await.unwrap();
    deleted
}

#[tokio::test]
async fn each_stored_revision_is_an_event_with_its_own_values_and_a_replay_is_none() {
    let database = writing_database().await;
    let report = named_report(1);
    database.store(std::slice::from_ref(&report)).await;
    database.wait(Duration::HOUR);
    database.store(&[revise_report(&report), arrival(2)]).await;
    database.store(&[report.clone(), revise_report(&report)]).await;
    let events = read_waiting(&database).await;
    assert_eq!(
        describe_events(&events),
        list_expected(&[("01", 1, false), ("01", 2, false), ("02", 1, false)])
    );
    let group_of_first = events[0].group_id.clone();
    let first = StoredEvent {
        tenant: "acme".to_owned(),
        report_id: "01010101-0101-0101-0101-010101010101".to_owned(),
        variant: 0,
        revision: 1,
        version: events[0].version,
        deleted: false,
        app: "com.acme.shop".to_owned(),
        app_version: "1.0".to_owned(),
        app_build: "100".to_owned(),
        kind: "mach".to_owned(),
        fatal: true,
        status: "partial".to_owned(),
        exception: "EXC_BAD_ACCESS".to_owned(),
        signal: "SIGSEGV".to_owned(),
        fault: "trap".to_owned(),
        group_id: group_of_first.clone(),
        received_at_micros: to_micros(report.received_at),
        occurred_at_micros: to_micros(report.received_at - Duration::MINUTE),
        stored_at_micros: to_micros(database.now() - Duration::HOUR),
        os_name: "iOS".to_owned(),
        os_version: "27.0".to_owned(),
        os_build: "24A300".to_owned(),
        model: "iPhone17,1".to_owned(),
        cpu_arch: "arm64".to_owned(),
        teller: "handler".to_owned(),
        weight: 1,
        same_crash_as: String::new(),
        frames: 10,
        frames_symbolicated: 4,
        frames_missing: 4,
        own_frames: 6,
        own_frames_symbolicated: 3,
        symbols_missing: true,
    };
    assert_eq!(events[0], first);
    assert_eq!(group_of_first.len(), 36);
    let second = &events[1];
    assert_eq!(
        (second.status.as_str(), second.frames_symbolicated, second.symbols_missing),
        ("complete", 8, false)
    );
    assert_ne!(second.group_id, group_of_first, "symbols have moved it");
    assert!(second.version > first.version && second.received_at_micros == first.received_at_micros);
}

/// Proves: deletion
#[tokio::test]
async fn an_event_names_no_person() {
    let database = writing_database().await;
    database.store(&[named_report(1)]).await;
    let row = &database.rows("SELECT to_jsonb(e)::text FROM stored_events e").await[0];
    let row: String = sqlx::Row::get(row, 0);
    let message = read_waiting(&database).await.remove(0).encode_to_vec();
    let message = String::from_utf8_lossy(&message);
    let device = named_report(1).facts.device.unwrap();
    let device: String = device.iter().map(|byte| format!("{byte:02x}")).collect();
    for name in NAMES.into_iter().chain([RUN, device.as_str()]) {
        assert!(!row.contains(name) && !message.contains(name), "{name} in {row}");
    }
}

#[tokio::test]
async fn nothing_is_written_in_an_installation_without_events() {
    let database = TestDatabase::new(&[SILENT_HOOK]).await;
    database.store(&[arrival(1)]).await;
    assert!(delete(&database, 1).await);
    assert_eq!(read_waiting(&database).await, []);
}

#[tokio::test]
async fn a_deleted_report_ends_with_a_higher_version_and_comes_back_with_no_replay() {
    let database = writing_database().await;
    let report = arrival(1);
    database.store(&[report.clone(), arrival(2)]).await;
    database.store(&[revise_report(&report)]).await;
    assert!(delete(&database, 1).await);
    assert!(!delete(&database, 1).await);
    database.store(std::slice::from_ref(&report)).await;
    let events = read_waiting(&database).await;
    let expected = [("01", 1, false), ("02", 1, false), ("01", 2, false), ("01", 2, true)];
    assert_eq!(describe_events(&events), list_expected(&expected));
    let end = events.last().unwrap();
    let known = StoredEvent {
        tenant: "acme".to_owned(),
        report_id: report.report_id.to_string(),
        revision: 2,
        version: end.version,
        deleted: true,
        app: "com.acme.shop".to_owned(),
        received_at_micros: to_micros(report.received_at),
        stored_at_micros: to_micros(database.now()),
        ..StoredEvent::default()
    };
    assert_eq!(*end, known);
    assert!(end.version > events[2].version && events[2].version > events[0].version);
}

/// Proves: deletion
#[tokio::test]
async fn the_erasure_of_a_person_ends_each_of_their_reports() {
    let database = writing_database().await;
    let mut reports = [arrival(1), named_report(2), named_report(3)];
    reports[2].facts.users = Vec::new();
    database.store(&reports).await;
    database.wait(Duration::HOUR);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let new = NewPersonErasure { kind: PersonKind::User, id: "robin".to_owned(), dry_run: false };
    let erasure = begin_person_erasure(&mut tx, &new, "test").await.unwrap().unwrap();
    let erasure = find_open(&mut tx, erasure.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let tenant = acme();
    let mut search = PersonSearch::for_erasure(&database.store, &tenant, &erasure);
    assert_eq!(search.erase_some().await.unwrap(), None);
    let events = read_waiting(&database).await;
    let ended: Vec<&str> =
        events.iter().filter(|event| event.deleted).map(|event| event.report_id.as_str()).collect();
    let left: Vec<String> = database
        .rows("SELECT report_id::text FROM reports ORDER BY report_id")
        .await
        .iter()
        .map(|row| sqlx::Row::get(row, 0))
        .collect();
    assert!(ended.contains(&reports[1].report_id.to_string().as_str()), "{ended:?}");
    assert_eq!(ended.len() + left.len(), 3, "each report is there or ended: {ended:?} {left:?}");
    assert!(left.iter().all(|id| !ended.contains(&id.as_str())));
}

#[tokio::test]
async fn reports_that_are_grouped_again_are_told_with_their_new_group() {
    let database = writing_database().await;
    database.store(&[arrival(1), arrival(4)]).await;
    let before = read_waiting(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (rules, _) = rules::set_rules(&mut tx, "key", "ignore function Log.*").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let RegroupStep::Page(page) = regroup::next(&mut tx, rules.version, 10).await.unwrap() else {
        panic!("a page of reports")
    };
    let regrouped = Regrouped {
        report_id: arrival(4).report_id,
        variant: 0,
        revision: 1,
        grouping: Some(grouping(9, false)),
        terms: Vec::new(),
    };
    assert!(regroup::store_regrouped(&mut tx, &page, &[regrouped]).await.unwrap());
    tx.commit().await.unwrap();
    let events = read_waiting(&database).await;
    let expected = [("01", 1, false), ("04", 1, false), ("04", 1, false)];
    assert_eq!(describe_events(&events), list_expected(&expected));
    assert_eq!(before[0].group_id, before[1].group_id);
    assert_ne!(events[2].group_id, before[1].group_id);
    assert!(events[2].version > before[1].version);
}

#[tokio::test]
async fn a_report_of_a_crash_that_another_report_counts_for_is_told_again() {
    let database = writing_database().await;
    // MetricKit's report comes a day after the other one.
    database.store(&[report_of_run(1, 7, false), report_of_run(2, 7, true), report_of_run(3, 8, true)]).await;
    let stored = read_waiting(&database).await;
    assert_eq!((stored[0].teller.as_str(), stored[1].teller.as_str()), ("handler", "metric_kit"));
    assert_eq!(count_once(&database.store, 10).await.unwrap(), 1);
    let events = read_waiting(&database).await;
    assert_eq!(describe_events(&events[3..]), list_expected(&[("02", 1, false)]));
    assert_eq!(events[3].same_crash_as, arrival(1).report_id.to_string());
    assert_eq!(events[3].group_id, "");
    assert!(stored.iter().all(|event| event.same_crash_as.is_empty()));
}

/// Proves: deletion
#[tokio::test]
async fn of_a_deleted_tenant_only_its_own_end_is_left() {
    let database = writing_database().await;
    database.store(&[arrival(1)]).await;
    erase_tenant(&database.store, &acme()).await;
    let events = read_waiting(&database).await;
    let end = StoredEvent {
        tenant: "acme".to_owned(),
        version: events[0].version,
        deleted: true,
        stored_at_micros: to_micros(database.now()),
        ..StoredEvent::default()
    };
    assert_eq!(events, [end]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(erasure::rows_left(&mut tx).await.unwrap().get("stored_events"), Some(&0));
    let turn = claim_turn(&mut tx).await.unwrap().unwrap();
    let waiting = list_waiting(&mut tx, turn.is_deleted, 10).await.unwrap();
    delete_sent(&mut tx, &waiting).await.unwrap();
    finish_turn(&mut tx, &turn, TurnEnd { pause: Duration::ZERO, failures: 0 }).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM stored_events").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM stored_event_turns").await, 0);
}

#[tokio::test]
async fn events_of_a_deleted_tenant_wait_for_nobody() {
    let database = writing_database().await;
    database.store(&[arrival(1)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let turn = claim_turn(&mut tx).await.unwrap().unwrap();
    let waiting = list_waiting(&mut tx, turn.is_deleted, 10).await.unwrap();
    assert!(turn.is_deleted && waiting.len() == 1 && waiting[0].report_id.is_none(), "{waiting:?}");
    delete_sent(&mut tx, &waiting).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(list_due(&database.store, "", 10).await.unwrap(), []);
    assert_eq!(find_oldest(&database.store).await.unwrap(), None);
}

#[tokio::test]
async fn one_process_has_the_turn_of_a_tenant_until_its_end_or_its_lease() {
    let database = writing_database().await;
    assert_eq!(find_oldest(&database.store).await.unwrap(), None);
    database.store(&[arrival(1)]).await;
    let oldest = Some(database.now());
    database.wait(Duration::MINUTE);
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    unslide_store::reports::store_arrivals(
        &mut tx,
        &[arrival(1)],
        unslide_store::reports::Effects::Now,
        None,
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(find_oldest(&database.store).await.unwrap(), oldest);
    assert_eq!(list_due(&database.store, "", 10).await.unwrap(), [acme(), umbrella()]);
    assert_eq!(list_due(&database.store, "acme", 1).await.unwrap(), [umbrella()]);
    let claim = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let claimed = claim_turn(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        claimed
    };
    let first = claim().await.unwrap();
    assert!(claim().await.is_none());
    assert_eq!(list_due(&database.store, "", 10).await.unwrap(), [umbrella()]);
    // The process has died.
    database.wait(Duration::minutes(3));
    let second = claim().await.unwrap();
    let end = async |turn, pause, failures| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        finish_turn(&mut tx, turn, TurnEnd { pause, failures }).await.unwrap();
        tx.commit().await.unwrap();
    };
    end(&first, Duration::ZERO, 0).await;
    assert!(claim().await.is_none(), "the first one has nothing to end any more");
    end(&second, Duration::SECOND * 30, 4).await;
    assert!(claim().await.is_none());
    database.wait(Duration::MINUTE);
    assert_eq!(claim().await.unwrap().failures, 4);
}
