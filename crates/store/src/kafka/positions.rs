//! Read positions of the indexers. A position moves in the transaction that stores the records, and only if
//! it is at the offset that its reader expects. So each record is stored once, and a reader that lost its
//! partition stores nothing.

use crate::{BatchTx, Result, Store, StoreError};
use time::{Duration, OffsetDateTime};

/// The position of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPosition {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The broker's id of the topic when reading began.
    pub topic_id: String,
    /// The first offset that was not read.
    pub next_offset: i64,
}

/// Reads the positions of a topic, by partition.
pub async fn read_positions(store: &Store, topic: &str) -> Result<Vec<PartitionPosition>> {
    Ok(sqlx::query_as!(
        PartitionPosition,
        "SELECT topic, partition, topic_id, next_offset FROM positions WHERE topic = $1 ORDER BY partition",
        topic
    )
    .fetch_all(store.pool())
    .await?)
}

/// Reads the positions of all topics.
pub async fn read_all_positions(store: &Store) -> Result<Vec<PartitionPosition>> {
    Ok(sqlx::query_as!(
        PartitionPosition,
        "SELECT topic, partition, topic_id, next_offset FROM positions ORDER BY topic, partition"
    )
    .fetch_all(store.pool())
    .await?)
}

/// Returns the offset up to which each partition of all topics is stored: its position, or the first record
/// before it that was deferred and still waits.
pub async fn read_stored_positions(store: &Store) -> Result<Vec<PartitionPosition>> {
    Ok(sqlx::query_as!(
        PartitionPosition,
        r#"SELECT topic AS "topic!", partition AS "partition!", topic_id AS "topic_id!", next_offset AS "next_offset!"
           FROM unslide_stored_positions()"#
    )
    .fetch_all(store.pool())
    .await?)
}

/// Inserts the first position of a partition, and returns the position that it has: another reader may have
/// inserted one before.
pub async fn insert_first_position(store: &Store, first: &PartitionPosition) -> Result<PartitionPosition> {
    sqlx::query!(
        "INSERT INTO positions (topic, partition, topic_id, next_offset, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        first.topic,
        first.partition,
        first.topic_id,
        first.next_offset,
        store.now()
    )
    .execute(store.pool())
    .await?;
    Ok(sqlx::query_as!(
        PartitionPosition,
        "SELECT topic, partition, topic_id, next_offset FROM positions WHERE topic = $1 AND partition = $2",
        first.topic,
        first.partition
    )
    .fetch_one(store.pool())
    .await?)
}

/// Moves a position from `from` to `next`.
///
/// # Errors
/// [`StoreError::Fenced`] if it is at another offset: the caller has to give up the whole transaction; or the
/// database fails.
pub async fn advance_position(tx: &mut BatchTx, from: &PartitionPosition, next: i64) -> Result<()> {
    let (connection, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE positions SET next_offset = $5, updated_at = $6
         WHERE topic = $1 AND partition = $2 AND topic_id = $3 AND next_offset = $4",
        from.topic,
        from.partition,
        from.topic_id,
        from.next_offset,
        next,
        now
    )
    .execute(connection)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(());
    }
    Err(StoreError::Fenced {
        topic: from.topic.clone(),
        partition: from.partition,
        expected: from.next_offset,
    })
}

/// Puts a position somewhere else: an operator's decision, made while no indexer runs.
pub async fn reset_position(store: &Store, to: &PartitionPosition) -> Result<()> {
    sqlx::query!(
        "INSERT INTO positions (topic, partition, topic_id, next_offset, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (topic, partition) DO UPDATE
             SET topic_id = EXCLUDED.topic_id, next_offset = EXCLUDED.next_offset, updated_at = EXCLUDED.updated_at",
        to.topic,
        to.partition,
        to.topic_id,
        to.next_offset,
        store.now()
    )
    .execute(store.pool())
    .await?;
    Ok(())
}

