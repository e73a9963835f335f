//! Signals that an app switches off or samples.

use crate::app_settings::{self, AppSettings};
use crate::app_signals::{self, AppSignal, DroppedSignal, SignalSettings};
use crate::gateway_events::EventOutcome;
use crate::metrics::{self, MetricArrival};
use crate::queries::groups::{self, GroupFilter, GroupOrder};
use crate::queries::reports::{ReportFilter, list};
use crate::queries::session::{self, TimelinePage};
use crate::queries::trends::{self, TrendStep};
use crate::queries::{apps, health, versions};
use crate::reports::{self, Arrival, ArrivalOutcome, Effects};
use crate::sessions::{self, EndReason, SessionArrival};
use crate::tests::database::{Database, acme, arrival, grouping, revised, start, tenant_id};
use crate::{Uuid, tests};
use serde_json::json;
use time::{Date, Duration};
use unslide_model::ContentHash;

const APP: &str = "com.acme.shop";

async fn set(database: &Database, signals: SignalSettings) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(
        app_settings::put(&mut tx, APP, &AppSettings { signals, ..AppSettings::default() }).await.unwrap()
    );
    tx.commit().await.unwrap();
}

async fn sessions_of(database: &Database, arrivals: &[SessionArrival]) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<&SessionArrival> = arrivals.iter().collect();
    let stored = sessions::store(&mut tx, &arrivals, start().date()).await.unwrap();
    tx.commit().await.unwrap();
    stored
}

async fn metrics_of(database: &Database, arrivals: &[MetricArrival]) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<&MetricArrival> = arrivals.iter().collect();
    let stored = metrics::store(&mut tx, &arrivals, start().date()).await.unwrap();
    tx.commit().await.unwrap();
    stored
}

async fn reports_of(database: &Database, arrivals: &[Arrival]) -> Vec<ArrivalOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stored = reports::store(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    stored.into_iter().map(|one| one.outcome).collect()
}

fn period() -> (Date, Date) {
    (start().date(), (start() + Duration::DAY).date())
}

async fn dropped(database: &Database) -> Vec<(AppSignal, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = app_signals::dropped(&mut tx, APP, period()).await.unwrap();
    found.into_iter().map(|DroppedSignal { signal, dropped }| (signal, dropped)).collect()
}

/// A report of a kind, of a run.
fn report(n: u8, kind: &str) -> Arrival {
    let mut report = arrival(n);
    (report.facts.app, report.facts.kind) = (APP.to_owned(), kind.to_owned());
    report.facts.run_id = Some(Uuid::from_bytes([7; 16]));
    let mut group = grouping(n, false);
    group.kind = kind.to_owned();
    report.facts.grouping = Some(group);
    report
}

