//! Names of apps and versions, the reports of a person, and the numbers of lists.

use crate::TenantTx;
use crate::Uuid;
use crate::persons::hash_person;
use crate::queries::groups::{self, GroupFilter, GroupOrder};
use crate::queries::names;
use crate::queries::person::{self, PersonIdKind, SearchedSession};
use crate::queries::reports::{self as listed, ReportFilter, ReportTotal, read_total};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, arrival, execute, tenant_id};
use sqlx::Row;

async fn tenant(database: &Database) -> TenantTx {
    database.store.tenant(&acme()).await.unwrap()
}

/// Adds days of many apps, each with two versions.
async fn fill_apps(database: &Database, tenant: &str, count: u32) {
    let statement = format!(
        "INSERT INTO app_days (tenant, app, version, day, reports, devices, frames_total, frames_symbolicated, complete,
             partial, none)
         SELECT '{tenant}', 'com.example.app' || lpad(n::text, 4, '0'), v, '2026-11-20'::date - n % 7, 1, 0, 0, 0, 0, 0, 1
         FROM generate_series(1, {count}) n, unnest(ARRAY['1.0', '2.' || n]) v"
    );
    execute(database, &statement).await;
}

#[tokio::test]
async fn names_are_found_however_many_there_are() {
    let database = Database::new().await;
    fill_apps(&database, "acme", 3_000).await;
    fill_apps(&database, "umbrella", 10).await;
    let mut tx = tenant(&database).await;
    let found = names::find_apps(&mut tx, None, "EXAMPLE.APP0042", 20).await.unwrap();
    assert_eq!(found, ["com.example.app0042"]);
    let found = names::find_apps(&mut tx, None, "com.example.app2999", 20).await.unwrap();
    assert_eq!(found, ["com.example.app2999"], "beyond the names that are walked");
    assert_eq!(names::find_apps(&mut tx, None, "com.example", 20).await.unwrap().len(), 20);
    let only = Some("com.example.app0001");
    assert_eq!(names::find_apps(&mut tx, only, "app0042", 20).await.unwrap(), [""; 0]);
    assert_eq!(names::find_apps(&mut tx, only, "app", 20).await.unwrap(), ["com.example.app0001"]);
    let versions = names::find_versions(&mut tx, Some("com.example.app0042"), "2.4", 20).await.unwrap();
    assert_eq!(versions.iter().map(|name| name.version.as_str()).collect::<Vec<_>>(), ["2.42"]);
    let versions = names::find_versions(&mut tx, None, "1.0", 3).await.unwrap();
    assert_eq!(versions.len(), 3);
    assert!(versions.iter().all(|name| name.version == "1.0"), "{versions:?}");
    for nothing in ["%", "_", "\\"] {
        assert_eq!(names::find_apps(&mut tx, None, nothing, 20).await.unwrap(), [""; 0], "{nothing}");
    }
}

/// Rows of a table that the connection has read by scans of whole tables, and by an index.
async fn read_rows(tx: &mut TenantTx, table: &str) -> (i64, i64) {
    let statement = "SELECT coalesce(sum(seq_tup_read), 0)::bigint, coalesce(sum(idx_tup_fetch), 0)::bigint
                     FROM pg_stat_xact_user_tables WHERE relname LIKE $1 || '%'";
    let row = sqlx::query(statement).bind(table).fetch_one(tx.parts().0).await.unwrap();
    (row.get(0), row.get(1))
}

/// Gives a tenant this many reports of other devices and sessions.
async fn fill_reports(database: &Database, tenant: &str, count: u32) {
    let id = format!("md5('{tenant}' || n)::uuid");
    let statement = format!(
        "INSERT INTO reports (tenant, received_at, report_id, variant, revision, app, version, build, type, status, device,
             run_id, summary, frames_total, frames_symbolicated, frames_device, frames_device_app, frames_missing,
             symbols_missing, system_images, wanted, stored_at)
         SELECT '{tenant}', '2026-11-20 08:00:00+00'::timestamptz - n * interval '100 milliseconds', {id}, 0, 1, 'app', '1.0',
             '', 'mach', 'none', decode(md5('device' || n), 'hex'), {id}, '{{}}', 1, 0, 0, 0, 1, false, '{{}}', '{{}}',
             '2026-11-20 08:00:00+00'
         FROM generate_series(1, {count}) n"
    );
    execute(database, &statement).await;
}

