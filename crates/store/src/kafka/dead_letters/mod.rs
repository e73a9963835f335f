//! The index of the dead-letter topic: the position of each dead letter, its tenant, and the reason. The
//! bytes stay in the topic.
//!
//! A dead letter has no tenant if its tenant is not known for certain; only operators see such a dead letter:
//! see [`DeadLetterReach`].

mod id;

pub use id::{DeadLetterCursor, DeadLetterId, NoDeadLetterId};

use crate::column::{DeadLetterIdColumn, JsonColumn, Nullable, TenantColumn, U32, U64, json_column};
use crate::number::{from_row, to_row, to_row32};
use crate::purge;
use crate::{BatchTx, Result, Store, StoreError, TenantTx, tenants};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// Position of a record in Kafka. The topic may not hold the record any more.
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

/// A record that could not be processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeadLetter {
    /// Id of the dead letter: its position in the dead-letter topic.
    #[schema(value_type = String, example = "8f0c6d3f2a524e0ab1c7d9e2f3a4b5c6-0-17")]
    pub id: DeadLetterId,
    /// The tenant that it belongs to; absent if it has none.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// When it arrived in the dead-letter topic.
    #[serde(with = "time::serde::rfc3339")]
    pub arrived_at: OffsetDateTime,
    /// Why it is dead: a word that does not change.
    #[schema(example = "not_json")]
    pub reason: String,
    /// Details of the reason, for people.
    pub detail: String,
    /// Number of attempts to process it; absent if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The first record of its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<TopicOffset>,
    /// Position of its source record; after retries, another one than the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<TopicOffset>,
    /// Index of the report in the source's array, from 0; absent if the source was a single report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_index: Option<u32>,
    /// Number of reports in the source's array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_count: Option<u32>,
    /// Bytes of the value; absent for a record without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// Number of its replays so far.
    pub replays: u32,
    /// When it was replayed last.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<OffsetDateTime>,
    /// The key that replayed it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_by: Option<String>,
    /// The record that the last replay wrote: topic, partition and offset.
    #[schema(example = "crash.reports/3/4711")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_as: Option<String>,
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
    /// Why they are dead.
    pub reason: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Whether they were replayed.
    pub replayed: Option<bool>,
}

/// Before and after every dead letter.
const EARLIEST: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const LATEST: OffsetDateTime = datetime!(9999-12-31 00:00 UTC);

impl DeadLetterFilter {
    /// Returns the period; a missing end is unbounded.
    fn times(&self) -> (OffsetDateTime, OffsetDateTime) {
        (self.from.unwrap_or(EARLIEST), self.to.unwrap_or(LATEST))
    }
}

/// A question for whole rows. The database treats the columns of a function's result as nullable.
macro_rules! rows {
    ($from:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            DeadLetter,
            r#"SELECT topic_id || '-' || partition || '-' || at_offset AS "id!: DeadLetterIdColumn",
                      tenant AS "tenant!: Nullable<TenantColumn>", arrived_at AS "arrived_at!", reason AS "reason!",
                      detail AS "detail!", attempt AS "attempt!: Nullable<U32>",
                      CASE WHEN num_nulls(origin_topic, origin_partition, origin_offset) = 0 THEN jsonb_build_object(
                          'topic', origin_topic, 'partition', origin_partition, 'offset', origin_offset)
                      END AS "origin!: Nullable<JsonColumn<TopicOffset>>",
                      CASE WHEN num_nulls(source_topic, source_partition, source_offset) = 0 THEN jsonb_build_object(
                          'topic', source_topic, 'partition', source_partition, 'offset', source_offset)
                      END AS "source!: Nullable<JsonColumn<TopicOffset>>",
                      source_index AS "source_index!: Nullable<U32>", source_count AS "source_count!: Nullable<U32>",
                      value_bytes AS "value_bytes!: Nullable<U64>", replays AS "replays!: U32", replayed_at,
                      replayed_by, replayed_as "#
                + $from,
            $($argument),+
        )
    };
}

/// Cuts a text to `most` and to characters that PostgreSQL accepts.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

/// Returns the row as JSON, without its tenant.
fn row(letter: &DeadLetter) -> serde_json::Value {
    let place =
        |place: &Option<TopicOffset>| place.as_ref().map(|p| (cut(&p.topic, 300), p.partition, p.offset));
    let (origin, source) = (place(&letter.origin), place(&letter.source));
    json!({
        "topic_id": letter.id.topic_id,
        "partition": letter.id.partition,
        "at_offset": letter.id.offset,
        "arrived_at": letter.arrived_at.format(&Rfc3339).ok(),
        "reason": cut(&letter.reason, 100),
        "detail": cut(&letter.detail, 1_000),
        "attempt": letter.attempt.map(to_row32),
        "origin_topic": origin.as_ref().map(|o| &o.0),
        "origin_partition": origin.as_ref().map(|o| o.1),
        "origin_offset": origin.as_ref().map(|o| o.2),
        "source_topic": source.as_ref().map(|o| &o.0),
        "source_partition": source.as_ref().map(|o| o.1),
        "source_offset": source.as_ref().map(|o| o.2),
        "source_index": letter.source_index.map(to_row32),
        "source_count": letter.source_count.map(to_row32),
        "value_bytes": letter.value_bytes.map(to_row),
        "replays": 0,
    })
}

