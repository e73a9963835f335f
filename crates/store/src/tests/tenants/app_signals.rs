//! Signals that an app switches off or samples.

use crate::Uuid;
use crate::app_settings::{self, AppSettings};
use crate::app_signals::{self, DroppedSignal, SignalSettings};
use crate::queries::groups::{self, GroupFilter, GroupOrder};
use crate::queries::reports::{ReportFilter, list_reports};
use crate::queries::trends::{self, TrendStep, VersionFilter};
use crate::queries::{apps, versions};
use crate::reports::{self, Arrival, ArrivalOutcome, Effects};
use crate::tests::database::{Database, acme, arrival, grouping, revised, start, tenant_id};
use serde_json::json;
use time::{Date, Duration};
use unslide_model::AppSignal;

const APP: &str = "com.acme.shop";

async fn set(database: &Database, signals: SignalSettings) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(
        app_settings::replace_settings(&mut tx, APP, &AppSettings { signals, ..AppSettings::default() })
            .await
            .unwrap()
    );
    tx.commit().await.unwrap();
}

async fn reports_of(database: &Database, arrivals: &[Arrival]) -> Vec<ArrivalOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let stored = reports::store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    stored.into_iter().map(|one| one.outcome).collect()
}

fn period() -> (Date, Date) {
    (start().date(), (start() + Duration::DAY).date())
}

async fn dropped(database: &Database) -> Vec<(AppSignal, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = app_signals::list_drops(&mut tx, APP, period()).await.unwrap();
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
    let hang = report(1, "hang");
    assert_eq!(reports_of(&database, std::slice::from_ref(&hang)).await, [ArrivalOutcome::New]);
    let off = SignalSettings { hangs: false, ..SignalSettings::default() };
    set(&database, off).await;
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
    assert_eq!(dropped(&database).await, [(AppSignal::Hangs, 2)]);
    let before = database.dump().await;
    // It is remembered: what was dropped does not appear later.
    set(&database, SignalSettings::default()).await;
    assert_eq!(reports_of(&database, &[report(2, "launch")]).await, [ArrivalOutcome::Duplicate]);
    assert_eq!(database.dump().await, before);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(app_signals::list_drops(&mut tx, APP, period()).await.unwrap(), []);
}

#[tokio::test]
async fn counts_are_right_for_shares_that_are_no_whole_part() {
    for (share, least, most) in
        [(0.7, 142, 144), (0.6, 166, 168), (0.4, 249, 251), (0.15, 665, 668), (0.9, 110, 112)]
    {
        let database = Database::new().await;
        let hang = |n: u8| {
            let mut hang = report(n, "hang");
            hang.facts.sampled = Some(share);
            hang
        };
        reports_of(&database, &(0..100).map(hang).collect::<Vec<_>>()).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let version = versions::list_versions(&mut tx, APP, None, 10).await.unwrap().remove(0);
        assert!((least..=most).contains(&version.reports) && version.estimated, "{share}: {version:?}");
    }
}

/// The reports, whether that is an estimate, and the devices of each group, by its title.
async fn groups_of(database: &Database) -> Vec<(String, i64, bool, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found =
        groups::list_groups(&mut tx, &GroupFilter::default(), GroupOrder::LastSeen, None, 100).await.unwrap();
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
    let version = versions::list_versions(&mut tx, APP, None, 10).await.unwrap().remove(0);
    assert_eq!((version.reports, version.estimated, version.crashes), (17, true, 1));
    let app = apps::list_apps(&mut tx, None, None, 10).await.unwrap().remove(0);
    assert_eq!((app.reports, app.estimated), (17, true));
    let (from, to) = (start() - Duration::DAY, start() + Duration::DAY);
    let filter = VersionFilter { app: Some(APP), version: None };
    let total = trends::read_totals(&mut tx, filter, TrendStep::Day, from, to).await.unwrap();
    assert_eq!((total.reports, total.estimated, total.crashes), (17, true, 1));
    drop(tx);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 7, "lists have what is stored");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let listed = list_reports(&mut tx, &ReportFilter::default(), None, 10).await.unwrap().reports;
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
    assert!(reports::delete_report(&mut tx, hang.report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(groups_of(&database).await, expected[1..]);
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 13);
    assert_eq!(database.number("SELECT sum(extrapolated)::bigint FROM app_days").await, 7);
}