#[tokio::test]
async fn the_reports_of_a_device_and_of_sessions_are_found_by_an_index() {
    let database = Database::new().await;
    fill_reports(&database, "acme", 20_000).await;
    fill_reports(&database, "umbrella", 20_000).await;
    let run = Uuid::from_bytes([7; 16]);
    let mut of_device = arrival(1);
    of_device.facts.device = Some(hash_person("device 1").to_vec());
    let mut of_session = Arrival { report_id: arrival(2).report_id, ..arrival(2) };
    of_session.facts.run_id = Some(run);
    database.store(&[of_device.clone(), of_session.clone()]).await;
    execute(&database, "VACUUM ANALYZE").await;
    let mut tx = tenant(&database).await;
    let before = read_rows(&mut tx, "reports_").await;
    let found = person::list_device_reports(&mut tx, "device 1", None, 10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|found| (found.report.report_id, found.found_by)).collect();
    assert_eq!(ids, [(of_device.report_id, PersonIdKind::Device)]);
    let searched = [
        SearchedSession { run: Uuid::from_bytes([8; 16]), found_by: PersonIdKind::Session },
        SearchedSession { run, found_by: PersonIdKind::User },
    ];
    let found = person::list_session_reports(&mut tx, &searched, None, 10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|found| (found.report.report_id, found.found_by)).collect();
    assert_eq!(ids, [(of_session.report_id, PersonIdKind::User)]);
    let after = read_rows(&mut tx, "reports_").await;
    // Partitions without rows may be scanned: they have none to read.
    assert_eq!(after.0, before.0, "no scan of a table");
    assert!(after.1 - before.1 <= 4, "{before:?} {after:?}");
    for (id, app) in [("device 2", None), ("device 1", Some("com.acme.other"))] {
        assert_eq!(person::list_device_reports(&mut tx, id, app, 10).await.unwrap(), []);
    }
    let other = Some("com.acme.other");
    assert_eq!(person::list_session_reports(&mut tx, &searched, other, 10).await.unwrap(), []);
    drop(tx);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(person::list_device_reports(&mut tx, "device 1", None, 10).await.unwrap(), []);
    assert_eq!(person::list_session_reports(&mut tx, &searched, None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_tenant_decides_whether_persons_are_searched() {
    let database = Database::new().await;
    let mut tx = tenant(&database).await;
    assert!(!person::is_person_search_on(&mut tx).await.unwrap());
    assert!(person::set_person_search(&mut tx, true).await.unwrap());
    assert!(person::is_person_search_on(&mut tx).await.unwrap());
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(!person::is_person_search_on(&mut tx).await.unwrap());
}

#[tokio::test]
async fn a_list_has_as_many_entries_as_its_number_says() {
    let database = Database::new().await;
    let mut arrivals: Vec<Arrival> = (1..=40).map(arrival).collect();
    for (n, one) in arrivals.iter_mut().enumerate() {
        one.facts.status = ["complete", "partial"][n % 2].to_owned();
        one.facts.version = format!("1.{}", n % 3);
    }
    database.store(&arrivals).await;
    let text = |text: &str| Some(text.to_owned());
    let mut tx = tenant(&database).await;
    let group = groups::list_groups(&mut tx, &GroupFilter::default(), GroupOrder::LastSeen, None, 1).await;
    let group = group.unwrap()[0].id;
    for filter in [
        ReportFilter::default(),
        ReportFilter { version: text("1.1"), status: text("partial"), ..ReportFilter::default() },
        ReportFilter { app: text("com.acme.shop"), fatal: Some(true), ..ReportFilter::default() },
        ReportFilter { fatal: Some(false), ..ReportFilter::default() },
        ReportFilter { counted: Some(true), group: Some(group), ..ReportFilter::default() },
        ReportFilter { counted: Some(false), ..ReportFilter::default() },
        ReportFilter { model: text(""), ..ReportFilter::default() },
        ReportFilter { from: Some(arrivals[20].received_at), ..ReportFilter::default() },
        ReportFilter { text: text("bug 1"), ..ReportFilter::default() },
        ReportFilter { text: text("nothing like it"), ..ReportFilter::default() },
    ] {
        let total = read_total(&mut tx, &filter).await.unwrap().unwrap();
        let rows = listed::list_reports(&mut tx, &filter, None, 100).await.unwrap().reports.len();
        let rows = i64::try_from(rows).unwrap();
        assert_eq!(total, ReportTotal { rows, reports: rows, is_complete: true }, "{filter:?}");
    }
    for filter in [GroupFilter::default(), GroupFilter { text: text("bug 2"), ..GroupFilter::default() }] {
        let rows = groups::list_groups(&mut tx, &filter, GroupOrder::LastSeen, None, 100).await.unwrap();
        let count = groups::count_groups(&mut tx, &filter, 100).await.unwrap();
        assert_eq!(usize::try_from(count).unwrap(), rows.len(), "{filter:?}");
    }
    assert_eq!(groups::count_groups(&mut tx, &GroupFilter::default(), 2).await.unwrap(), 2);
}

#[tokio::test]
async fn the_reports_that_name_a_user_are_found() {
    let database = Database::new().await;
    let mut named = arrival(1);
    named.facts.users = vec![hash_person("user 1")];
    database.store(&[named.clone(), arrival(2)]).await;
    let mut tx = tenant(&database).await;
    let found = person::list_user_reports(&mut tx, "user 1", None, 10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|found| (found.report.report_id, found.found_by)).collect();
    assert_eq!(ids, [(named.report_id, PersonIdKind::User)]);
    for (id, app) in [("user 2", None), ("user 1", Some("com.acme.other"))] {
        assert_eq!(person::list_user_reports(&mut tx, id, app, 10).await.unwrap(), []);
    }
    drop(tx);
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(person::list_user_reports(&mut tx, "user 1", None, 10).await.unwrap(), []);
}
