//! The index of the records that a stage could not process: the position of each dead letter, its tenant, and
//! the reason. The bytes stay in the topic.
//!
//! A dead letter has no tenant if its tenant is not known for certain; only operators see such a dead letter:
//! see [`DeadLetterReach`].

mod id;
mod note;
mod replays;

pub use id::{DeadLetterCursor, DeadLetterId, NoDeadLetterId};
pub use note::{NotedLetters, note};
pub use replays::{
    ReplayResult, StoreFailures, oldest_by_stage, record_replay_result, requested_replays, store_failures,
};

use crate::column::{DeadLetterIdColumn, JsonColumn, Nullable, TenantColumn, U32, U64, json_column, words};
use crate::number::{from_row, to_row32};
use crate::purge;
use crate::{Result, Store, StoreError, TenantTx};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::datetime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// The position of a record in Kafka, which may be past its retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RecordPlace)]
pub struct TopicOffset {
    /// Full name of the topic, with its prefix.
    #[schema(example = "crash.reports")]
    pub topic: String,
    /// Number of the partition in the topic.
    pub partition: i32,
    /// Offset of the record in the partition.
    pub offset: i64,
}

json_column!(TopicOffset);

words! {
    /// The stage that could not process a record.
    pub enum DeadLetterStage {
        /// The symbolizer could not process the record and copied it to the dead-letter topic.
        Symbolize = "symbolize",
        /// The indexer refused the record: its form is wrong, or its tenant is unknown or suspended.
        Read = "read",
        /// The indexer failed at the record, or the database refused its values.
        Store = "store",
    }
}

words! {
    /// Whether a dead letter waits for a replay, or how its last replay ended.
    pub enum DeadLetterStatus {
        /// It was never replayed.
        Waiting = "waiting",
        /// The indexer was asked to replay it.
        Requested = "requested",
        /// It was written to its input again, or is stored.
        Replayed = "replayed",
        /// It could not be stored this time either.
        Failed = "failed",
        /// Its topic does not hold it any more.
        PastRetention = "past_retention",
    }
}

/// A record that could not be processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeadLetter {
    /// Its id: the broker's id of its topic, the partition and the offset.
    #[schema(value_type = String, example = "8f0c6d3f2a524e0ab1c7d9e2f3a4b5c6-0-17")]
    pub id: DeadLetterId,
    /// The stage that could not process it: `symbolize`, `read` or `store`.
    #[schema(value_type = String, example = "symbolize")]
    pub stage: DeadLetterStage,
    /// The topic that holds its bytes.
    #[schema(example = "unslide.dead-letter")]
    pub topic: String,
    /// The tenant that it belongs to; absent if none is known for certain.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// When it arrived in the dead-letter topic, or when the indexer skipped it.
    #[serde(with = "time::serde::rfc3339")]
    pub arrived_at: OffsetDateTime,
    /// Why it is dead: a word that does not change.
    #[schema(example = "not_json")]
    pub reason: String,
    /// Describes exactly why the stage failed.
    pub detail: String,
    /// How often it was tried, if that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The first record of its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<TopicOffset>,
    /// Position of its source record; after retries, another one than the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<TopicOffset>,
    /// Which report of the source it is, from 0, if the source held an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_index: Option<u32>,
    /// Number of reports in the source's array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_count: Option<u32>,
    /// Bytes of the value; absent for a record without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// `waiting` for a first replay, `requested` from the indexer, `replayed`, `failed` again, or `past_retention` if
    /// its topic does not hold it any more.
    #[schema(value_type = String, example = "waiting")]
    pub status: DeadLetterStatus,
    /// How often a replay was asked for.
    pub replays: u32,
    /// When the last replay was asked for.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<OffsetDateTime>,
    /// The key that asked for the last replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_by: Option<String>,
    /// The record that the last replay wrote: topic, partition and offset.
    #[schema(example = "crash.reports/3/4711")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_as: Option<String>,
    /// Why the last replay failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_detail: Option<String>,
}