#[tokio::test]
async fn what_is_switched_off_is_counted_and_not_kept() {
    let database = Database::new().await;
    let begun = tests::sessions::event("known", "i1", 0, None);
    assert_eq!(sessions_of(&database, &[begun]).await, [EventOutcome::New]);
    let hang = report(1, "hang");
    assert_eq!(reports_of(&database, std::slice::from_ref(&hang)).await, [ArrivalOutcome::New]);
    let off = SignalSettings { sessions: 0, metrics: 0, hangs: 0, ..SignalSettings::default() };
    set(&database, off).await;
    let ended = tests::sessions::event("known", "i1", 0, Some(EndReason::Crashed));
    let other = tests::sessions::event("other", "i1", 0, None);
    // What is known is completed, so that crashes are not missed.
    assert_eq!(
        sessions_of(&database, &[ended, other]).await,
        [EventOutcome::Completed, EventOutcome::SwitchedOff]
    );
    let payload = tests::metrics::arrival("m1", 0, &json!({}));
    assert_eq!(metrics_of(&database, &[payload]).await, [EventOutcome::SwitchedOff]);
    assert_eq!(
        reports_of(&database, &[report(2, "launch"), report(3, "crash"), report(4, "javascript")]).await,
        [ArrivalOutcome::SwitchedOff, ArrivalOutcome::New, ArrivalOutcome::New]
    );
    // What ended the app is a crash, whatever its group is.
    let (mut deadlock, mut fatal, mut survived) = (report(5, "hang"), report(6, "hang"), report(7, "hang"));
    deadlock.facts.kind = "deadlock".to_owned();
    fatal.facts.summary = json!({"fatal": true});
    (survived.facts.kind, survived.facts.summary) = ("deadlock".to_owned(), json!({"fatal": false}));
    assert_eq!(
        reports_of(&database, &[deadlock, fatal, survived]).await,
        [ArrivalOutcome::New, ArrivalOutcome::New, ArrivalOutcome::SwitchedOff]
    );
    let better = Arrival { facts: hang.facts.clone(), ..revised(&hang, 2, hang.images[0].clone()) };
    assert_eq!(reports_of(&database, &[better]).await, [ArrivalOutcome::Revised]);
    let counted = [(AppSignal::Hangs, 2), (AppSignal::Metrics, 1), (AppSignal::Sessions, 1)];
    assert_eq!(dropped(&database).await, counted);
    let before = database.dump().await;
    // It is remembered: what was dropped does not appear later.
    set(&database, SignalSettings::default()).await;
    assert_eq!(reports_of(&database, &[report(2, "launch")]).await, [ArrivalOutcome::Duplicate]);
    assert_eq!(database.dump().await, before);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(app_signals::dropped(&mut tx, APP, period()).await.unwrap(), []);
}

#[tokio::test]
async fn a_sample_of_sessions_stands_for_all_and_is_no_more_certain() {
    let database = Database::new().await;
    set(&database, SignalSettings { sessions: 4, metrics: 4, ..SignalSettings::default() }).await;
    let all = |end: Option<EndReason>| -> Vec<SessionArrival> {
        (0..800).map(|n| tests::sessions::event(&format!("s{n}"), &format!("i{n}"), 0, end)).collect()
    };
    sessions_of(&database, &all(None)).await;
    // The end of a session shares the fate of its beginning, whatever was chosen between.
    set(&database, SignalSettings { sessions: 1_000, metrics: 4, ..SignalSettings::default() }).await;
    sessions_of(&database, &all(Some(EndReason::Crashed))).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let figures = health::total(&mut tx, (Some(APP), None), period()).await.unwrap();
    assert!((650..950).contains(&figures.sessions) && figures.estimated, "{figures:?}");
    assert!(figures.crashed_sessions >= figures.sessions - 2_000 && figures.crashed_sessions > 0);
    let (_, worth) = figures.independent(figures.crashed_of_sessions());
    assert!(worth < 250.0, "{worth}");
    drop(tx);
    let of = |n: u32| tests::metrics::arrival(&format!("m{n}"), 0, &json!({"session": format!("s{n}")}));
    let payloads: Vec<MetricArrival> = (0..800).map(of).collect();
    metrics_of(&database, &payloads).await;
    let counted = "SELECT observations::bigint FROM metric_days WHERE metric = 'launch_time'";
    let kept = "SELECT count(*) * 4 FROM metric_payloads";
    assert_eq!(database.number(counted).await, database.number(kept).await);
    // The payloads of a session that is kept are kept.
    let apart = "SELECT count(*) FROM metric_payloads p WHERE NOT EXISTS
                 (SELECT FROM sessions s WHERE s.session_id = p.session_id)";
    assert_eq!(database.number(apart).await, 0);
}

