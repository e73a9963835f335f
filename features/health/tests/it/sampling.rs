//! Samples of events: what an app keeps, and how much it stands for.

use crate::health::database::{APP, database, dump, event, payload, store_payloads, store_sessions};
use serde_json::json;
use time::{Date, Duration};
use unslide_harness::database::{TestDatabase, acme, start};
use unslide_health::store::figures;
use unslide_health::store::metrics::MetricArrival;
use unslide_health::store::sessions::{EndReason, SessionArrival};
use unslide_model::AppSignal;
use unslide_store::app_settings::{self, AppSettings};
use unslide_store::app_signals::{self, DroppedSignal, SignalSettings};
use unslide_store::gateway_events::EventOutcome;

async fn set(database: &TestDatabase, signals: SignalSettings) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let settings = AppSettings { signals, ..AppSettings::default() };
    assert!(app_settings::replace_settings(&mut tx, APP, &settings).await.unwrap());
    tx.commit().await.unwrap();
}

fn period() -> (Date, Date) {
    (start().date(), (start() + Duration::DAY).date())
}

async fn dropped(database: &TestDatabase) -> Vec<(AppSignal, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = app_signals::list_drops(&mut tx, APP, period()).await.unwrap();
    found.into_iter().map(|DroppedSignal { signal, dropped }| (signal, dropped)).collect()
}

#[tokio::test]
async fn what_is_switched_off_is_counted_and_not_kept() {
    let database = database().await;
    assert_eq!(store_sessions(&database, &[event("known", "i1", 0, None)]).await, [EventOutcome::New]);
    set(&database, SignalSettings { sessions: false, metrics: false, ..SignalSettings::default() }).await;
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
    let sampled = |n: u32| {
        let mut ended = event(&format!("s{n}"), &format!("i{n}"), 0, Some(EndReason::Crashed));
        ended.event.sampled = Some(0.25);
        ended
    };
    store_sessions(&database, &(0..200).map(sampled).collect::<Vec<SessionArrival>>()).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let figures = figures::total_figures(&mut tx, (Some(APP), None), period()).await.unwrap();
    assert_eq!((figures.sessions, figures.crashed_sessions, figures.estimated), (800, 800, true));
    let (_, worth) = figures.independent(figures.crashed_of_sessions());
    assert!(worth < 250.0, "{worth}");
    drop(tx);
    let of = |n: u32| payload(&format!("m{n}"), 0, &json!({"session": format!("s{n}"), "sampled": 0.25}));
    let payloads: Vec<MetricArrival> = (0..200).map(of).collect();
    store_payloads(&database, &payloads).await;
    let counted = "SELECT observations::bigint FROM metric_days WHERE metric = 'launch_time'";
    assert_eq!(database.number(counted).await, 800);
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
