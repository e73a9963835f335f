//! A day of one group with many reports.

use crate::body_cap::fixture::{
    capped_database, complete_report, id, kept, listed, row, set_bodies, store_for, sweep,
};
use time::Duration;
use unslide_harness::database::{TestDatabase, acme, grouping, umbrella};
use unslide_store::reports::Arrival;

/// What lists and pages count, as rows of text.
async fn read_counts(database: &TestDatabase) -> Vec<String> {
    let mut counts = Vec::new();
    for query in [
        "SELECT count(*)::text || ' reports' FROM reports",
        "SELECT reports || ' of ' || devices || ' devices, ' || first_version || ' ' || last_version FROM groups ORDER BY tenant, id",
        "SELECT tenant || day || ' ' || sum(reports) FROM group_day_counts GROUP BY tenant, day ORDER BY 1",
        "SELECT dimension || value || ' ' || sum(reports) FROM group_breakdown_counts WHERE tenant = 'acme'
         GROUP BY dimension, value ORDER BY 1",
        "SELECT version || ' ' || reports || ' ' || devices || ' ' || complete FROM app_days ORDER BY tenant, app, version, day",
        "SELECT count(*)::text || ' users' FROM report_users",
        "SELECT count(*)::text || ' devices' FROM group_devices",
    ] {
        counts.extend(database.rows(query).await.iter().map(|row| sqlx::Row::get::<String, _>(row, 0)));
    }
    counts
}

#[tokio::test]
async fn of_500_reports_20_bodies_are_kept_and_every_count_stays() {
    let database = capped_database(20).await;
    let reports: Vec<Arrival> = (0..500).map(|n| complete_report(n, 1)).collect();
    store_for(&database, &acme(), &reports).await;
    store_for(&database, &umbrella(), &reports[..50]).await;
    // Bodies that were stored just now stay.
    assert_eq!(unslide_body_cap::sweep::take_turn(&database.store, &acme()).await.unwrap(), 0);
    let before = (read_counts(&database).await, listed(&database).await);
    assert_eq!(sweep(&database).await, 480);
    // The first twelve are one of each version and model; the newest; and the oldest.
    let expected: Vec<u16> = (0..19).chain([499]).collect();
    assert_eq!(kept(&database).await, expected);
    let mut after = (read_counts(&database).await, listed(&database).await);
    for row in &mut after.1 {
        let n = u16::from_be_bytes([row.report_id.0[0], row.report_id.0[1]]);
        assert_eq!(row.body_dropped, !expected.contains(&n), "{n}");
        // The one of the same version and model.
        assert_eq!(row.like_report, row.body_dropped.then(|| id(n % 12)), "{n}");
        (row.body_dropped, row.like_report) = (false, None);
    }
    assert_eq!(before, after);
    let other = "SELECT count(*) FROM report_bodies WHERE tenant = 'umbrella'";
    assert_eq!(database.number(other).await, 50);
    // Nothing is left to do, also for a process that does not know how far the last one came.
    assert_eq!(sweep(&database).await, 0);
    database.execute("UPDATE body_cap_turns SET swept_to = swept_to - interval '1 day'").await;
    assert_eq!(sweep(&database).await, 0);
    assert_eq!(kept(&database).await, expected);
}

#[tokio::test]
async fn later_reports_of_the_day_leave_the_chosen_ones_and_a_new_version_has_one() {
    let database = capped_database(6).await;
    let of_kind = |n: u16, version: &str| {
        let mut new = complete_report(n, 1);
        (new.facts.version, new.facts.model) = (version.to_owned(), None);
        new
    };
    let reports: Vec<Arrival> = (0..20).map(|n| of_kind(n, "1.0")).collect();
    store_for(&database, &acme(), &reports).await;
    assert_eq!(sweep(&database).await, 14);
    assert_eq!(kept(&database).await, [0, 1, 2, 3, 4, 19]);
    let mut reports: Vec<Arrival> = (20..30).map(|n| of_kind(n, "1.0")).collect();
    reports[4] = of_kind(24, "1.1");
    reports[6] = of_kind(26, "1.1");
    store_for(&database, &acme(), &reports).await;
    assert_eq!(sweep(&database).await, 10);
    assert_eq!(kept(&database).await, [0, 1, 2, 3, 24, 29]);
    let like = async |n| row(&database, n).await.like_report;
    assert_eq!((like(26).await, like(19).await, like(28).await), (Some(id(24)), Some(id(0)), Some(id(0))));
}

#[tokio::test]
async fn a_cap_holds_for_its_app_by_group_and_day_and_from_when_it_was_set() {
    let database = TestDatabase::new(&[unslide_body_cap::store::BODY_CAP_HOOK]).await;
    let early: Vec<Arrival> = (0..10).map(|n| complete_report(n, 1)).collect();
    store_for(&database, &acme(), &early).await;
    database.wait(Duration::seconds(60));
    set_bodies(&database, "", Some(3)).await;
    set_bodies(&database, "com.acme.other", Some(1)).await;
    let mut reports: Vec<Arrival> = (60..70).map(|n| complete_report(n, 1)).collect();
    // Two of another app, two of another group, and four of the next day.
    for (at, new) in reports.iter_mut().enumerate() {
        match at {
            0 | 1 => new.facts.app = "com.acme.other".to_owned(),
            2 | 3 => new.facts.grouping = Some(grouping(2, false)),
            4..8 => new.received_at += Duration::DAY,
            _ => {}
        }
    }
    store_for(&database, &acme(), &reports).await;
    assert_eq!(sweep(&database).await, 2);
    let expected: Vec<u16> = (0..10).chain([60, 62, 63, 64, 65, 67, 68, 69]).collect();
    assert_eq!(kept(&database).await, expected);
    // Without a cap nothing more is dropped.
    set_bodies(&database, "", None).await;
    set_bodies(&database, "com.acme.other", None).await;
    store_for(&database, &acme(), &(80..90).map(|n| complete_report(n, 1)).collect::<Vec<_>>()).await;
    assert_eq!(sweep(&database).await, 0);
    assert_eq!(database.number("SELECT count(*) FROM body_cap_turns").await, 0);
}
