//! What lies in the dead-letter topic: where each letter is, whose, and why. The bytes stay in the
//! topic.
//!
//! A letter without a tenant that is known for certain is nobody's, and nobody but an operator sees
//! it. What operators ask goes through functions of the database's owner and has names of its own
//! here, which end in `_any`.

use crate::number::{from_row, from_row32, to_row, to_row32};
use crate::{BatchTx, Result, Store, StoreError, TenantTx, tenants};
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder, Row};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::TenantId;

/// A letter's place in the dead-letter topic, which names it: `<topic id>-<partition>-<offset>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterId {
    /// The broker's id of the topic.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// A text that names no letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a dead letter")]
pub struct NoLetterId;

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.topic_id, self.partition, self.offset)
    }
}

impl FromStr for LetterId {
    type Err = NoLetterId;

    fn from_str(text: &str) -> Result<LetterId, NoLetterId> {
        let parts: Vec<&str> = text.split('-').collect();
        let [topic_id, partition, offset] = parts[..] else { return Err(NoLetterId) };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let hex = topic_id.len() == 32 && topic_id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !hex || !digits(partition) || !digits(offset) {
            return Err(NoLetterId);
        }
        let id = LetterId {
            topic_id: topic_id.to_owned(),
            partition: partition.parse().map_err(|_| NoLetterId)?,
            offset: offset.parse().map_err(|_| NoLetterId)?,
        };
        // Zeros in front would make another name for the same letter.
        if id.to_string() == text { Ok(id) } else { Err(NoLetterId) }
    }
}

/// Where a record lies or lay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// A letter as it was found in the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLetter {
    /// Its place.
    pub id: LetterId,
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
    pub origin: Option<Place>,
    /// The record that it was made from.
    pub source: Option<Place>,
    /// Which of how many reports of the source.
    pub index: Option<(u32, u32)>,
    /// Bytes of the value; `None` for a record without one.
    pub value_bytes: Option<u64>,
}

/// A letter as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// What was found.
    pub found: NewLetter,
    /// How often it was replayed.
    pub replays: u32,
    /// The last replay.
    pub replayed: Option<Replay>,
}

/// A replay of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// When.
    pub at: OffsetDateTime,
    /// By whom: a key's id.
    pub by: String,
    /// The new record, as `topic/partition/offset`.
    pub placed_as: String,
}

/// Which letters. What is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Why they are dead.
    pub reason: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Whether they were replayed.
    pub replayed: Option<bool>,
}

/// The last letter of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterCursor {
    arrived_at: OffsetDateTime,
    id: LetterId,
}

impl LetterCursor {
    /// The cursor for what follows this letter.
    #[must_use]
    pub fn after(letter: &Letter) -> LetterCursor {
        LetterCursor { arrived_at: letter.found.arrived_at, id: letter.found.id.clone() }
    }

    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        format!("{}/{}", crate::outbox::micros(self.arrived_at), self.id)
    }

    /// From text; `None` for any other text.
    #[must_use]
    pub fn read(text: &str) -> Option<LetterCursor> {
        let (micros, id) = text.split_once('/')?;
        let nanos = i128::from(micros.parse::<i64>().ok()?) * 1_000;
        Some(LetterCursor {
            arrived_at: OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?,
            id: id.parse().ok()?,
        })
    }
}

/// The row as the table has it.
struct Stored(Letter);

impl FromRow<'_, PgRow> for Stored {
    fn from_row(row: &PgRow) -> Result<Stored, sqlx::Error> {
        let place = |topic: &str, partition: &str, offset: &str| -> Result<Option<Place>, sqlx::Error> {
            let parts: (Option<String>, Option<i32>, Option<i64>) =
                (row.try_get(topic)?, row.try_get(partition)?, row.try_get(offset)?);
            let (Some(topic), Some(partition), Some(offset)) = parts else { return Ok(None) };
            Ok(Some(Place { topic, partition, offset }))
        };
        let tenant: Option<String> = row.try_get("tenant")?;
        let tenant = tenant.map(|slug| TenantId::new(&slug)).transpose();
        let small = |name: &str| row.try_get::<Option<i32>, _>(name).map(|n| n.map(from_row32));
        let replayed_at: Option<OffsetDateTime> = row.try_get("replayed_at")?;
        let text = |name: &str| row.try_get::<Option<String>, _>(name).map(Option::unwrap_or_default);
        Ok(Stored(Letter {
            found: NewLetter {
                id: LetterId {
                    topic_id: row.try_get("topic_id")?,
                    partition: row.try_get("partition")?,
                    offset: row.try_get("at_offset")?,
                },
                tenant: tenant.map_err(|e| sqlx::Error::Decode(e.into()))?,
                arrived_at: row.try_get("arrived_at")?,
                reason: row.try_get("reason")?,
                detail: row.try_get("detail")?,
                attempt: small("attempt")?,
                origin: place("origin_topic", "origin_partition", "origin_offset")?,
                source: place("source_topic", "source_partition", "source_offset")?,
                index: small("source_index")?.zip(small("source_count")?),
                value_bytes: row.try_get::<Option<i64>, _>("value_bytes")?.map(from_row),
            },
            replays: from_row32(row.try_get("replays")?),
            replayed: match replayed_at {
                Some(at) => Some(Replay { at, by: text("replayed_by")?, placed_as: text("replayed_as")? }),
                None => None,
            },
        }))
    }
}

