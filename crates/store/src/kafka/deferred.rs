//! Deferred records of tenants, as ranges of a partition: the tenant uses more than its share of the indexer,
//! or is not known.
//!
//! A range is extended in the transaction that moves the position over its records, and gets shorter in the
//! transaction that stores them. Both lock the row last, so that neither waits for the other's work. A range
//! is shortened only if it begins at the offset that its reader expects, which keeps a reader that lost its
//! partition from storing anything.

use crate::column::TenantColumn;
use crate::place::{TenantLocation, TenantPlace};
use crate::{BatchTx, Result, Store, StoreError};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::TenantId;

/// The records of a tenant in one partition that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredRange {
    /// The owner of the records. Records of other tenants are between them.
    pub tenant: TenantId,
    /// The topic.
    pub topic: String,
    /// The broker's id of the topic.
    pub topic_id: String,
    /// The partition.
    pub partition: i32,
    /// The first offset that was not read again.
    pub from: i64,
    /// One after the offset of the last record that waits.
    pub to: i64,
    /// The number of records that wait.
    pub records: i64,
    /// No record that waits is older.
    pub oldest_at: OffsetDateTime,
}

/// The part of a range that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// The range as its reader knows it.
    pub range: DeferredRange,
    /// One after the last offset that was read.
    pub next: i64,
    /// The number of records that were stored.
    pub records: i64,
    /// No record from there on is older.
    pub oldest_at: OffsetDateTime,
}

/// Returns the ranges of all tenants in these topics, by topic, partition and tenant.
pub async fn list_ranges(store: &Store, topics: &[String]) -> Result<Vec<DeferredRange>> {
    Ok(sqlx::query_as!(
        DeferredRange,
        r#"SELECT tenant AS "tenant!: TenantColumn", topic AS "topic!", topic_id AS "topic_id!",
                  partition AS "partition!", from_offset AS "from!", to_offset AS "to!", records AS "records!",
                  oldest_at AS "oldest_at!"
           FROM unslide_deferred_ranges($1)"#,
        topics
    )
    .fetch_all(store.pool())
    .await?)
}

/// A deferred range, and the location of its tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedRange {
    /// The range.
    pub range: DeferredRange,
    /// The location of the tenant. One that does not exist counts as here.
    pub location: TenantLocation,
}

/// Returns the ranges of all tenants in these topics as [`list_ranges`] does, each with the place of its tenant.
pub async fn list_located_ranges(store: &Store, topics: &[String]) -> Result<Vec<LocatedRange>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", topic AS "topic!", topic_id AS "topic_id!",
                  partition AS "partition!", from_offset AS "from!", to_offset AS "to!", records AS "records!",
                  oldest_at AS "oldest_at!", place AS "place!: TenantPlace", moved_to
           FROM unslide_located_ranges($1)"#,
        topics
    )
    .fetch_all(store.pool())
    .await?;
    let located = rows.into_iter().map(|row| LocatedRange {
        range: DeferredRange {
            tenant: row.tenant.into(),
            topic: row.topic,
            topic_id: row.topic_id,
            partition: row.partition,
            from: row.from,
            to: row.to,
            records: row.records,
            oldest_at: row.oldest_at,
        },
        location: TenantLocation { place: row.place, moved_to: row.moved_to },
    });
    Ok(located.collect())
}

/// Adds records to the deferred ranges of their tenants: to an existing range, or to a new one. The tenants
/// need not exist. Records of a deleted tenant are left out, unless another cell serves it. The transaction has to enter another tenant
/// before it continues.
pub async fn extend_ranges(tx: &mut BatchTx, more: &[DeferredRange]) -> Result<()> {
    if more.is_empty() {
        return Ok(());
    }
    let rows = more.iter().map(|range| {
        json!({
            "tenant": range.tenant.as_str(),
            "topic": range.topic,
            "topic_id": range.topic_id,
            "partition": range.partition,
            "from_offset": range.from,
            "to_offset": range.to,
            "records": range.records,
            "oldest_at": format_time(range.oldest_at),
        })
    });
    let (connection, _) = tx.parts();
    sqlx::query!("SELECT unslide_defer($1)", rows.collect::<Value>()).execute(connection).await?;
    Ok(())
}

/// Shortens ranges by their stored records, and closes those that end there. The transaction has to enter
/// another tenant before it continues.
///
/// # Errors
/// [`StoreError::Fenced`] if a range begins at another offset by now: the caller has to give up the whole
/// transaction; or the database fails.
pub async fn shorten_ranges(tx: &mut BatchTx, parts: &[StoredPart]) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    let rows = parts.iter().map(|part| {
        json!({
            "tenant": part.range.tenant.as_str(),
            "topic_id": part.range.topic_id,
            "partition": part.range.partition,
            "from_offset": part.range.from,
            "next_offset": part.next,
            "stored": part.records,
            "oldest_at": format_time(part.oldest_at),
        })
    });
    let (connection, _) = tx.parts();
    let done =
        sqlx::query_scalar!(r#"SELECT unslide_shorten_deferred($1) AS "done!""#, rows.collect::<Value>())
            .fetch_one(connection)
            .await?;
    if done {
        return Ok(());
    }
    let (topic, partition, expected) = (first.range.topic.clone(), first.range.partition, first.range.from);
    Err(StoreError::Fenced { topic, partition, expected })
}

fn format_time(at: OffsetDateTime) -> Option<String> {
    at.format(&Rfc3339).ok()
}
