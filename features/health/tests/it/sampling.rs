//! Samples of events: what an app keeps, and how much it stands for.

use crate::database::{APP, database, dump, event, payload, store_payloads, store_sessions};
use serde_json::json;
use time::{Date, Duration};
use unslide_harness::database::{TestDatabase, acme, arrival, grouping, start};
use unslide_health::store::figures;
use unslide_health::store::metrics::MetricArrival;
use unslide_health::store::sessions::{EndReason, SessionArrival};
use unslide_store::Uuid;
use unslide_store::app_settings::{self, AppSettings};
use unslide_store::app_signals::{self, AppSignal, DroppedSignal, SignalSettings};
use unslide_store::gateway_events::EventOutcome;
use unslide_store::reports::{self, Arrival, ArrivalOutcome, Effects};

async fn set(database: &TestDatabase, signals: SignalSettings) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let settings = AppSettings { signals, ..AppSettings::default() };
    assert!(app_settings::replace_settings(&mut tx, APP, &settings).await.unwrap());
    tx.commit().await.unwrap();
}

async fn store_reports(database: &TestDatabase, arrivals: &[Arrival]) -> Vec<ArrivalOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stored = reports::store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    stored.into_iter().map(|one| one.outcome).collect()
}

fn period() -> (Date, Date) {
    (start().date(), (start() + Duration::DAY).date())
}

async fn dropped(database: &TestDatabase) -> Vec<(AppSignal, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = app_signals::list_drops(&mut tx, APP, period()).await.unwrap();
    found.into_iter().map(|DroppedSignal { signal, dropped }| (signal, dropped)).collect()
}

/// A report of a kind, of the run `n`.
fn report(n: u8, kind: &str) -> Arrival {
    let mut report = arrival(n);
    (report.facts.app, report.facts.kind) = (APP.to_owned(), kind.to_owned());
    report.facts.run_id = Some(Uuid::from_bytes([n; 16]));
    let mut group = grouping(n, false);
    group.kind = kind.to_owned();
    report.facts.grouping = Some(group);
    report
}

#[tokio::test]
async fn what_is_switched_off_is_counted_and_not_kept() {
    let database = database().await;
    assert_eq!(store_sessions(&database, &[event("known", "i1", 0, None)]).await, [EventOutcome::New]);
    set(&database, SignalSettings { sessions: 0, metrics: 0, ..SignalSettings::default() }).await;
    let ended = event("known", "i1", 0, Some(EndReason::Crashed));
    // A known session is completed, so that crashes are not missed.
    assert_eq!(
        store_sessions(&database, &[ended, event("other", "i1", 0, None)]).await,
        [EventOutcome::Completed, EventOutcome::SwitchedOff]
    );
    let payload = payload("m1", 0, &json!({}));
    assert_eq!(store_payloads(&database, &[payload]).await, [EventOutcome::SwitchedOff]);
    assert_eq!(dropped(&database).await, [(AppSignal::Metrics, 1), (AppSignal::Sessions, 1)]);
    assert!(!dump(&database).await.iter().any(|row| row.starts_with("metric_")));
}

#[tokio::test]
async fn a_sample_of_sessions_stands_for_all_and_is_no_more_certain() {
    let database = database().await;
    set(&database, SignalSettings { sessions: 4, metrics: 4, ..SignalSettings::default() }).await;
    let all = |end: Option<EndReason>| -> Vec<SessionArrival> {
        (0..800).map(|n| event(&format!("s{n}"), &format!("i{n}"), 0, end)).collect()
    };
    store_sessions(&database, &all(None)).await;
    // The end of a session shares the fate of its beginning, whatever was chosen between.
    set(&database, SignalSettings { sessions: 1_000, metrics: 4, ..SignalSettings::default() }).await;
    store_sessions(&database, &all(Some(EndReason::Crashed))).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let figures = figures::total_figures(&mut tx, (Some(APP), None), period()).await.unwrap();
    assert!((650..950).contains(&figures.sessions) && figures.estimated, "{figures:?}");
    assert!(figures.crashed_sessions >= figures.sessions - 2_000 && figures.crashed_sessions > 0);
    let (_, worth) = figures.independent(figures.crashed_of_sessions());
    assert!(worth < 250.0, "{worth}");
    drop(tx);
    let of = |n: u32| payload(&format!("m{n}"), 0, &json!({"session": format!("s{n}")}));
    let payloads: Vec<MetricArrival> = (0..800).map(of).collect();
    store_payloads(&database, &payloads).await;
    let counted = "SELECT observations::bigint FROM metric_days WHERE metric = 'launch_time'";
    let kept = "SELECT count(*) * 4 FROM metric_payloads";
    assert_eq!(database.number(counted).await, database.number(kept).await);
    // The payloads of a session that is kept are kept.
    let apart = "SELECT count(*) FROM metric_payloads p WHERE NOT EXISTS
                 (SELECT FROM sessions s WHERE s.session_id = p.session_id)";
    assert_eq!(database.number(apart).await, 0);
}

