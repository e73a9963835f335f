//! Reads of reports, of which some rows are in ClickHouse: they say what they said before.

use super::{Past, today};
use crate::groups::id_of;
use crate::history;
use crate::persons::hash_person;
use crate::queries::groups;
use crate::queries::groups::context::read_group_context;
use crate::queries::person::{
    PersonIdKind, SearchedSession, list_device_reports, list_session_reports, list_user_reports,
};
use crate::queries::report::find_report;
use crate::queries::session::{TimelinePage, list_timeline};
use crate::report_rows::{
    ReportFilter, ReportSample, SampleScope, find_neighbours, list_reports, read_samples, read_total,
};
use crate::reports::{Arrival, delete_report};
use crate::tests::database::{acme, arrival, debug_id, grouping};
use crate::{ReportPlace, Store, TenantTx, Uuid};
use time::Duration;
use unslide_history::{History, HistoryRow, HistorySettings};

const REPORTS: u8 = 12;
const RUN: Uuid = Uuid::from_bytes([7; 16]);

fn list_arrivals() -> Vec<Arrival> {
    let arrivals = (1..=REPORTS).map(|n| {
        let mut one = arrival(n);
        one.facts.users = vec![hash_person(if n % 2 == 0 { "even" } else { "odd" })];
        one.facts.device = Some(hash_person(if n % 3 == 0 { "third" } else { "other" }).to_vec());
        one.facts.run_id = Some(RUN).filter(|_| n % 4 == 0);
        one.facts.context = serde_json::json!({"facts": {"hot": n % 2 == 0}, "keys": {"n": n.to_string()}});
        one.facts.grouping = Some(grouping(n % 2, true));
        one
    });
    arrivals.collect()
}

