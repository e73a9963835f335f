//! What lies in the dead-letter topic: where each dead letter is, whose, and why. The bytes stay in the
//! topic.
//!
//! A dead letter is without a tenant where its tenant is not known for certain; only operators see such a
//! dead letter. What operators ask goes through functions of the database's owner and has names of its own
//! here, which end in `_any`.

mod id;

pub use id::{DeadLetterCursor, DeadLetterId, NoDeadLetterId};

use crate::number::{from_row, from_row32, to_row, to_row32};
use crate::purge::in_pages;
use crate::{BatchTx, Result, Store, StoreError, TenantTx, tenants};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// Where a record lies or lay in Kafka.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RecordPlace)]
pub struct TopicOffset {
    /// The topic.
    #[schema(example = "crash.reports")]
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// A dead letter as it was found in the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Its place.
    pub id: DeadLetterId,
    /// Whose it is, where that was decided before it became a dead letter.
    pub tenant: Option<TenantId>,
    /// When it arrived in the topic.
    pub arrived_at: OffsetDateTime,
    /// A stable word, such as `not_json`.
    pub reason: String,
    /// What exactly was wrong.
    pub detail: String,
    /// How often the record was tried, where that was counted.
    pub attempt: Option<u32>,
    /// The first record of its history.
    pub origin: Option<TopicOffset>,
    /// The record that it was made from.
    pub source: Option<TopicOffset>,
    /// Which of how many reports of the source.
    pub index: Option<(u32, u32)>,
    /// Bytes of the value; `None` for a record without one.
    pub value_bytes: Option<u64>,
}

/// A dead letter as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDeadLetter {
    /// What was found.
    pub found: NewDeadLetter,
    /// How often it was replayed.
    pub replays: u32,
    /// The last replay.
    pub replayed: Option<DeadLetterReplay>,
}

/// A replay of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterReplay {
    /// When.
    pub at: OffsetDateTime,
    /// By whom: a key's id.
    pub by: String,
    /// The new record, as `topic/partition/offset`.
    pub placed_as: String,
}

/// Which dead letters. What is absent does not matter.
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
    /// The times, where none is given those that let all through.
    fn times(&self) -> (OffsetDateTime, OffsetDateTime) {
        (self.from.unwrap_or(EARLIEST), self.to.unwrap_or(LATEST))
    }
}

/// The row as the table has it.
struct Row {
    topic_id: String,
    partition: i32,
    at_offset: i64,
    tenant: Option<String>,
    arrived_at: OffsetDateTime,
    reason: String,
    detail: String,
    attempt: Option<i32>,
    origin_topic: Option<String>,
    origin_partition: Option<i32>,
    origin_offset: Option<i64>,
    source_topic: Option<String>,
    source_partition: Option<i32>,
    source_offset: Option<i64>,
    source_index: Option<i32>,
    source_count: Option<i32>,
    value_bytes: Option<i64>,
    replays: i32,
    replayed_at: Option<OffsetDateTime>,
    replayed_by: Option<String>,
    replayed_as: Option<String>,
}

/// A question for whole rows. What a function answers the database takes for nullable.
macro_rules! rows {
    ($from:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"SELECT topic_id AS "topic_id!", partition AS "partition!", at_offset AS "at_offset!", tenant,
                      arrived_at AS "arrived_at!", reason AS "reason!", detail AS "detail!", attempt, origin_topic,
                      origin_partition, origin_offset, source_topic, source_partition, source_offset, source_index,
                      source_count, value_bytes, replays AS "replays!", replayed_at, replayed_by, replayed_as "#
                + $from,
            $($argument),+
        )
    };
}

impl Row {
    fn read(self) -> Result<StoredDeadLetter> {
        let place = |topic: Option<String>, partition: Option<i32>, offset: Option<i64>| {
            Some(TopicOffset { topic: topic?, partition: partition?, offset: offset? })
        };
        let tenant = self.tenant.map(|slug| TenantId::new(&slug)).transpose();
        Ok(StoredDeadLetter {
            found: NewDeadLetter {
                id: DeadLetterId {
                    topic_id: self.topic_id,
                    partition: self.partition,
                    offset: self.at_offset,
                },
                tenant: tenant.map_err(|e| StoreError::corrupt("dead_letters", e))?,
                arrived_at: self.arrived_at,
                reason: self.reason,
                detail: self.detail,
                attempt: self.attempt.map(from_row32),
                origin: place(self.origin_topic, self.origin_partition, self.origin_offset),
                source: place(self.source_topic, self.source_partition, self.source_offset),
                index: self.source_index.map(from_row32).zip(self.source_count.map(from_row32)),
                value_bytes: self.value_bytes.map(from_row),
            },
            replays: from_row32(self.replays),
            replayed: self.replayed_at.map(|at| DeadLetterReplay {
                at,
                by: self.replayed_by.unwrap_or_default(),
                placed_as: self.replayed_as.unwrap_or_default(),
            }),
        })
    }
}

/// Text that PostgreSQL takes, and not too much of it.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

/// The row as JSON, without its tenant.
fn row(letter: &NewDeadLetter) -> serde_json::Value {
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
        "source_index": letter.index.map(|(index, _)| to_row32(index)),
        "source_count": letter.index.map(|(_, count)| to_row32(count)),
        "value_bytes": letter.value_bytes.map(to_row),
        "replays": 0,
    })
}