#[tokio::test]
async fn counts_are_right_for_shares_that_are_no_whole_part() {
    for (share, least, most) in
        [(0.7, 142, 144), (0.6, 166, 168), (0.4, 249, 251), (0.15, 665, 668), (0.9, 110, 112)]
    {
        let database = Database::new().await;
        let session = |n: u32| {
            let mut begun =
                tests::sessions::event(&format!("s{n}"), &format!("i{n}"), 0, Some(EndReason::Crashed));
            begun.event.sampled = Some(share);
            begun
        };
        let hang = |n: u8| {
            let mut hang = report(n, "hang");
            hang.facts.sampled = Some(share);
            hang
        };
        sessions_of(&database, &[session(0)]).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let figures = health::total(&mut tx, (Some(APP), None), period()).await.unwrap();
        assert!(figures.estimated, "{share}: one session stands for more than itself: {figures:?}");
        drop(tx);
        sessions_of(&database, &(1..100).map(session).collect::<Vec<_>>()).await;
        reports_of(&database, &(0..100).map(hang).collect::<Vec<_>>()).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let figures = health::total(&mut tx, (Some(APP), None), period()).await.unwrap();
        // The first session was in a batch of its own.
        assert!(
            (least - 1..=most + 1).contains(&figures.sessions) && figures.estimated,
            "{share}: {figures:?}"
        );
        assert_eq!(figures.crashed_sessions, figures.sessions);
        let version = versions::list(&mut tx, APP, None, 10).await.unwrap().remove(0);
        assert!((least..=most).contains(&version.reports) && version.estimated, "{share}: {version:?}");
    }
}

/// The reports, whether that is an estimate, and the devices of each group, by its title.
async fn groups_of(database: &Database) -> Vec<(String, i64, bool, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found =
        groups::list(&mut tx, &GroupFilter::default(), GroupOrder::LastSeen, None, 100).await.unwrap();
    let mut counted: Vec<_> = found
        .into_iter()
        .map(|group| (group.title, group.reports, group.estimated, group.affected_devices))
        .collect();
    counted.sort_unstable();
    counted
}

#[tokio::test]
async fn a_report_that_was_sampled_counts_as_many_as_it_stands_for_and_a_crash_as_one() {
    let database = Database::new().await;
    let sampled = |n: u8, kind: &str| {
        let mut sampled = report(n, kind);
        sampled.facts.sampled = Some(0.25);
        sampled
    };
    let hang = sampled(1, "hang");
    let (mut fatal, crash) = (sampled(2, "hang"), sampled(3, "crash"));
    fatal.facts.summary = json!({"fatal": true});
    let mut half = sampled(6, "user");
    half.facts.sampled = Some(0.5);
    // An end out of memory is no crash, whatever the device says.
    let mut out_of_memory = sampled(7, "out_of_memory");
    out_of_memory.facts.summary = json!({"fatal": true});
    let user = sampled(4, "user");
    let all = [hang.clone(), fatal, crash, user, report(5, "javascript"), half, out_of_memory];
    assert_eq!(reports_of(&database, &all).await, [ArrivalOutcome::New; 7]);
    let title = |n: u8| format!("bug {n}");
    let expected = [
        (title(1), 4, true, 1),
        (title(2), 1, false, 1),
        (title(3), 1, false, 1),
        (title(4), 4, true, 1),
        (title(5), 1, false, 1),
        (title(6), 2, true, 1),
        (title(7), 4, true, 1),
    ];
    assert_eq!(groups_of(&database).await, expected);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let version = versions::list(&mut tx, APP, None, 10).await.unwrap().remove(0);
    assert_eq!((version.reports, version.estimated, version.crashes), (17, true, 1));
    let app = apps::list(&mut tx, None, None, 10).await.unwrap().remove(0);
    assert_eq!((app.reports, app.estimated), (17, true));
    let period = (start() - Duration::DAY, start() + Duration::DAY);
    let total = trends::totals(&mut tx, (Some(APP), None), TrendStep::Day, period).await.unwrap();
    assert_eq!((total.reports, total.estimated, total.crashes), (17, true, 1));
    drop(tx);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 7, "lists have what is stored");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let listed = list(&mut tx, &ReportFilter::default(), None, 10).await.unwrap().reports;
    drop(tx);
    let mut weights: Vec<_> = listed.iter().map(|row| (row.report_id.0[0], row.weight)).collect();
    weights.sort_unstable();
    assert_eq!(weights, [(1, 4), (2, 1), (3, 1), (4, 4), (5, 1), (6, 2), (7, 4)]);
    // A better answer counts as the first one, whatever it says; a deletion takes back what was counted.
    let mut better = revised(&hang, 2, hang.images[0].clone());
    (better.facts.grouping, better.facts.sampled) = (hang.facts.grouping.clone(), Some(0.001));
    assert_eq!(reports_of(&database, &[better]).await, [ArrivalOutcome::Revised]);
    assert_eq!(groups_of(&database).await, expected);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete(&mut tx, hang.report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(groups_of(&database).await, expected[1..]);
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 13);
    assert_eq!(database.number("SELECT sum(extrapolated)::bigint FROM app_days").await, 7);
}

