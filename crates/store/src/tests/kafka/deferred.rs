//! Ranges of deferred records: extended and shortened without losing one.

use crate::deferred::{self, DeferredRange, StoredPart};
use crate::positions::{self, PartitionPosition};
use crate::tests::database::{Database, acme, execute, start, tenant_id};
use crate::{Result, StoreError, erasure, tenants};
use std::sync::Arc;

pub fn range(tenant: &str, partition: i32, from: i64, to: i64) -> DeferredRange {
    DeferredRange {
        tenant: tenant_id(tenant),
        topic: "out".into(),
        topic_id: "id".into(),
        partition,
        from,
        to,
        records: to - from,
        oldest_at: start(),
    }
}

async fn extend(database: &Database, more: &DeferredRange) {
    let mut tx = database.store.batch().await.unwrap();
    deferred::extend_ranges(&mut tx, std::slice::from_ref(more)).await.unwrap();
    tx.commit().await.unwrap();
}

fn part(range: &DeferredRange, next: i64, records: i64) -> StoredPart {
    StoredPart { range: range.clone(), next, records, oldest_at: start() }
}

async fn shorten(database: &Database, range: &DeferredRange, next: i64, records: i64) -> Result<()> {
    let mut tx = database.store.batch().await.unwrap();
    deferred::shorten_ranges(&mut tx, &[part(range, next, records)]).await?;
    tx.commit().await
}

async fn ranges(database: &Database) -> Vec<DeferredRange> {
    deferred::list_ranges(&database.store, &["out".to_owned()]).await.unwrap()
}

#[tokio::test]
async fn a_range_grows_is_shortened_from_where_it_begins_and_closes_at_its_end() {
    let database = Database::new().await;
    extend(&database, &range("acme", 0, 5, 8)).await;
    extend(&database, &range("acme", 0, 10, 12)).await;
    extend(&database, &range("umbrella", 0, 6, 7)).await;
    let grown = DeferredRange { records: 5, ..range("acme", 0, 5, 12) };
    assert_eq!(ranges(&database).await, [grown.clone(), range("umbrella", 0, 6, 7)]);
    shorten(&database, &grown, 9, 3).await.unwrap();
    let shorter = DeferredRange { records: 2, ..range("acme", 0, 9, 12) };
    assert_eq!(ranges(&database).await[0], shorter);
    // One that begins somewhere else leaves all as they are.
    let mut tx = database.store.batch().await.unwrap();
    let both = [part(&range("umbrella", 0, 6, 7), 7, 1), part(&grown, 12, 2)];
    assert!(deferred::shorten_ranges(&mut tx, &both).await.is_err());
    tx.commit().await.unwrap();
    assert_eq!(ranges(&database).await, [shorter.clone(), range("umbrella", 0, 6, 7)]);
    for stale in [grown, DeferredRange { topic_id: "other".into(), ..shorter.clone() }] {
        let fenced = shorten(&database, &stale, 12, 3).await;
        assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "{stale:?}");
    }
    shorten(&database, &shorter, 12, 2).await.unwrap();
    assert_eq!(ranges(&database).await, [range("umbrella", 0, 6, 7)]);
    assert!(deferred::list_ranges(&database.store, &["in".to_owned()]).await.unwrap().is_empty());
}

/// The reader that stores the last record of a range closes it while the other one adds to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_that_is_extended_while_it_is_closed_keeps_what_was_added() {
    let database = Arc::new(Database::new().await);
    for close_first in [true, false] {
        extend(&database, &range("acme", 0, 5, 8)).await;
        let known = ranges(&database).await.remove(0);
        let mut first = database.store.batch().await.unwrap();
        if close_first {
            deferred::shorten_ranges(&mut first, &[part(&known, 8, 3)]).await.unwrap();
        } else {
            deferred::extend_ranges(&mut first, &[range("acme", 0, 8, 9)]).await.unwrap();
        }
        let own = Arc::clone(&database);
        let second = tokio::spawn(async move {
            let mut tx = own.store.batch().await.unwrap();
            if close_first {
                deferred::extend_ranges(&mut tx, &[range("acme", 0, 8, 9)]).await.unwrap();
            } else {
                deferred::shorten_ranges(&mut tx, &[part(&known, 8, 3)]).await.unwrap();
            }
            tx.commit().await.unwrap();
        });
        database.wait_for_lock().await;
        assert!(!second.is_finished(), "it waits for the row");
        first.commit().await.unwrap();
        second.await.unwrap();
        let left = ranges(&database).await.remove(0);
        assert_eq!((left.from, left.to), (8, 9), "{close_first}");
        shorten(&database, &left, 9, 1).await.unwrap();
    }
}

/// Proves: replay
#[tokio::test]
async fn a_partition_is_stored_up_to_its_first_deferred_record() {
    let database = Database::new().await;
    let at = |partition, next_offset| PartitionPosition {
        topic: "out".into(),
        partition,
        topic_id: "id".into(),
        next_offset,
    };
    for position in [at(0, 20), at(1, 30)] {
        positions::insert_first_position(&database.store, &position).await.unwrap();
    }
    extend(&database, &range("acme", 0, 8, 20)).await;
    extend(&database, &range("umbrella", 0, 5, 7)).await;
    // Nobody waits for a tenant that does not exist.
    extend(&database, &range("nobody", 0, 2, 4)).await;
    // What was deferred of a topic that is not there any more counts for none.
    extend(&database, &DeferredRange { topic_id: "old".into(), ..range("acme", 1, 3, 4) }).await;
    assert_eq!(positions::read_stored_positions(&database.store).await.unwrap(), [at(0, 5), at(1, 30)]);
    assert_eq!(positions::read_all_positions(&database.store).await.unwrap(), [at(0, 20), at(1, 30)]);
}

#[tokio::test]
async fn a_tenant_is_unknown_until_it_is_made_and_known_after_its_deletion() {
    let database = Database::new().await;
    let names = [acme(), tenant_id("nobody")].into();
    let unknown = async || tenants::find_unknown(&database.store, &names).await.unwrap();
    assert_eq!(unknown().await, [tenant_id("nobody")].into());
    execute(&database, "UPDATE tenants SET state = 'deleted' WHERE slug = 'acme'").await;
    assert_eq!(unknown().await, [tenant_id("nobody")].into());
    assert_eq!(tenants::find_unknown(&database.store, &[].into()).await.unwrap(), [].into());
}

/// Proves: deletion
#[tokio::test]
async fn nothing_is_deferred_of_a_deleted_tenant_and_its_ranges_go() {
    let database = Database::new().await;
    extend(&database, &range("acme", 0, 5, 8)).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let mut emptied = 0;
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let gone = erasure::erase_rows(&mut tx, &mut emptied, 100).await.unwrap();
        tx.commit().await.unwrap();
        if gone.is_none() {
            break;
        }
    }
    assert!(ranges(&database).await.is_empty());
    // A tenant that was never there may be made again: a database was restored.
    for tenant in ["acme", "nobody"] {
        extend(&database, &range(tenant, 0, 8, 9)).await;
    }
    assert_eq!(ranges(&database).await, [range("nobody", 0, 8, 9)]);
}