/// Notes dead letters. Returns the number of those that were not noted before. One of a tenant that does not exist is
/// kept without one; one of a deleted tenant leaves no row.
pub async fn note(tx: &mut BatchTx, letters: &[NewDeadLetter]) -> Result<u64> {
    let mut of: BTreeMap<Option<&TenantId>, Vec<&NewDeadLetter>> = BTreeMap::new();
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
    for letter in without_tenant {
        let (connection, _) = tx.parts();
        let new =
            sqlx::query_scalar!(r#"SELECT unslide_dead_letter_without_tenant($1) AS "new!""#, row(letter))
                .fetch_one(connection)
                .await?;
        noted += u64::from(new);
    }
    Ok(noted)
}

/// The tenant's dead letters, newest first, from the one after `after` on.
pub async fn list(
    tx: &mut TenantTx,
    filter: &DeadLetterFilter,
    after: Option<&DeadLetterCursor>,
    limit: u32,
) -> Result<Vec<StoredDeadLetter>> {
    let (connection, tenant, _) = tx.parts();
    let (from, to) = filter.times();
    // Row-level security lets only plain comparisons near the index: they say where a page begins.
    let rows = rows!(
        "FROM dead_letters
         WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
           AND ($5::boolean IS NULL OR (replayed_at IS NOT NULL) = $5) AND arrived_at <= $6
           AND (arrived_at, topic_id, partition, at_offset) < ($6, $7, $8, $9)
         ORDER BY arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC LIMIT $10",
        tenant,
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
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// How many dead letters of the tenant there are.
pub async fn count(tx: &mut TenantTx, filter: &DeadLetterFilter) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let (from, to) = filter.times();
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM dead_letters
           WHERE tenant = $1 AND ($2::text IS NULL OR reason = $2) AND arrived_at >= $3 AND arrived_at < $4
             AND ($5::boolean IS NULL OR (replayed_at IS NOT NULL) = $5)"#,
        tenant,
        filter.reason.as_deref(),
        from,
        to,
        filter.replayed
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(count))
}

/// One dead letter of the tenant, locked until the transaction ends.
pub async fn get(tx: &mut TenantTx, id: &DeadLetterId) -> Result<Option<StoredDeadLetter>> {
    let (connection, tenant, _) = tx.parts();
    let found = rows!(
        "FROM dead_letters WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4 FOR UPDATE",
        tenant,
        id.topic_id,
        id.partition,
        id.offset
    )
    .fetch_optional(connection)
    .await?;
    found.map(Row::read).transpose()
}

/// Notes a replay of a dead letter of the tenant.
///
/// # Errors
/// Where the database fails, or there is no such dead letter.
pub async fn replayed(tx: &mut TenantTx, id: &DeadLetterId, by: &str, placed_as: &str) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE dead_letters SET replays = replays + 1, replayed_at = $5, replayed_by = $6, replayed_as = $7
         WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4",
        tenant,
        id.topic_id,
        id.partition,
        id.offset,
        now,
        by,
        placed_as
    )
    .execute(connection)
    .await?;
    one(done.rows_affected() == 1, id)
}

fn one(done: bool, id: &DeadLetterId) -> Result<()> {
    if done {
        return Ok(());
    }
    Err(StoreError::Corrupt { table: "dead_letters", what: format!("{id} is gone while it was locked") })
}

/// Dead letters of all tenants and without one, newest first, from the one after `after` on; those of one
/// tenant where `tenant` is given, those without one for an empty text. For operators.
pub async fn list_any(
    tx: &mut TenantTx,
    filter: &DeadLetterFilter,
    tenant: Option<&str>,
    after: Option<&DeadLetterCursor>,
    limit: u32,
) -> Result<Vec<StoredDeadLetter>> {
    let (connection, ..) = tx.parts();
    let rows = rows!(
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
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// The number of dead letters of all tenants and without one, as [`list_any`] lists them. For
/// operators.
pub async fn count_any(tx: &mut TenantTx, filter: &DeadLetterFilter, tenant: Option<&str>) -> Result<u64> {
    let (connection, ..) = tx.parts();
    let count = sqlx::query_scalar!(
        r#"SELECT unslide_dead_letters_count($1, $2, $3, $4, $5) AS "count!""#,
        filter.reason.as_deref(),
        filter.from,
        filter.to,
        filter.replayed,
        tenant
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(count))
}

/// One dead letter of any tenant or none, locked until the transaction ends. For operators.
pub async fn get_any(tx: &mut TenantTx, id: &DeadLetterId) -> Result<Option<StoredDeadLetter>> {
    let (connection, ..) = tx.parts();
    let found = rows!("FROM unslide_dead_letter($1, $2, $3)", id.topic_id, id.partition, id.offset)
        .fetch_optional(connection)
        .await?;
    found.map(Row::read).transpose()
}

/// Notes a replay of a dead letter of any tenant or none. For operators.
///
/// # Errors
/// Where the database fails, or there is no such dead letter.
pub async fn replayed_any(tx: &mut TenantTx, id: &DeadLetterId, by: &str, placed_as: &str) -> Result<()> {
    let (connection, _, now) = tx.parts();
    let done = sqlx::query_scalar!(
        r#"SELECT unslide_dead_letter_replayed($1, $2, $3, $4, $5, $6) AS "done!""#,
        id.topic_id,
        id.partition,
        id.offset,
        now,
        by,
        placed_as
    )
    .fetch_one(connection)
    .await?;
    one(done, id)
}

/// Deletes the rows of dead letters that arrived before a moment. Returns their number.
pub async fn purge(store: &Store, before: OffsetDateTime) -> Result<u64> {
    in_pages(|rows| {
        sqlx::query_scalar!(r#"SELECT unslide_dead_letters_purge($1, $2) AS "gone!""#, before, rows)
            .fetch_one(store.pool())
    })
    .await
}

/// When the oldest dead letter arrived that was not replayed.
pub async fn oldest(store: &Store) -> Result<Option<OffsetDateTime>> {
    Ok(sqlx::query_scalar!("SELECT unslide_dead_letter_oldest()").fetch_one(store.pool()).await?)
}