#[tokio::test]
async fn reports_share_the_fate_of_their_session_and_those_of_crashes_are_all_kept() {
    let database = Database::new().await;
    set(&database, SignalSettings { hangs: 4, sessions: 4, ..SignalSettings::default() }).await;
    let run = |n: u8| Uuid::from_bytes([n; 16]);
    let begun: Vec<SessionArrival> = (1..=150)
        .map(|n| tests::sessions::event(&run(n).to_string().to_uppercase(), &format!("i{n}"), 0, None))
        .collect();
    sessions_of(&database, &begun).await;
    let of_run = |n: u8, kind: &str| {
        let mut of_run = report(n, kind);
        of_run.facts.run_id = Some(run(n));
        of_run
    };
    let hangs: Vec<Arrival> = (1..=150).map(|n| of_run(n, "hang")).collect();
    let outcomes = reports_of(&database, &hangs).await;
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
    assert!(reports_of(&database, &hangs).await.iter().all(|one| *one == ArrivalOutcome::Duplicate));
    set(&database, SignalSettings { hangs: 1_000, ..SignalSettings::default() }).await;
    assert_eq!(reports_of(&database, &[of_run(151, "crash")]).await, [ArrivalOutcome::New]);
}

#[tokio::test]
async fn a_session_has_its_signals_in_the_order_of_time() {
    let database = Database::new().await;
    let run = Uuid::from_bytes([7; 16]).to_string();
    sessions_of(&database, &[tests::sessions::event(&run, "i1", 0, Some(EndReason::Crashed))]).await;
    let mut hang = report(1, "hang");
    hang.facts.device_time = Some(start() + Duration::seconds(5));
    hang.facts.kind = "hang".to_owned();
    // Another report under the same id.
    let variant = Arrival { content_hash: ContentHash([9; 32]), ..hang.clone() };
    reports_of(&database, &[hang]).await;
    reports_of(&database, &[variant]).await;
    metrics_of(&database, &[tests::metrics::arrival("m1", 0, &json!({ "session": run }))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let whole = TimelinePage { app: APP, session: &run, after: None, limit: 10 };
    let found = session::timeline(&mut tx, whole).await.unwrap();
    let kinds: Vec<_> =
        found.iter().map(|event| (&*event.kind, event.detail.as_deref(), event.variant)).collect();
    assert_eq!(
        kinds,
        [
            ("metrics", None, 0),
            ("started", None, 0),
            ("report", Some("hang"), 0),
            ("report", Some("hang"), 1),
            ("ended", Some("crashed"), 0)
        ]
    );
    let (mut paged, mut after) = (Vec::new(), None::<(_, String, String, u32)>);
    loop {
        let place = after.as_ref().map(|(at, kind, id, variant)| (*at, kind.as_str(), id.as_str(), *variant));
        let page = TimelinePage { after: place, limit: 1, ..whole };
        let page = session::timeline(&mut tx, page).await.unwrap();
        let Some(last) = page.into_iter().next() else { break };
        after = Some((last.at, last.kind.clone().into_owned(), last.id.clone(), last.variant));
        paged.push(last);
    }
    assert_eq!(paged, found);
    assert_eq!(session::timeline(&mut tx, TimelinePage { app: "other", ..whole }).await.unwrap(), []);
    drop(tx);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(session::timeline(&mut tx, whole).await.unwrap(), []);
}