/// Takes, keeps or gives up leases so that the readers of a topic share its partitions evenly: each reader
/// keeps its partitions, and takes as many free ones as its share allows. Returns the partitions that `owner`
/// reads until it asks again, which has to be well before `lease` is over.
pub async fn share_partitions(
    store: &Store,
    topic: &str,
    partitions: i32,
    owner: &str,
    lease: Duration,
) -> Result<Vec<i32>> {
    let now = store.now();
    let mut tx = store.pool().begin().await?;
    // One reader at a time decides, and the share of a reader that has just come is known at once.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtext('unslide_share/' || $1))", topic)
        .execute(&mut *tx)
        .await?;
    let known = sqlx::query_as!(
        PartitionLease,
        "SELECT partition, owner, lease_until FROM partition_leases WHERE topic = $1 ORDER BY partition",
        topic
    )
    .fetch_all(&mut *tx)
    .await?;
    let number = reader_number(&known, owner);
    let (over, leases): (Vec<_>, Vec<_>) = known.into_iter().partition(|held| held.lease_until < now);
    let keep = fair_share(&leases, owner, partitions);
    let own: Vec<i32> = keep.iter().copied().chain([number]).collect();
    let not_kept = over.iter().chain(leases.iter().filter(|held| held.owner == owner));
    let gone: Vec<i32> = not_kept.map(|held| held.partition).filter(|p| !own.contains(p)).collect();
    if !gone.is_empty() {
        sqlx::query!("DELETE FROM partition_leases WHERE topic = $1 AND partition = ANY ($2)", topic, &gone)
            .execute(&mut *tx)
            .await?;
    }
    sqlx::query!(
        "INSERT INTO partition_leases (topic, partition, owner, lease_until)
         SELECT $1, p, $2, $4 FROM unnest($3::integer[]) AS p
         ON CONFLICT (topic, partition) DO UPDATE SET owner = EXCLUDED.owner, lease_until = EXCLUDED.lease_until",
        topic,
        owner,
        &own,
        now + lease
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(keep)
}

/// Announces `owner` to the other readers of a topic, before it asks for partitions: readers that begin
/// together share them from the beginning.
pub async fn announce_reader(store: &Store, topic: &str, owner: &str, lease: Duration) -> Result<()> {
    share_partitions(store, topic, 0, owner, lease).await.map(drop)
}

struct PartitionLease {
    /// Negative in the row that announces its reader, even before it has a partition.
    partition: i32,
    owner: String,
    lease_until: OffsetDateTime,
}

/// Returns the negative number of a reader: the one that it has, or a new one.
fn reader_number(leases: &[PartitionLease], owner: &str) -> i32 {
    let mut readers = leases.iter().filter(|held| held.partition < 0);
    let own = readers.clone().find(|held| held.owner == owner);
    own.or_else(|| readers.next()).map_or(-1, |held| held.partition - i32::from(held.owner != owner))
}

/// Returns the partitions that a reader keeps or takes: of its own and the free ones as many as each reader
/// may have.
fn fair_share(leases: &[PartitionLease], owner: &str, partitions: i32) -> Vec<i32> {
    let others = leases.iter().filter(|held| held.partition < 0 && held.owner != owner).count();
    let allowed = usize::try_from(partitions).unwrap_or(0).div_ceil(others + 1);
    let own =
        leases.iter().filter(|held| held.partition >= 0 && held.owner == owner).map(|held| held.partition);
    let free = (0..partitions).filter(|p| !leases.iter().any(|held| held.partition == *p));
    let mut keep: Vec<i32> = own.chain(free).filter(|p| *p < partitions).take(allowed).collect();
    keep.sort_unstable();
    keep
}

/// Gives up all leases of `owner` on a topic, so that others need not wait.
pub async fn give_up(store: &Store, topic: &str, owner: &str) -> Result<()> {
    sqlx::query!("DELETE FROM partition_leases WHERE topic = $1 AND owner = $2", topic, owner)
        .execute(store.pool())
        .await?;
    Ok(())
}