/// Describes all that readers say.
async fn read_everything(tx: &mut TenantTx) -> Vec<String> {
    let mut said = Vec::new();
    let group = id_of("com.acme.shop", grouping(1, true).fingerprint);
    for filter in [
        ReportFilter::default(),
        ReportFilter { app: Some("com.acme.shop".into()), ..ReportFilter::default() },
        ReportFilter { group: Some(group), ..ReportFilter::default() },
        ReportFilter { model: Some("iPhone1,1".into()), ..ReportFilter::default() },
        ReportFilter { debug_id: Some(debug_id(1)), ..ReportFilter::default() },
        ReportFilter { debug_id: Some(debug_id(200)), ..ReportFilter::default() },
        ReportFilter { key: Some(("n".into(), "5".into())), ..ReportFilter::default() },
    ] {
        for limit in [3, 100] {
            let mut after = None;
            loop {
                let page = list_reports(tx, &filter, after.as_ref(), limit).await.unwrap();
                assert_eq!(page.history_unavailable, None);
                said.extend(page.reports.iter().map(|report| format!("{report:?}")));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        assert!(said.len() > 1, "{filter:?}");
    }
    for n in 1..=REPORTS {
        let found = find_report(tx, arrival(n).report_id, 0).await.unwrap().unwrap();
        said.push(format!("{found:?}"));
        said.push(format!("{:?}", find_neighbours(tx, &found.listed).await.unwrap()));
    }
    let places = (1..=REPORTS).map(|n| {
        let one = arrival(n);
        ReportPlace { id: one.report_id, variant: 0, received_at: one.received_at }
    });
    let places: Vec<ReportPlace> = places.collect();
    for scope in [
        SampleScope::Tenant,
        SampleScope::App("com.acme.shop"),
        SampleScope::Group(group),
        SampleScope::Version { app: "com.acme.shop", version: "1.0" },
        SampleScope::Places(&places),
        SampleScope::Places(&places[..1]),
    ] {
        for limit in [4, 100] {
            let sample = ReportSample::new(scope, "r.context", limit);
            let rows: Vec<(String,)> = read_samples(tx, [sample], &|query| {
                query.push("SELECT concat(report_id, variant, received_at, context) AS text FROM newest ORDER BY report_id");
            })
            .await
            .unwrap();
            assert!(!rows.is_empty(), "{scope:?}");
            said.push(format!("{scope:?} {limit} {rows:?}"));
        }
    }
    said.push(format!("{:?}", read_group_context(tx, group).await.unwrap()));
    said.push(format!("{:?}", groups::get(tx, group, None).await.unwrap()));
    said.push(format!("{:?}", list_device_reports(tx, "third", None, 10).await.unwrap()));
    said.push(format!("{:?}", list_user_reports(tx, "even", Some("com.acme.shop"), 10).await.unwrap()));
    let session = SearchedSession { run: RUN, found_by: PersonIdKind::Session };
    said.push(format!("{:?}", list_session_reports(tx, &[session], None, 10).await.unwrap()));
    let page = TimelinePage { app: "com.acme.shop", session: &RUN.to_string(), after: None, limit: 10 };
    said.push(format!("{:?}", list_timeline(tx, page).await.unwrap()));
    said
}

/// A place with all reports of `list_arrivals`, of which this many have moved.
async fn with_moved(count: u32) -> (Past, Vec<String>) {
    let past = Past::with_old_reports(&list_arrivals()).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let before = read_everything(&mut tx).await;
    drop(tx);
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let changed_before = past.clock_now() - Duration::days(7);
    let begun = history::begin_move(&mut tx, today(), changed_before, count, 1 << 20).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    past.insert(&begun).await;
    assert_eq!(past.finish_move(&begun).await, Some(count.into()));
    (past, before)
}

fn with_history_away(past: &Past) -> Store {
    let settings = HistorySettings { url: Some("http://127.0.0.1:9".into()), ..HistorySettings::default() };
    past.store.clone().with_history(Some(History::new(&settings).unwrap()))
}

#[tokio::test]
async fn moved_reports_are_read_as_before() {
    for count in [5, u32::from(REPORTS)] {
        let (past, before) = with_moved(count).await;
        let mut tx = past.store.tenant(&acme()).await.unwrap();
        let after = read_everything(&mut tx).await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{count} moved");
        }
        assert_eq!(before.len(), after.len(), "{count} moved");
    }
}

#[tokio::test]
async fn a_list_ends_where_postgresql_ends_if_clickhouse_is_away() {
    let (past, _) = with_moved(5).await;
    let away = with_history_away(&past);
    let mut tx = away.tenant(&acme()).await.unwrap();
    let every = ReportFilter::default();
    let page = list_reports(&mut tx, &every, None, 100).await.unwrap();
    let ids: Vec<_> = page.reports.iter().map(|report| report.report_id).collect();
    let stored: Vec<_> = (6..=REPORTS).rev().map(|n| arrival(n).report_id).collect();
    assert_eq!((ids, page.next), (stored, None));
    assert_eq!(page.history_unavailable, Some(arrival(5).received_at));
    // What PostgreSQL has alone needs no ClickHouse.
    let page = list_reports(&mut tx, &every, None, 5).await.unwrap();
    assert_eq!((page.reports.len(), page.next.is_some(), page.history_unavailable), (5, true, None));
    let newer = ReportFilter { from: Some(arrival(6).received_at), ..every.clone() };
    assert_eq!(list_reports(&mut tx, &newer, None, 100).await.unwrap().history_unavailable, None);
    find_report(&mut tx, arrival(6).report_id, 0).await.unwrap().unwrap();
    let failed = find_report(&mut tx, arrival(5).report_id, 0).await.unwrap_err();
    assert!(failed.is_history(), "{failed}");
    let group = id_of("com.acme.shop", grouping(1, true).fingerprint);
    assert_eq!(read_group_context(&mut tx, group).await.unwrap().sample, 3);
    assert!(!read_total(&mut tx, &every).await.unwrap().unwrap().is_complete);
}

#[tokio::test]
async fn foreign_deleted_and_outdated_rows_in_clickhouse_are_never_shown() {
    let (past, before) = with_moved(5).await;
    let places = past.versions().await.iter().map(|version| version.place).collect::<Vec<_>>();
    let rows = past.history.read(&acme(), &places).await.unwrap();
    let forged = |row: &HistoryRow, from: &str, to: &str| {
        assert!(row.row.contains(from), "{}", row.row);
        row.row.replace(from, to)
    };
    // A row of another tenant under acme's name, one that PostgreSQL has, and one of a report that is not there.
    let id = |n: u8| arrival(n).report_id;
    let foreign = forged(&rows[0], "\"tenant\": \"acme\"", "\"tenant\": \"umbrella\"");
    let of_other = |n: u8, text: &str| text.replace(&id(1).to_string(), &id(n).to_string());
    let first = rows.iter().find(|row| row.report_id == id(1)).unwrap();
    let by_hand = [
        HistoryRow { row: of_other(77, &foreign), report_id: id(77), ..first.clone() },
        HistoryRow { row: of_other(9, &first.row), report_id: id(9), ..first.clone() },
        HistoryRow { row: of_other(78, &first.row), report_id: id(78), ..first.clone() },
        HistoryRow {
            row: forged(first, "it crashed", "it lied"),
            version: first.version - 1,
            ..first.clone()
        },
    ];
    past.history.insert(&acme(), Uuid::from_u128(1), &by_hand).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(read_everything(&mut tx).await, before);
    for gone in [77, 78] {
        assert_eq!(find_report(&mut tx, id(gone), 0).await.unwrap(), None);
    }
    drop(tx);
    // Its row stays in ClickHouse until a job deletes it.
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, id(2), 0, None).await.unwrap());
    tx.commit().await.unwrap();
    past.history.insert(&acme(), Uuid::from_u128(2), &rows).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let page = list_reports(&mut tx, &ReportFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.reports.len(), usize::from(REPORTS) - 1);
    assert!(page.reports.iter().all(|report| report.report_id != id(2)));
    assert_eq!(find_report(&mut tx, id(2), 0).await.unwrap(), None);
}
