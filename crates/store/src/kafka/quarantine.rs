//! Records that the indexer skipped because each of them alone is at fault: the position, tenant and reason
//! of each, and how its replay ended. The bytes stay in the topic.
//!
//! Operators and the indexer query them through functions of the database's owner: no tenant's transaction
//! sees a record without a tenant.

use crate::column::{JsonColumn, Nullable, TenantColumn, U64, json_column, words};
use crate::dead_letters::TopicOffset;
use crate::number::to_row32;
use crate::purge;
use crate::{BatchTx, Result, Store, TenantTx, Uuid, tenants};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// Longer details are cut.
const DETAIL_CHARS: usize = 2_000;

/// A record that is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Its topic.
    pub topic: String,
    /// The broker's id of the topic.
    pub topic_id: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// The tenant, if it is known.
    pub tenant: Option<TenantId>,
    /// A stable word, such as `panicked`.
    pub reason: String,
    /// The error in detail.
    pub detail: String,
}

/// A record that the indexer could not store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QuarantinedRecord {
    /// Id of the quarantined record, for its replay.
    pub id: Uuid,
    /// The tenant that it belongs to; absent if it names no tenant that exists.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Position of the record in Kafka.
    pub place: TopicOffset,
    /// The broker's id of the topic.
    #[serde(skip)]
    pub topic_id: String,
    /// Why it could not be stored: a word that does not change.
    #[schema(example = "constraint_violation")]
    pub reason: String,
    /// Details of the reason, for people.
    pub detail: String,
    /// When the indexer skipped it.
    #[serde(with = "time::serde::rfc3339")]
    pub quarantined_at: OffsetDateTime,
    /// The last replay; absent if none was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<QuarantineReplay>,
}

/// A replay of a quarantined record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuarantineReplay {
    /// `requested` until the indexer has done it; then `stored`, `failed`, or `past_retention` if the topic
    /// does not hold the record any more.
    #[schema(example = "stored")]
    pub status: String,
    /// Details of the failure; absent if the record was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When the replay was requested (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// Id of the key that requested it.
    pub requested_by: String,
    /// When the replay ended (RFC 3339); absent while it is `requested`.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<OffsetDateTime>,
}

json_column!(QuarantineReplay);

words! {
    /// How a replay ended.
    pub enum ReplayStatus {
        /// The content of the record is stored.
        Stored = "stored",
        /// It could not be stored this time either.
        Failed = "failed",
        /// The topic does not hold the record any more.
        PastRetention = "past_retention",
    }
}

/// Filter of records. An absent field does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuarantineFilter {
    /// Of this tenant; those without a tenant for an empty text.
    pub tenant: Option<String>,
    /// Passed over for this reason.
    pub reason: Option<String>,
    /// Whether a replay has stored them.
    pub stored: Option<bool>,
}

/// Figures for the rule that ends quarantining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuarantineFigures {
    /// Records that no replay has stored.
    pub waiting: u64,
    /// Records that were skipped since a moment.
    pub recent: u64,
    /// The tenants of those that were skipped since then for one reason.
    pub tenants: Vec<String>,
}

/// The function's rows. The database treats the columns of a function's result as nullable.
macro_rules! rows {
    ($($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            QuarantinedRecord,
            r#"SELECT id AS "id!", tenant AS "tenant!: Nullable<TenantColumn>",
                      jsonb_build_object('topic', topic, 'partition', partition, 'offset', at_offset)
                          AS "place!: JsonColumn<TopicOffset>",
                      topic_id AS "topic_id!", reason AS "reason!", detail AS "detail!",
                      quarantined_at AS "quarantined_at!",
                      CASE WHEN replay_requested_at IS NOT NULL THEN jsonb_build_object(
                          'status', coalesce(replay_status, 'requested'), 'detail', replay_detail,
                          'requested_at', replay_requested_at, 'requested_by', replay_requested_by,
                          'ended_at', replay_ended_at)
                      END AS "replay!: Nullable<JsonColumn<QuarantineReplay>>"
               FROM unslide_quarantined($1, $2, $3, $4, $5, $6, $7)"#,
            $($argument),+
        )
    };
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(DETAIL_CHARS).collect()
}

