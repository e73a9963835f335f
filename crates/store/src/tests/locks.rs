//! Locks of statements over all stored days.

use crate::reports::partitions::{ensure_partitions, read_lock_capacity};
use crate::tests::database::{Database, start};
use time::Duration;

#[tokio::test]
async fn the_widest_statement_grows_with_the_stored_days() {
    let database = Database::new().await;
    let before = read_lock_capacity(&database.store).await.unwrap();
    let day = start().date();
    ensure_partitions(&database.store, day + Duration::days(50), day + Duration::days(59)).await.unwrap();
    let after = read_lock_capacity(&database.store).await.unwrap();
    let more = after.widest_statement - before.widest_statement;
    assert!(more >= 10 * 10 && more % 10 == 0, "ten days with their indexes: {before:?}, {after:?}");
    let counted = "WITH all_days AS MATERIALIZED (SELECT count(*) FROM reports) \
        SELECT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()) FROM all_days";
    let locked = database.number(counted).await;
    assert!((after.widest_statement..after.widest_statement + 50).contains(&locked), "{locked} of {after:?}");
}
