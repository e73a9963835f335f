//! What is deleted, erased or over is shown from then on by nobody, and leaves ClickHouse with its bytes.
//! Proves: deletion

use super::{Past, today};
use crate::history;
use crate::key_erasures::{self, KeyRange};
use crate::persons::PersonHash;
use crate::queries::report::find_report;
use crate::report_rows::{ReportFilter, list_reports};
use crate::reports::{Arrival, PersonReports, delete_report, list_person_reports};
use crate::tests::database::{acme, arrival, image, revised, start};
use crate::{StoreError, TenantTx, erasure};
use time::{Date, Duration};
use unslide_model::{ReportId, SenderKeyId};

const PERSON: PersonHash = [9; 16];

fn sender_key() -> SenderKeyId {
    SenderKeyId::parse("5d1c02ab").unwrap()
}

/// Reports 1 to 3 of a key, the third later than the others, the fourth of a person, and two others.
fn list_arrivals() -> Vec<Arrival> {
    let arrivals = (1..=6).map(|n| {
        let mut one = arrival(n);
        one.facts.sender_key = Some(sender_key()).filter(|_| n <= 3);
        one.facts.users = if n == 4 { vec![PERSON] } else { Vec::new() };
        if n == 3 {
            one.received_at += Duration::HOUR;
        }
        one
    });
    arrivals.collect()
}

/// The reports that readers show.
async fn list_shown(past: &Past) -> Vec<u8> {
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let page = list_reports(&mut tx, &ReportFilter::default(), None, 100).await.unwrap();
    let mut shown: Vec<u8> = page.reports.iter().map(|report| report.report_id.0[0]).collect();
    shown.sort_unstable();
    for n in 1..=6 {
        let found = find_report(&mut tx, arrival(n).report_id, 0).await.unwrap();
        assert_eq!(found.is_some(), shown.contains(&n), "{n}");
    }
    shown
}

async fn delete_all(tx: &mut TenantTx, reports: &[(ReportId, u32)]) {
    for (id, variant) in reports {
        assert!(delete_report(tx, *id, *variant, None).await.unwrap());
    }
}

impl Past {
    /// The reports in ClickHouse, once what is queued has left it with its bytes.
    async fn left_in_clickhouse(&self) -> Vec<u8> {
        self.delete_queued().await;
        assert_eq!(self.number("SELECT count(*) FROM history_deletions").await, 0);
        self.history.apply_deletions().await.unwrap();
        assert!(!self.history.apply_deletions().await.unwrap(), "no part has the bytes of a deleted row");
        self.versions().await.iter().map(|version| version.place.report_id.0[0]).collect()
    }

    /// Deletes the days before one as retention does.
    async fn expire(&self, before: Date) {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        while history::expire_moved(&mut tx, before, 2).await.unwrap() > 0 {}
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_key_a_person_and_a_day_leave_no_row_and_no_byte_in_clickhouse() {
    let past = Past::with_old_reports(&list_arrivals()).await;
    // Each is there twice: it came back once, and moved again.
    assert_eq!(past.move_rows().await, 6);
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 6);
    tx.commit().await.unwrap();
    assert_eq!(past.move_rows().await, 6);
    assert_eq!(list_shown(&past).await, [1, 2, 3, 4, 5, 6]);
    let begin = start() - Duration::HOUR;
    let range = KeyRange { key: sender_key(), begin, end: start() + Duration::minutes(30), version: None };
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let of_key = key_erasures::list_reports(&mut tx, &range, 10).await.unwrap();
    assert_eq!(of_key.iter().map(|(id, _)| id.0[0]).collect::<Vec<_>>(), [1, 2]);
    delete_all(&mut tx, &of_key).await;
    let later = past.clock_now();
    let of_person = list_person_reports(&mut tx, PersonReports::User(PERSON), later, 10).await.unwrap();
    assert_eq!(of_person.iter().map(|(id, _)| id.0[0]).collect::<Vec<_>>(), [4]);
    delete_all(&mut tx, &of_person).await;
    tx.commit().await.unwrap();
    assert_eq!(list_shown(&past).await, [3, 5, 6]);
    assert_eq!(past.versions().await.len(), 6, "ClickHouse still has all of them");
    assert_eq!(past.left_in_clickhouse().await, [5, 6, 3]);
    let after = today() + Duration::DAY;
    past.expire(after).await;
    assert_eq!(list_shown(&past).await, [0; 0]);
    assert_eq!(past.versions().await.len(), 3);
    past.history.delete_before(&acme(), after.midnight().assume_utc()).await.unwrap();
    assert_eq!(past.left_in_clickhouse().await, [0; 0]);
}

#[tokio::test]
async fn nothing_of_a_deleted_tenant_comes_back_and_a_late_insert_is_deleted_by_the_second_pass() {
    let past = Past::with_moved(4).await;
    past.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let refused = history::bring_back_oldest(&mut tx, 10).await.unwrap_err();
    assert!(matches!(refused, StoreError::TenantDeleted), "{refused}");
    drop(tx);
    let mut emptied = 0;
    loop {
        let mut tx = past.store.tenant(&acme()).await.unwrap();
        let gone = erasure::erase_rows(&mut tx, &mut emptied, 100).await.unwrap();
        tx.commit().await.unwrap();
        if gone.is_none() {
            break;
        }
    }
    assert_eq!(past.number("SELECT count(*) FROM history_deletions").await, 0);
    assert_eq!(list_shown(&past).await, [0; 0]);
    let rows = past.history.read(&acme(), &[past.versions().await[0].place]).await.unwrap();
    // A builder does this twice, the second time much later: an indexer may have been in the middle of an insert.
    for token in 1..=2 {
        past.history.delete_tenant(&acme()).await.unwrap();
        assert_eq!(past.left_in_clickhouse().await, [0; 0]);
        if token == 1 {
            past.history.insert(&acme(), crate::Uuid::from_u128(token), &rows).await.unwrap();
            assert_eq!(list_shown(&past).await, [0; 0]);
        }
    }
}