/// The tenants of the dead letters that a query may see.
#[derive(Clone, Copy, Debug)]
pub enum DeadLetterReach<'t> {
    /// The tenant's own: row-level security hides all others.
    Own,
    /// Those of all tenants and without one, by functions of the database's owner: for operators.
    All {
        /// Only those of this tenant in a list; those without one for an empty text.
        tenant: Option<&'t str>,
    },
}

/// Filter of dead letters. An absent field does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeadLetterFilter {
    /// The stage that could not process them.
    pub stage: Option<DeadLetterStage>,
    /// Why they are dead.
    pub reason: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Whether they wait for a replay, or how their last replay ended.
    pub status: Option<DeadLetterStatus>,
}

/// Before and after every dead letter.
const ARRIVAL_MIN: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const ARRIVAL_MAX: OffsetDateTime = datetime!(9999-12-31 00:00 UTC);

impl DeadLetterFilter {
    /// Returns the period; a missing end is unbounded.
    fn arrival_period(&self) -> (OffsetDateTime, OffsetDateTime) {
        (self.from.unwrap_or(ARRIVAL_MIN), self.to.unwrap_or(ARRIVAL_MAX))
    }

    /// Returns stage and status as the database has them.
    fn words(&self) -> (Option<&'static str>, Option<&'static str>) {
        (self.stage.map(DeadLetterStage::as_str), self.status.map(DeadLetterStatus::as_str))
    }
}

/// Selects whole rows. The `!` is needed because every column of a function is nullable to the database.
macro_rules! rows {
    ($from:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            DeadLetter,
            r#"SELECT topic_id || '-' || partition || '-' || at_offset AS "id!: DeadLetterIdColumn",
                      stage AS "stage!: DeadLetterStage", topic AS "topic!",
                      tenant AS "tenant!: Nullable<TenantColumn>", arrived_at AS "arrived_at!", reason AS "reason!",
                      detail AS "detail!", attempt AS "attempt!: Nullable<U32>",
                      CASE WHEN num_nulls(origin_topic, origin_partition, origin_offset) = 0 THEN jsonb_build_object(
                          'topic', origin_topic, 'partition', origin_partition, 'offset', origin_offset)
                      END AS "origin!: Nullable<JsonColumn<TopicOffset>>",
                      CASE WHEN num_nulls(source_topic, source_partition, source_offset) = 0 THEN jsonb_build_object(
                          'topic', source_topic, 'partition', source_partition, 'offset', source_offset)
                      END AS "source!: Nullable<JsonColumn<TopicOffset>>",
                      source_index AS "source_index!: Nullable<U32>", source_count AS "source_count!: Nullable<U32>",
                      value_bytes AS "value_bytes!: Nullable<U64>", status AS "status!: DeadLetterStatus",
                      replays AS "replays!: U32", replayed_at, replayed_by, replayed_as, replay_detail "#
                + $from,
            $($argument),+
        )
    };
}
use rows;

/// Lists dead letters, newest first, from the one after `after` on.
pub async fn list_dead_letters(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    filter: &DeadLetterFilter,
    after: Option<&DeadLetterCursor>,
    limit: u32,
) -> Result<Vec<DeadLetter>> {
    let (connection, own, _) = tx.parts();
    let (from, to) = filter.arrival_period();
    let (stage, status) = filter.words();
    let found = match reach {
        // Row-level security lets only plain comparisons use the index, so they limit the page at its begin.
        DeadLetterReach::Own => {
            rows!(
                "FROM dead_letters
                 WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
                   AND ($5::text IS NULL OR status = $5) AND arrived_at <= $6
                   AND (arrived_at, topic_id, partition, at_offset) < ($6, $7, $8, $9)
                   AND ($11::text IS NULL OR stage = $11)
                 ORDER BY arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC LIMIT $10",
                own,
                filter.reason.as_deref(),
                from,
                to,
                status,
                after.map_or(ARRIVAL_MAX, |cursor| cursor.arrived_at),
                after.map_or("", |cursor| cursor.id.topic_id.as_str()),
                after.map_or(0, |cursor| cursor.id.partition),
                after.map_or(0, |cursor| cursor.id.offset),
                i64::from(limit),
                stage
            )
            .fetch_all(connection)
            .await
        }
        DeadLetterReach::All { tenant } => {
            rows!(
                "FROM unslide_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                stage,
                filter.reason.as_deref(),
                filter.from,
                filter.to,
                status,
                tenant,
                after.map(|cursor| cursor.arrived_at),
                after.map(|cursor| cursor.id.topic_id.as_str()),
                after.map(|cursor| cursor.id.partition),
                after.map(|cursor| cursor.id.offset),
                to_row32(limit)
            )
            .fetch_all(connection)
            .await
        }
    };
    Ok(found?)
}

