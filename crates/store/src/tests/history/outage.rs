//! ClickHouse that does not answer: what needs a moved row waits, and everything else goes on.

use super::Past;
use crate::history;
use crate::reports::{ArrivalOutcome, Effects, delete_report, store_arrivals};
use crate::tests::database::{acme, arrival, image, revised};
use crate::{Store, StoreError};
use unslide_history::{History, HistorySettings};

/// The store with a ClickHouse that no one listens for.
fn away(past: &Past) -> Store {
    let settings = HistorySettings { url: Some("http://127.0.0.1:9".into()), ..HistorySettings::default() };
    past.store.clone().with_history(Some(History::new(&settings).unwrap()))
}

#[tokio::test]
async fn only_what_needs_a_moved_row_waits() {
    let past = Past::with_moved(3).await;
    let away = away(&past);
    let mut tx = away.tenant(&acme()).await.unwrap();
    let stored = store_arrivals(&mut tx, &[arrival(4), arrival(1)], Effects::Now, None).await.unwrap();
    assert_eq!(
        stored.iter().map(|one| one.outcome).collect::<Vec<_>>(),
        [ArrivalOutcome::New, ArrivalOutcome::Duplicate]
    );
    assert!(delete_report(&mut tx, arrival(4).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    let mut tx = away.tenant(&acme()).await.unwrap();
    let revision = revised(&arrival(1), 2, image(1, false, Some(1)));
    let failed =
        store_arrivals(&mut tx, std::slice::from_ref(&revision), Effects::Now, None).await.unwrap_err();
    assert!(
        failed.is_history() && failed.is_retriable() && !failed.is_outage() && !failed.is_of_record(),
        "{failed}"
    );
    drop(tx);
    let mut tx = away.tenant(&acme()).await.unwrap();
    let failed = delete_report(&mut tx, arrival(2).report_id, 0, None).await.unwrap_err();
    assert!(failed.is_history(), "{failed}");
    drop(tx);
    let mut tx = away.tenant(&acme()).await.unwrap();
    let moved = history::list_moved(&mut tx, &[1, 2, 4].map(|n| arrival(n).report_id)).await.unwrap();
    assert_eq!(moved.len(), 2);
    drop(tx);
    assert_eq!(past.places().await, (0, 3), "nothing is half done");
    assert_eq!(past.store(&[revision]).await[0].outcome, ArrivalOutcome::Revised);
}

#[tokio::test]
async fn a_service_without_the_settings_and_a_replica_that_is_behind_change_nothing() {
    let past = Past::with_moved(2).await;
    let without = past.store.clone().with_history(None);
    let mut tx = without.tenant(&acme()).await.unwrap();
    let failed = delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap_err();
    assert!(matches!(failed, StoreError::NoHistory), "{failed}");
    drop(tx);
    past.history.delete(&acme(), &past.versions().await[..1]).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let failed = delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap_err();
    assert!(matches!(failed, StoreError::HistoryBehind { .. }) && failed.is_history(), "{failed}");
    drop(tx);
    assert_eq!(past.places().await, (0, 2));
    // An operator who leaves ClickHouse gives it up.
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert!(history::forget_lost(&mut tx, arrival(1).report_id, 0).await.unwrap());
    assert!(!history::forget_lost(&mut tx, arrival(1).report_id, 0).await.unwrap());
    assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(past.places().await, (1, 0));
    assert_eq!(past.store(&[arrival(1)]).await[0].outcome, ArrivalOutcome::Deleted);
}
