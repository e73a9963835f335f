//! Positions: storing once, and readers that share.

use crate::StoreError;
use crate::positions::{self, PartitionPosition};
use crate::tests::database::Database;
use time::Duration;

fn at(partition: i32, next_offset: i64) -> PartitionPosition {
    PartitionPosition { topic: "out".into(), partition, topic_id: "id".into(), next_offset }
}

#[tokio::test]
async fn a_position_moves_once_and_only_from_where_it_is() {
    let database = Database::new().await;
    assert_eq!(positions::insert_first_position(&database.store, &at(0, 5)).await.unwrap(), at(0, 5));
    assert_eq!(
        positions::insert_first_position(&database.store, &at(0, 9)).await.unwrap(),
        at(0, 5),
        "the first one counts"
    );
    let mut tx = database.store.batch().await.unwrap();
    positions::advance_position(&mut tx, &at(0, 5), 8).await.unwrap();
    tx.commit().await.unwrap();
    for stale in [at(0, 5), at(1, 5), PartitionPosition { topic_id: "other".into(), ..at(0, 8) }] {
        let mut tx = database.store.batch().await.unwrap();
        let moved = positions::advance_position(&mut tx, &stale, 11).await;
        assert!(matches!(moved, Err(StoreError::Fenced { .. })), "{stale:?}");
    }
    assert_eq!(positions::read_positions(&database.store, "out").await.unwrap(), [at(0, 8)]);
    positions::reset_position(&database.store, &at(0, 0)).await.unwrap();
    assert_eq!(positions::read_positions(&database.store, "out").await.unwrap(), [at(0, 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_believe_in_a_position_one_stores() {
    let database = Database::new().await;
    positions::insert_first_position(&database.store, &at(0, 0)).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let store = database.store.clone();
        tasks.push(tokio::spawn(async move {
            let mut tx = store.batch().await.unwrap();
            positions::advance_position(&mut tx, &at(0, 0), 3).await?;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            tx.commit().await
        }));
    }
    let mut stored = 0;
    for task in tasks {
        stored += u32::from(task.await.unwrap().is_ok());
    }
    assert_eq!(stored, 1);
}

#[tokio::test]
async fn readers_share_partitions_and_take_over_what_falls_free() {
    let database = Database::new().await;
    let lease = Duration::seconds(15);
    let share = async |owner: &str| {
        positions::share_partitions(&database.store, "out", 5, owner, lease).await.unwrap()
    };
    assert_eq!(share("a").await, [0, 1, 2, 3, 4]);
    assert_eq!(share("b").await, Vec::<i32>::new(), "nothing is free yet");
    assert_eq!(share("a").await, [0, 1, 2], "half, rounded up, now that there are two");
    assert_eq!(share("b").await, [3, 4]);
    database.wait(Duration::seconds(10));
    assert_eq!(share("b").await, [3, 4]);
    database.wait(Duration::seconds(10));
    assert_eq!(share("b").await, [0, 1, 2, 3, 4], "the other one has said nothing for too long");
    positions::give_up(&database.store, "out", "b").await.unwrap();
    assert_eq!(share("c").await, [0, 1, 2, 3, 4]);
    // More readers than partitions.
    for owner in ["d", "e", "f", "g", "h", "i"] {
        share(owner).await;
    }
    let mut all = Vec::new();
    for owner in ["c", "d", "e", "f", "g", "h", "i"] {
        all.extend(share(owner).await);
    }
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn readers_that_begin_together_share_from_the_beginning() {
    let database = Database::new().await;
    let lease = Duration::seconds(15);
    for owner in ["a", "b"] {
        positions::announce_reader(&database.store, "out", owner, lease).await.unwrap();
    }
    let share = async |owner: &str| {
        positions::share_partitions(&database.store, "out", 4, owner, lease).await.unwrap()
    };
    assert_eq!(share("a").await, [0, 1]);
    assert_eq!(share("b").await, [2, 3]);
}