/// Text that PostgreSQL takes, and not too much of it.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

/// The row as JSON, without its tenant.
fn row(letter: &NewLetter) -> serde_json::Value {
    let place = |place: &Option<Place>| place.as_ref().map(|p| (cut(&p.topic, 300), p.partition, p.offset));
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

/// Notes letters; gives how many were not noted before. A letter of a tenant that does not exist is
/// nobody's; one of a deleted tenant leaves no row.
///
/// # Errors
/// Where the database fails.
pub async fn note(tx: &mut BatchTx, letters: &[NewLetter]) -> Result<u64> {
    let mut of: BTreeMap<Option<&TenantId>, Vec<&NewLetter>> = BTreeMap::new();
    for letter in letters {
        of.entry(letter.tenant.as_ref()).or_default().push(letter);
    }
    let mut noted = 0;
    let mut nobodys = of.remove(&None).unwrap_or_default();
    for (tenant, letters) in of {
        let Some(tenant) = tenant else { continue };
        let own = tx.enter(tenant).await?;
        match tenants::get(own).await? {
            None => nobodys.extend(letters),
            Some(tenant) if tenant.state == tenants::State::Deleted => {}
            Some(_) => {
                let rows: Vec<serde_json::Value> = letters.into_iter().map(row).collect();
                let (connection, tenant, _) = own.parts();
                let done = sqlx::query(
                    "INSERT INTO dead_letters (topic_id, partition, at_offset, tenant, arrived_at, reason, detail, \
                         attempt, origin_topic, origin_partition, origin_offset, source_topic, source_partition, \
                         source_offset, source_index, source_count, value_bytes) \
                     SELECT l.topic_id, l.partition, l.at_offset, $1, l.arrived_at, l.reason, l.detail, l.attempt, \
                            l.origin_topic, l.origin_partition, l.origin_offset, l.source_topic, \
                            l.source_partition, l.source_offset, l.source_index, l.source_count, l.value_bytes \
                     FROM jsonb_populate_recordset(NULL::dead_letters, $2) l ON CONFLICT DO NOTHING",
                )
                .bind(tenant.to_owned())
                .bind(serde_json::Value::Array(rows))
                .execute(connection)
                .await?;
                noted += done.rows_affected();
            }
        }
    }
    for letter in nobodys {
        let (connection, _) = tx.parts();
        let new: bool = sqlx::query_scalar("SELECT unslide_dead_letter_of_nobody($1)")
            .bind(row(letter))
            .fetch_one(connection)
            .await?;
        noted += u64::from(new);
    }
    Ok(noted)
}

fn conditions(query: &mut QueryBuilder<Postgres>, tenant: &str, filter: &Filter) {
    query.push(" FROM dead_letters WHERE tenant = ").push_bind(tenant.to_owned());
    if let Some(reason) = &filter.reason {
        query.push(" AND reason = ").push_bind(reason.clone());
    }
    if let Some(from) = filter.from {
        query.push(" AND arrived_at >= ").push_bind(from);
    }
    if let Some(to) = filter.to {
        query.push(" AND arrived_at < ").push_bind(to);
    }
    if let Some(replayed) = filter.replayed {
        query.push(" AND (replayed_at IS NOT NULL) = ").push_bind(replayed);
    }
}

/// The tenant's letters, newest first, from the one after `after` on.
///
/// # Errors
/// Where the database fails.
pub async fn list(
    tx: &mut TenantTx,
    filter: &Filter,
    after: Option<&LetterCursor>,
    limit: u32,
) -> Result<Vec<Letter>> {
    let (connection, tenant, _) = tx.parts();
    let mut query = QueryBuilder::new("SELECT *");
    conditions(&mut query, tenant, filter);
    if let Some(LetterCursor { arrived_at, id }) = after {
        query.push(" AND (arrived_at, topic_id, partition, at_offset) < (").push_bind(*arrived_at);
        query.push(", ").push_bind(id.topic_id.clone());
        query.push(", ").push_bind(id.partition);
        query.push(", ").push_bind(id.offset).push(")");
    }
    query.push(" ORDER BY arrived_at DESC, topic_id DESC, partition DESC, at_offset DESC LIMIT ");
    query.push_bind(i64::from(limit));
    let rows: Vec<Stored> = query.build_query_as().fetch_all(connection).await?;
    Ok(rows.into_iter().map(|Stored(letter)| letter).collect())
}

/// How many letters of the tenant there are.
///
/// # Errors
/// Where the database fails.
pub async fn count(tx: &mut TenantTx, filter: &Filter) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let mut query = QueryBuilder::new("SELECT count(*)");
    conditions(&mut query, tenant, filter);
    Ok(from_row(query.build_query_scalar().fetch_one(connection).await?))
}

