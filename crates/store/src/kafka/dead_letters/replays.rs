//! Dead letters as the indexer sees them: the replays that it has to do, and the figures by which it stops.
//!
//! It works for all tenants and for none, through functions of the database's owner.

use super::rows;
use super::{DeadLetter, DeadLetterId, DeadLetterStage, DeadLetterStatus, TopicOffset};
use crate::column::{DeadLetterIdColumn, JsonColumn, Nullable, TenantColumn, U32, U64};
use crate::number::to_row32;
use crate::{BatchTx, Result, Store};
use time::OffsetDateTime;

/// Result of a replay by the indexer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayResult {
    /// The content of the record is stored.
    Stored,
    /// It could not be stored this time either, with the reason.
    Failed(String),
    /// Its topic does not hold it any more, with the reason.
    PastRetention(String),
}

/// Records that could not be stored lately, for the rule that stops the indexer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFailures {
    /// Number of all records.
    pub recent: u64,
    /// The tenants of the records that failed for one reason.
    pub tenants: Vec<String>,
}

/// The oldest dead letter of a stage.
struct OldestRow {
    stage: DeadLetterStage,
    oldest: Option<OffsetDateTime>,
}

/// Returns dead letters with a requested replay that has not ended, the earliest request first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn requested_replays(store: &Store, limit: u32) -> Result<Vec<DeadLetter>> {
    let due = rows!("FROM unslide_dead_letters_requested($1)", to_row32(limit));
    Ok(due.fetch_all(store.pool()).await?)
}

/// Records how a requested replay ended. Returns false if it had ended before.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_replay_result(
    tx: &mut BatchTx,
    id: &DeadLetterId,
    result: &ReplayResult,
) -> Result<bool> {
    let (status, detail) = match result {
        ReplayResult::Stored => (DeadLetterStatus::Replayed, None),
        ReplayResult::Failed(why) => (DeadLetterStatus::Failed, Some(super::note::cut_detail(why))),
        ReplayResult::PastRetention(why) => {
            (DeadLetterStatus::PastRetention, Some(super::note::cut_detail(why)))
        }
    };
    let (connection, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT unslide_dead_letter_replay_ended($1, $2, $3, $4, $5) AS "found!""#,
        id.topic_id,
        id.partition,
        id.offset,
        status.as_str(),
        detail
    );
    Ok(found.fetch_one(connection).await?)
}

/// Returns the arrival time of the oldest dead letter of each stage that no replay has ended.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn oldest_by_stage(store: &Store) -> Result<Vec<(DeadLetterStage, Option<OffsetDateTime>)>> {
    let rows = sqlx::query_as!(
        OldestRow,
        r#"SELECT stage AS "stage!: DeadLetterStage", oldest FROM unslide_dead_letters_oldest()"#
    );
    let rows = rows.fetch_all(store.pool()).await?;
    Ok(rows.into_iter().map(|row| (row.stage, row.oldest)).collect())
}

/// Returns the number of records that could not be stored since `since`, with the tenants of those that
/// failed for `reason`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_failures(store: &Store, since: OffsetDateTime, reason: &str) -> Result<StoreFailures> {
    let failures = sqlx::query_as!(
        StoreFailures,
        r#"SELECT recent AS "recent!: U64", tenants AS "tenants!" FROM unslide_store_failures($1, $2)"#,
        since,
        reason
    );
    Ok(failures.fetch_one(store.pool()).await?)
}