#[tokio::test]
async fn sessions_are_counted_right_for_shares_that_are_no_whole_part() {
    for (share, least, most) in
        [(0.7, 141, 145), (0.6, 165, 169), (0.4, 248, 252), (0.15, 664, 669), (0.9, 109, 113)]
    {
        let database = database().await;
        let session = |n: u32| {
            let mut begun = event(&format!("s{n}"), &format!("i{n}"), 0, Some(EndReason::Crashed));
            begun.event.sampled = Some(share);
            begun
        };
        store_sessions(&database, &[session(0)]).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let figures = figures::total_figures(&mut tx, (Some(APP), None), period()).await.unwrap();
        assert!(figures.estimated, "{share}: one session stands for more than itself: {figures:?}");
        drop(tx);
        store_sessions(&database, &(1..100).map(session).collect::<Vec<_>>()).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let figures = figures::total_figures(&mut tx, (Some(APP), None), period()).await.unwrap();
        // The first session was in a batch of its own.
        assert!((least..=most).contains(&figures.sessions) && figures.estimated, "{share}: {figures:?}");
        assert_eq!(figures.crashed_sessions, figures.sessions);
    }
}

#[tokio::test]
async fn reports_share_the_fate_of_their_session_and_those_of_crashes_are_all_kept() {
    let database = database().await;
    set(&database, SignalSettings { hangs: 4, sessions: 4, ..SignalSettings::default() }).await;
    let run = |n: u8| Uuid::from_bytes([n; 16]);
    let begun: Vec<SessionArrival> =
        (1..=150).map(|n| event(&run(n).to_string().to_uppercase(), &format!("i{n}"), 0, None)).collect();
    store_sessions(&database, &begun).await;
    let hangs: Vec<Arrival> = (1..=150).map(|n| report(n, "hang")).collect();
    let outcomes = store_reports(&database, &hangs).await;
    let new = outcomes.iter().filter(|outcome| **outcome == ArrivalOutcome::New).count();
    let out = outcomes.iter().filter(|outcome| **outcome == ArrivalOutcome::SampledOut).count();
    assert!((15..65).contains(&new) && new + out == 150, "{new} of 150");
    assert_eq!(database.number("SELECT sum(weight)::bigint FROM reports").await, 4 * new as i64);
    let apart = "SELECT count(*) FROM reports r WHERE NOT EXISTS
                 (SELECT FROM sessions s WHERE lower(s.session_id) = r.run_id::text)";
    assert_eq!(database.number(apart).await, 0);
    let dropped = dropped(&database).await;
    assert_eq!(dropped, [(AppSignal::Hangs, out as i64), (AppSignal::Sessions, out as i64)]);
    // The same ones again change nothing, whatever the app keeps by now.
    set(&database, SignalSettings::default()).await;
    assert!(store_reports(&database, &hangs).await.iter().all(|one| *one == ArrivalOutcome::Duplicate));
    set(&database, SignalSettings { hangs: 1_000, ..SignalSettings::default() }).await;
    assert_eq!(store_reports(&database, &[report(151, "crash")]).await, [ArrivalOutcome::New]);
}