/// One letter of the tenant, locked until the transaction ends.
///
/// # Errors
/// Where the database fails.
pub async fn get(tx: &mut TenantTx, id: &LetterId) -> Result<Option<Letter>> {
    let (connection, tenant, _) = tx.parts();
    let found: Option<Stored> = sqlx::query_as(
        "SELECT * FROM dead_letters \
         WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4 FOR UPDATE",
    )
    .bind(tenant.to_owned())
    .bind(&id.topic_id)
    .bind(id.partition)
    .bind(id.offset)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|Stored(letter)| letter))
}

/// Notes a replay of a letter of the tenant.
///
/// # Errors
/// Where the database fails, or there is no such letter.
pub async fn replayed(tx: &mut TenantTx, id: &LetterId, by: &str, placed_as: &str) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query(
        "UPDATE dead_letters SET replays = replays + 1, replayed_at = $5, replayed_by = $6, replayed_as = $7 \
         WHERE tenant = $1 AND topic_id = $2 AND partition = $3 AND at_offset = $4",
    )
    .bind(tenant.to_owned())
    .bind(&id.topic_id)
    .bind(id.partition)
    .bind(id.offset)
    .bind(now)
    .bind(by)
    .bind(placed_as)
    .execute(connection)
    .await?;
    one(done.rows_affected() == 1, id)
}

fn one(done: bool, id: &LetterId) -> Result<()> {
    if done {
        return Ok(());
    }
    Err(StoreError::Corrupt { table: "dead_letters", what: format!("{id} is gone while it was locked") })
}

/// Letters of all tenants and of nobody, newest first, from the one after `after` on; those of one
/// tenant where `tenant` is given, nobody's for an empty one. For operators.
///
/// # Errors
/// Where the database fails.
pub async fn list_any(
    tx: &mut TenantTx,
    filter: &Filter,
    tenant: Option<&str>,
    after: Option<&LetterCursor>,
    limit: u32,
) -> Result<Vec<Letter>> {
    let (connection, ..) = tx.parts();
    let rows: Vec<Stored> =
        sqlx::query_as("SELECT * FROM unslide_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
            .bind(&filter.reason)
            .bind(filter.from)
            .bind(filter.to)
            .bind(filter.replayed)
            .bind(tenant)
            .bind(after.map(|cursor| cursor.arrived_at))
            .bind(after.map(|cursor| cursor.id.topic_id.clone()))
            .bind(after.map(|cursor| cursor.id.partition))
            .bind(after.map(|cursor| cursor.id.offset))
            .bind(to_row32(limit))
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(|Stored(letter)| letter).collect())
}

/// How many letters of all tenants and of nobody there are, as [`list_any`] lists them. For
/// operators.
///
/// # Errors
/// Where the database fails.
pub async fn count_any(tx: &mut TenantTx, filter: &Filter, tenant: Option<&str>) -> Result<u64> {
    let (connection, ..) = tx.parts();
    let count: i64 = sqlx::query_scalar("SELECT unslide_dead_letters_count($1, $2, $3, $4, $5)")
        .bind(&filter.reason)
        .bind(filter.from)
        .bind(filter.to)
        .bind(filter.replayed)
        .bind(tenant)
        .fetch_one(connection)
        .await?;
    Ok(from_row(count))
}

/// One letter, whoever's it is, locked until the transaction ends. For operators.
///
/// # Errors
/// Where the database fails.
pub async fn get_any(tx: &mut TenantTx, id: &LetterId) -> Result<Option<Letter>> {
    let (connection, ..) = tx.parts();
    let found: Option<Stored> = sqlx::query_as("SELECT * FROM unslide_dead_letter($1, $2, $3)")
        .bind(&id.topic_id)
        .bind(id.partition)
        .bind(id.offset)
        .fetch_optional(connection)
        .await?;
    Ok(found.map(|Stored(letter)| letter))
}

/// Notes a replay of a letter, whoever's it is. For operators.
///
/// # Errors
/// Where the database fails, or there is no such letter.
pub async fn replayed_any(tx: &mut TenantTx, id: &LetterId, by: &str, placed_as: &str) -> Result<()> {
    let (connection, _, now) = tx.parts();
    let done: bool = sqlx::query_scalar("SELECT unslide_dead_letter_replayed($1, $2, $3, $4, $5, $6)")
        .bind(&id.topic_id)
        .bind(id.partition)
        .bind(id.offset)
        .bind(now)
        .bind(by)
        .bind(placed_as)
        .fetch_one(connection)
        .await?;
    one(done, id)
}

/// Forgets letters that arrived before a moment; gives how many.
///
/// # Errors
/// Where the database fails.
pub async fn purge(store: &Store, before: OffsetDateTime) -> Result<u64> {
    let gone: i64 = sqlx::query_scalar("SELECT unslide_dead_letters_purge($1)")
        .bind(before)
        .fetch_one(store.pool())
        .await?;
    Ok(from_row(gone))
}

/// When the oldest letter arrived that nobody has replayed.
///
/// # Errors
/// Where the database fails.
pub async fn oldest(store: &Store) -> Result<Option<OffsetDateTime>> {
    Ok(sqlx::query_scalar("SELECT unslide_dead_letter_oldest()").fetch_one(store.pool()).await?)
}