/// Counts the dead letters that [`list_dead_letters`] list_dead_letterss.
pub async fn count_dead_letters(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    filter: &DeadLetterFilter,
) -> Result<u64> {
    let (connection, own, _) = tx.parts();
    let (from, to) = filter.arrival_period();
    let (stage, status) = filter.words();
    let count = match reach {
        DeadLetterReach::Own => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM dead_letters
                   WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
                     AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR stage = $6)"#,
                own,
                filter.reason.as_deref(),
                from,
                to,
                status,
                stage
            )
            .fetch_one(connection)
            .await
        }
        DeadLetterReach::All { tenant } => {
            sqlx::query_scalar!(
                r#"SELECT unslide_dead_letters_count($1, $2, $3, $4, $5, $6) AS "count!""#,
                stage,
                filter.reason.as_deref(),
                filter.from,
                filter.to,
                status,
                tenant
            )
            .fetch_one(connection)
            .await
        }
    };
    Ok(from_row(count?))
}

/// Returns one dead letter, locked until the transaction ends.
pub async fn get(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    id: &DeadLetterId,
) -> Result<Option<DeadLetter>> {
    let (connection, own, _) = tx.parts();
    let found = match reach {
        DeadLetterReach::Own => {
            rows!(
                "FROM dead_letters
                 WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4 FOR UPDATE",
                own,
                id.topic_id,
                id.partition,
                id.offset
            )
            .fetch_optional(connection)
            .await
        }
        DeadLetterReach::All { .. } => {
            rows!("FROM unslide_dead_letter($1, $2, $3)", id.topic_id, id.partition, id.offset)
                .fetch_optional(connection)
                .await
        }
    };
    Ok(found?)
}

/// Records a replay of a dead letter: that it was written as `placed_as`, or that the indexer is asked to
/// replay it.
///
/// # Errors
/// Returns an error if the database fails, or there is no such dead letter.
pub async fn record_replay(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    id: &DeadLetterId,
    by: &str,
    placed_as: Option<&str>,
) -> Result<()> {
    let (connection, own, now) = tx.parts();
    let DeadLetterId { topic_id, partition, offset } = id;
    let status = placed_as.map_or(DeadLetterStatus::Requested, |_| DeadLetterStatus::Replayed).as_str();
    let done = match reach {
        DeadLetterReach::Own => {
            let done = sqlx::query!(
                "UPDATE dead_letters SET status = $5, replays = replays + 1, replayed_at = $6, replayed_by = $7,
                                         replayed_as = $8, replay_detail = NULL
                 WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4",
                own,
                topic_id,
                partition,
                offset,
                status,
                now,
                by,
                placed_as
            );
            done.execute(connection).await?.rows_affected() == 1
        }
        DeadLetterReach::All { .. } => {
            sqlx::query_scalar!(
                r#"SELECT unslide_dead_letter_replayed($1, $2, $3, $4, $5, $6, $7) AS "done!""#,
                topic_id,
                partition,
                offset,
                status,
                now,
                by,
                placed_as
            )
            .fetch_one(connection)
            .await?
        }
    };
    if done {
        return Ok(());
    }
    Err(StoreError::Corrupt { table: "dead_letters", what: format!("{id} is gone while it was locked") })
}

/// Deletes the rows of dead letters that arrived before a moment. Returns their number.
pub async fn purge_dead_letters(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "dead_letters", before).await
}