/// Adds a record. Returns false if it was there already, or its tenant was deleted. A record of a tenant that
/// does not exist is added without a tenant. The transaction has to enter another tenant before it continues.
pub async fn add(tx: &mut BatchTx, record: &NewRecord) -> Result<bool> {
    let detail = cut(&record.detail);
    if let Some(tenant) = &record.tenant {
        let own = tx.enter(tenant).await?;
        match tenants::standing(own).await? {
            None => {}
            Some(tenants::TenantStanding::Deleted) => return Ok(false),
            Some(_) => {
                let (connection, tenant, now) = own.parts();
                let done = sqlx::query!(
                    "INSERT INTO quarantined (id, tenant, topic, topic_id, partition, at_offset, reason, detail,
                                              quarantined_at)
                     VALUES (unslide_uuid($8), $1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
                    tenant,
                    record.topic,
                    record.topic_id,
                    record.partition,
                    record.offset,
                    record.reason,
                    detail,
                    now
                )
                .execute(connection)
                .await?;
                return Ok(done.rows_affected() > 0);
            }
        }
    }
    let row = json!({
        "topic": record.topic,
        "topic_id": record.topic_id,
        "partition": record.partition,
        "at_offset": record.offset,
        "reason": record.reason,
        "detail": detail,
    });
    let (connection, now) = tx.parts();
    Ok(sqlx::query_scalar!(r#"SELECT unslide_quarantine_without_tenant($1, $2) AS "added!""#, row, now)
        .fetch_one(connection)
        .await?)
}

/// Records of all tenants and of none, newest first, from the one after `after` on. For operators.
pub async fn list(
    tx: &mut TenantTx,
    filter: &QuarantineFilter,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<QuarantinedRecord>> {
    let (connection, ..) = tx.parts();
    let found = rows!(
        None::<Uuid>,
        filter.tenant.as_deref(),
        filter.reason.as_deref(),
        filter.stored,
        None::<bool>,
        after,
        to_row32(limit)
    )
    .fetch_all(connection)
    .await?;
    Ok(found)
}

/// Returns one record of any tenant or none. For operators.
pub async fn get(tx: &mut TenantTx, id: Uuid) -> Result<Option<QuarantinedRecord>> {
    let (connection, ..) = tx.parts();
    let found = rows!(id, None::<&str>, None::<&str>, None::<bool>, None::<bool>, None::<Uuid>, 1)
        .fetch_optional(connection)
        .await?;
    Ok(found)
}

/// Asks the indexer to read a record again and to store it. Returns false if there is no such record. For
/// operators.
pub async fn request_replay(tx: &mut TenantTx, id: Uuid, by: &str) -> Result<bool> {
    let (connection, _, now) = tx.parts();
    Ok(sqlx::query_scalar!(r#"SELECT unslide_quarantine_replay($1, $2, $3) AS "found!""#, id, now, by)
        .fetch_one(connection)
        .await?)
}

/// Returns records with a requested replay that has not ended.
pub async fn replays_due(store: &Store, limit: u32) -> Result<Vec<QuarantinedRecord>> {
    let due =
        rows!(None::<Uuid>, None::<&str>, None::<&str>, None::<bool>, true, None::<Uuid>, to_row32(limit))
            .fetch_all(store.pool())
            .await?;
    Ok(due)
}

/// Records how a replay ended. Returns false if it had ended before.
pub async fn replayed(
    tx: &mut BatchTx,
    id: Uuid,
    status: ReplayStatus,
    detail: Option<&str>,
) -> Result<bool> {
    let (connection, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT unslide_quarantine_replayed($1, $2, $3, $4) AS "found!""#,
        id,
        now,
        status.as_str(),
        detail.map(cut)
    )
    .fetch_one(connection)
    .await?)
}

/// Returns the number of records in quarantine, and figures of the records added since `since`, with the
/// tenants of those that have `reason`.
pub async fn figures(store: &Store, since: OffsetDateTime, reason: &str) -> Result<QuarantineFigures> {
    Ok(sqlx::query_as!(
        QuarantineFigures,
        r#"SELECT waiting AS "waiting!: U64", recent AS "recent!: U64", tenants AS "tenants!"
           FROM unslide_quarantine_figures($1, $2)"#,
        since,
        reason
    )
    .fetch_one(store.pool())
    .await?)
}

/// Deletes the rows of records that were skipped before `before`. Returns their number.
pub async fn purge(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "quarantined", before).await
}
