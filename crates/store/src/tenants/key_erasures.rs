//! Erasures of what apps sent with one public key in a range of time. Such data that comes to the store later is not stored.

use crate::column::JsonColumn;
use crate::erasure_requests::{ErasureRequest, ErasureState, ErasureTable};
use crate::groups::lock_for_merges;
use crate::history::{self, HistoryReport, HistorySearch};
use crate::number::from_row32;
use crate::{Result, TenantTx, Uuid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_history::{HistoryFilter, HistoryOrder};
use unslide_model::{ReportId, SenderKeyId};
use utoipa::ToSchema;

/// Erasures of one key that are under way.
pub const MAX_OPEN_ERASURES: i64 = 20;
/// Erasures of one key that are listed.
const LISTED_ERASURES: i64 = 50;

/// The table of erasures.
pub const KEY_ERASURES: ErasureTable = ErasureTable { name: "key_erasures", of_search: &[], of_request: &[] };

/// Data of a public key that arrived in a range of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The key.
    pub key: SenderKeyId,
    /// The first time of arrival.
    pub begin: OffsetDateTime,
    /// Data that arrived at this time or later stays.
    pub end: OffsetDateTime,
    /// The only version of the apps; all if it is `None`.
    pub version: Option<String>,
}

/// Data that an app sent with a public key and that is to be stored.
#[derive(Clone, Debug)]
pub struct KeyedArrival {
    /// Index of the data in its batch.
    pub place: usize,
    /// The key.
    pub key: SenderKeyId,
    /// The version of the app, as its row has it.
    pub version: String,
    /// When the data arrived first.
    pub received_at: OffsetDateTime,
}

/// The erasure of what apps sent with a public key.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PublicKeyErasure)]
pub struct KeyErasure {
    /// Id of the erasure.
    pub id: Uuid,
    /// Id of the public key.
    #[schema(example = "5d1c02ab")]
    pub key_id: String,
    /// The first time of arrival that is erased (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
    /// The end of the range: what arrived at this time or later stays (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub to: OffsetDateTime,
    /// The only version that is erased; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// State of the erasure.
    #[schema(value_type = String, example = "done")]
    pub state: ErasureState,
    /// Rows that were removed so far, by table.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub removed: BTreeMap<String, u64>,
    /// Id of the key that requested it.
    pub requested_by: String,
    /// When it was requested (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// When nothing was left (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<OffsetDateTime>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl KeyErasure {
    /// Returns true while a builder works on it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, ErasureState::Searching | ErasureState::SearchingAgain)
    }

    /// Returns its request.
    #[must_use]
    pub fn request(&self) -> ErasureRequest {
        ErasureRequest { table: KEY_ERASURES, id: self.id }
    }

    /// Returns what it erases. Returns None if its key's id is none.
    #[must_use]
    pub fn range(&self) -> Option<KeyRange> {
        let key = SenderKeyId::parse(&self.key_id)?;
        Some(KeyRange { key, begin: self.from, end: self.to, version: self.version.clone() })
    }
}

/// A statement that ends with `$after` the columns of erasures, and begins with `$before` them.
macro_rules! query_erasures {
    ($before:tt, $after:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query!(
            $before
                + r#" id AS "id!", key_id AS "key_id!", range_begin AS "range_begin!", range_end AS "range_end!", version,
                      state AS "state!: ErasureState", removed AS "removed!: JsonColumn<BTreeMap<String, u64>>",
                      requested_by AS "requested_by!", requested_at AS "requested_at!", finished_at, detail "#
                + $after,
            $($argument),+
        )
        .map(|row| KeyErasure {
            id: row.id,
            key_id: row.key_id,
            from: row.range_begin,
            to: row.range_end,
            version: row.version,
            state: row.state,
            removed: row.removed.into(),
            requested_by: row.requested_by,
            requested_at: row.requested_at,
            finished_at: row.finished_at,
            detail: row.detail,
        })
    };
}

/// Records an erasure. From its commit on nothing of the range is stored: it waits for transactions that store reports of
/// the tenant, and later ones see the record. Returns None if [`MAX_OPEN_ERASURES`] of the key are under way.
pub async fn begin_erasure(
    tx: &mut TenantTx,
    range: &KeyRange,
    requested_by: &str,
) -> Result<Option<KeyErasure>> {
    lock_for_merges(tx).await?;
    let (connection, tenant, now) = tx.parts();
    let erasure = query_erasures!(
        "INSERT INTO key_erasures (id, tenant, key_id, range_begin, range_end, version, requested_by, requested_at, state)
         SELECT unslide_uuid($2), $1, $3, $4, $5, $6, $7, $2, 'searching'
         WHERE (SELECT count(*) FROM key_erasures WHERE tenant = $1 AND key_id = $3 AND state LIKE 'searching%') < $8
         RETURNING",
        "",
        tenant,
        now,
        range.key.to_string(),
        range.begin,
        range.end,
        range.version,
        requested_by,
        MAX_OPEN_ERASURES
    );
    Ok(erasure.fetch_optional(connection).await?)
}