/// Records dead letters. Returns the number of those that were not recorded before. One of a tenant that does
/// not exist is kept without a tenant; one of a deleted tenant leaves no row.
pub async fn note(tx: &mut BatchTx, letters: &[DeadLetter]) -> Result<u64> {
    let mut of: BTreeMap<Option<&TenantId>, Vec<&DeadLetter>> = BTreeMap::new();
    for letter in letters {
        of.entry(letter.tenant.as_ref()).or_default().push(letter);
    }
    let mut noted = 0;
    let mut without_tenant = of.remove(&None).unwrap_or_default();
    for (tenant, letters) in of {
        let Some(tenant) = tenant else { continue };
        let own = tx.enter(tenant).await?;
        match tenants::get(own).await? {
            None => without_tenant.extend(letters),
            Some(tenant) if tenant.state == tenants::TenantStanding::Deleted => {}
            Some(_) => {
                let rows: Vec<serde_json::Value> = letters.into_iter().map(row).collect();
                let (connection, tenant, _) = own.parts();
                let done = sqlx::query!(
                    "INSERT INTO dead_letters (topic_id, partition, at_offset, tenant, arrived_at, reason, detail, \
                         attempt, origin_topic, origin_partition, origin_offset, source_topic, source_partition, \
                         source_offset, source_index, source_count, value_bytes) \
                     SELECT l.topic_id, l.partition, l.at_offset, $1, l.arrived_at, l.reason, l.detail, l.attempt, \
                            l.origin_topic, l.origin_partition, l.origin_offset, l.source_topic, \
                            l.source_partition, l.source_offset, l.source_index, l.source_count, l.value_bytes \
                     FROM jsonb_populate_recordset(NULL::dead_letters, $2) l ON CONFLICT DO NOTHING",
                    tenant,
                    serde_json::Value::Array(rows)
                )
                .execute(connection)
                .await?;
                noted += done.rows_affected();
            }
        }
    }
    if !without_tenant.is_empty() {
        let rows: Vec<serde_json::Value> = without_tenant.into_iter().map(row).collect();
        let (connection, _) = tx.parts();
        let new = sqlx::query_scalar!(
            r#"SELECT count(*) FILTER (WHERE unslide_dead_letter_without_tenant(letter)) AS "noted!"
           FROM unnest($1::jsonb[]) AS letter"#,
            &rows
        )
        .fetch_one(connection)
        .await?;
        noted += from_row(new);
    }
    Ok(noted)
}

/// Lists dead letters, newest first, from the one after `after` on.
pub async fn list(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    filter: &DeadLetterFilter,
    after: Option<&DeadLetterCursor>,
    limit: u32,
) -> Result<Vec<DeadLetter>> {
    let (connection, own, _) = tx.parts();
    let (from, to) = filter.times();
    let found = match reach {
        // Row-level security lets only plain comparisons use the index, so they limit the page at its begin.
        DeadLetterReach::Own => {
            rows!(
                "FROM dead_letters
                 WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
                   AND ($5::boolean IS NULL OR (replayed_at IS NOT NULL) = $5) AND arrived_at <= $6
                   AND (arrived_at, topic_id, partition, at_offset) < ($6, $7, $8, $9)
                 ORDER BY arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC LIMIT $10",
                own,
                filter.reason.as_deref(),
                from,
                to,
                filter.replayed,
                after.map_or(LATEST, |cursor| cursor.arrived_at),
                after.map_or("", |cursor| cursor.id.topic_id.as_str()),
                after.map_or(0, |cursor| cursor.id.partition),
                after.map_or(0, |cursor| cursor.id.offset),
                i64::from(limit)
            )
            .fetch_all(connection)
            .await
        }
        DeadLetterReach::All { tenant } => {
            rows!(
                "FROM unslide_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                filter.reason.as_deref(),
                filter.from,
                filter.to,
                filter.replayed,
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

/// Counts the dead letters that [`list`] lists.
pub async fn count(tx: &mut TenantTx, reach: DeadLetterReach<'_>, filter: &DeadLetterFilter) -> Result<u64> {
    let (connection, own, _) = tx.parts();
    let (from, to) = filter.times();
    let count = match reach {
        DeadLetterReach::Own => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM dead_letters
                   WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
                     AND ($5::boolean IS NULL OR (replayed_at IS NOT NULL) = $5)"#,
                own,
                filter.reason.as_deref(),
                from,
                to,
                filter.replayed
            )
            .fetch_one(connection)
            .await
        }
        DeadLetterReach::All { tenant } => {
            sqlx::query_scalar!(
                r#"SELECT unslide_dead_letters_count($1, $2, $3, $4, $5) AS "count!""#,
                filter.reason.as_deref(),
                filter.from,
                filter.to,
                filter.replayed,
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

/// Records a replay of a dead letter.
///
/// # Errors
/// Returns an error if the database fails, or there is no such dead letter.
pub async fn replayed(
    tx: &mut TenantTx,
    reach: DeadLetterReach<'_>,
    id: &DeadLetterId,
    by: &str,
    placed_as: &str,
) -> Result<()> {
    let (connection, own, now) = tx.parts();
    let DeadLetterId { topic_id, partition, offset } = id;
    let done = match reach {
        DeadLetterReach::Own => {
            let done = sqlx::query!(
                "UPDATE dead_letters SET replays = replays + 1, replayed_at = $5, replayed_by = $6, replayed_as = $7
                 WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4",
                own,
                topic_id,
                partition,
                offset,
                now,
                by,
                placed_as
            );
            done.execute(connection).await?.rows_affected() == 1
        }
        DeadLetterReach::All { .. } => {
            sqlx::query_scalar!(
                r#"SELECT unslide_dead_letter_replayed($1, $2, $3, $4, $5, $6) AS "done!""#,
                topic_id,
                partition,
                offset,
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
pub async fn purge(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "dead_letters", before).await
}

/// Returns the arrival time of the oldest dead letter that was not replayed.
pub async fn oldest(store: &Store) -> Result<Option<OffsetDateTime>> {
    Ok(sqlx::query_scalar!("SELECT unslide_dead_letter_oldest()").fetch_one(store.pool()).await?)
}