/// Returns erasures of a key: those that are under way, then the newest.
pub async fn list_erasures(tx: &mut TenantTx, keys: &[String]) -> Result<Vec<KeyErasure>> {
    let (connection, tenant, _) = tx.parts();
    let erasures = query_erasures!(
        "SELECT",
        "FROM (SELECT e.*, row_number() OVER (PARTITION BY e.key_id ORDER BY e.state NOT LIKE 'searching%',
                                                 e.requested_at DESC, e.id DESC) AS place
               FROM key_erasures e WHERE e.tenant = $1 AND e.key_id = ANY ($2)) listed
         WHERE place <= $3 ORDER BY key_id, place",
        tenant,
        keys,
        LISTED_ERASURES
    );
    Ok(erasures.fetch_all(connection).await?)
}

/// Returns an erasure of the transaction's tenant.
pub async fn get_erasure(tx: &mut TenantTx, id: Uuid) -> Result<Option<KeyErasure>> {
    let (connection, tenant, _) = tx.parts();
    let erasure = query_erasures!("SELECT", "FROM key_erasures WHERE tenant = $1 AND id = $2", tenant, id);
    Ok(erasure.fetch_optional(connection).await?)
}

/// Returns the places in `arrived` of data that an erasure covers. One statement, and none if no data has a key.
pub async fn find_erased(tx: &mut TenantTx, arrived: &[KeyedArrival]) -> Result<BTreeSet<usize>> {
    if arrived.is_empty() {
        return Ok(BTreeSet::new());
    }
    let indexes: Vec<i32> = (0..).take(arrived.len()).collect();
    let keys: Vec<String> = arrived.iter().map(|data| data.key.to_string()).collect();
    let versions: Vec<&str> = arrived.iter().map(|data| data.version.as_str()).collect();
    let times: Vec<OffsetDateTime> = arrived.iter().map(|data| data.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT a.index AS "index!"
           FROM unnest($2::integer[], $3::text[], $4::text[], $5::timestamptz[]) AS a (index, key_id, version, received_at)
           WHERE EXISTS (SELECT FROM key_erasures e
                         WHERE e.tenant = $1 AND e.key_id = a.key_id AND e.range_begin <= a.received_at
                           AND e.range_end > a.received_at AND (e.version IS NULL OR e.version = a.version))"#,
        tenant,
        &indexes,
        &keys,
        &versions as &[&str],
        &times
    )
    .fetch_all(connection)
    .await?;
    let index = |found: i32| usize::try_from(found).ok();
    Ok(found.into_iter().filter_map(index).filter_map(|index| Some(arrived.get(index)?.place)).collect())
}

/// Lists stored reports of a range, at most `limit`, each with its variant.
pub async fn list_reports(tx: &mut TenantTx, range: &KeyRange, limit: u32) -> Result<Vec<(ReportId, u32)>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        "SELECT report_id, variant FROM reports
         WHERE tenant = $1 AND sender_key = $2 AND received_at >= $3 AND received_at < $4
           AND ($5::text IS NULL OR version = $5)
         ORDER BY received_at, report_id, variant LIMIT $6",
        tenant,
        range.key.to_string(),
        range.begin,
        range.end,
        range.version,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let mut found: Vec<(ReportId, u32)> =
        found.into_iter().map(|row| (ReportId::from_uuid(row.report_id), from_row32(row.variant))).collect();
    let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    if left > 0 {
        found.extend(list_moved_reports(tx, range, left).await?);
    }
    Ok(found)
}

/// Lists those of a range that are in ClickHouse.
async fn list_moved_reports(tx: &mut TenantTx, range: &KeyRange, limit: u32) -> Result<Vec<(ReportId, u32)>> {
    let key = range.key.to_string();
    let filter = HistoryFilter {
        from: Some(range.begin),
        to: Some(range.end),
        sender_key: Some(key.clone()),
        ..HistoryFilter::default()
    };
    let is_of_range = |report: &HistoryReport| {
        report.sender_key.as_deref() == Some(key.as_str())
            && (range.begin..range.end).contains(&report.received_at)
            && range.version.as_ref().is_none_or(|version| *version == report.version)
    };
    let search = HistorySearch { filter, order: HistoryOrder::OldestFirst, after: None };
    let moved = history::find_moved(tx, search, limit, is_of_range).await?;
    Ok(moved.into_iter().map(|report| (report.report_id, report.variant)).collect())
}
