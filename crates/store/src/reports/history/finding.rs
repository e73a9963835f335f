//! Finding reports with rows in ClickHouse.

use super::bring_back::read_document;
use super::read_moved_rows;
use crate::column::{ReportIdColumn, U32};
use crate::number::to_row32;
use crate::{GroupId, Result, TenantTx, Uuid};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_history::{History, HistoryFilter, HistoryOrder, HistoryPlace, HistoryVersion};
use unslide_model::ReportId;

/// Rows that one request to ClickHouse finds.
const FOUND_ROWS_LIMIT: u32 = 500;

/// How often both places are looked into while moves end in between.
const LOOKS_LIMIT: u32 = 20;

/// A report with its row in ClickHouse: the columns that jobs need.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistoryReport {
    pub(crate) received_at: OffsetDateTime,
    pub(crate) report_id: ReportId,
    pub(crate) variant: u32,
    pub(crate) app: String,
    pub(crate) version: String,
    pub(crate) device: Option<Vec<u8>>,
    pub(crate) run_id: Option<Uuid>,
    pub(crate) sender_key: Option<String>,
    pub(crate) system_images: Vec<Uuid>,
    pub(crate) body_kept: Option<bool>,
    pub(crate) group_id: Option<GroupId>,
    pub(crate) reason: Option<String>,
    pub(crate) title: Option<String>,
}

impl HistoryReport {
    /// Returns the position among all reports: their order in every page.
    pub(crate) fn position(&self) -> (OffsetDateTime, ReportId, u32) {
        (self.received_at, self.report_id, self.variant)
    }
}

/// A search for such reports.
pub(crate) struct HistorySearch {
    /// The conditions for ClickHouse: it may find more than is wanted.
    pub(crate) filter: HistoryFilter,
    /// The order of the reports by their time, id and variant.
    pub(crate) order: HistoryOrder,
    /// Begins behind this place.
    pub(crate) after: Option<HistoryPlace>,
}

/// Finds the next reports that are in ClickHouse, that a key names, and that `is_wanted`, at most `limit`. Without a history no statement
/// is sent.
pub(crate) async fn find_moved(
    tx: &mut TenantTx,
    search: HistorySearch,
    limit: u32,
    is_wanted: impl Fn(&HistoryReport) -> bool,
) -> Result<Vec<HistoryReport>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let order = search.order;
    let mut found = Vec::new();
    let mut pages = NamedPages::begin(tx, search).await?;
    while let Some(versions) = pages.next_page(tx).await? {
        let mut reports = Box::pin(read_reports(tx, &versions)).await?;
        reports.sort_by_key(HistoryReport::position);
        if order == HistoryOrder::NewestFirst {
            reports.reverse();
        }
        found.extend(reports.into_iter().filter(|report| is_wanted(report)));
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Reads the next rows that are in ClickHouse and that a key names, at most `limit`: one document for `unslide_moved_reports`. Without a
/// history no statement is sent.
pub(crate) async fn read_moved_page(tx: &mut TenantTx, search: HistorySearch, limit: u32) -> Result<String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut named = Vec::new();
    let mut pages = NamedPages::begin(tx, search).await?;
    while let Some(versions) = pages.next_page(tx).await? {
        named.extend(versions);
        if named.len() >= limit {
            break;
        }
    }
    named.truncate(limit);
    read_document(tx, &named).await
}

/// The pages of a search: rows that keys of the transaction's tenant name.
struct NamedPages {
    /// `None` once all rows were found.
    history: Option<History>,
    search: HistorySearch,
}

impl NamedPages {
    async fn begin(tx: &mut TenantTx, search: HistorySearch) -> Result<NamedPages> {
        let Some(history) = tx.history().cloned() else { return Ok(NamedPages { history: None, search }) };
        let moved = read_moved_rows(tx).await?;
        // No row that was moved arrived later.
        let may_match =
            moved.is_some_and(|moved| search.filter.from.is_none_or(|from| from <= moved.newest_at));
        Ok(NamedPages { history: Some(history).filter(|_| may_match), search })
    }

    /// Returns the rows of the next page, which may have none. Returns `None` if the last page was returned.
    async fn next_page(&mut self, tx: &mut TenantTx) -> Result<Option<Vec<HistoryVersion>>> {
        let Some(history) = &self.history else { return Ok(None) };
        let HistorySearch { filter, order, after } = &self.search;
        // The client makes large futures.
        let tenant = tx.tenant()?;
        let versions =
            Box::pin(history.find_versions(&tenant, filter, *after, *order, FOUND_ROWS_LIMIT)).await?;
        self.search.after = versions.last().map(|last| last.place);
        if versions.len() < usize::try_from(FOUND_ROWS_LIMIT).unwrap_or(usize::MAX) {
            self.history = None;
        }
        Ok(Some(confirm_versions(tx, &versions).await?))
    }
}

/// Reads rows that keys of the transaction's tenant name.
async fn read_reports(tx: &mut TenantTx, named: &[HistoryVersion]) -> Result<Vec<HistoryReport>> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let document = read_document(tx, named).await?;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        HistoryReport,
        r#"SELECT received_at AS "received_at!", report_id AS "report_id!: ReportIdColumn", variant AS "variant!: U32",
                  app AS "app!", version AS "version!", device, run_id, sender_key, system_images AS "system_images!", body_kept,
                  group_id AS "group_id: GroupId", reason, title
           FROM unslide_moved_reports($2::text::jsonb) WHERE tenant = $1"#,
        tenant,
        document
    )
    .fetch_all(connection)
    .await?)
}

/// Returns those of these rows that keys of the transaction's tenant name in this version.
async fn confirm_versions(tx: &mut TenantTx, versions: &[HistoryVersion]) -> Result<Vec<HistoryVersion>> {
    let times: Vec<OffsetDateTime> = versions.iter().map(|one| one.place.received_at).collect();
    let ids: Vec<Uuid> = versions.iter().map(|one| one.place.report_id.uuid()).collect();
    let variants: Vec<i32> = versions.iter().map(|one| to_row32(one.place.variant)).collect();
    let numbers: Vec<i32> = versions.iter().map(|one| to_row32(one.version)).collect();
    let (connection, tenant, _) = tx.parts();
    let named = sqlx::query!(
        r#"SELECT k.report_id AS "report_id: ReportIdColumn", k.variant AS "variant: U32"
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::integer[]) AS n (received_at, report_id, variant, version)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant
           WHERE k.received_at = n.received_at AND k.history_version = n.version AND k.deleted_at IS NULL"#,
        tenant,
        &times,
        &ids,
        &variants,
        &numbers
    );
    let named: BTreeSet<(ReportId, u32)> = named
        .fetch_all(connection)
        .await?
        .into_iter()
        .map(|row| (row.report_id.into(), row.variant.into()))
        .collect();
    let is_named = |one: &&HistoryVersion| named.contains(&(one.place.report_id, one.place.variant));
    Ok(versions.iter().filter(is_named).copied().collect())
}

/// Looks into ClickHouse and the database that may have to be repeated, because rows moved between the two.
pub struct MoveWatch {
    ended_moves: Option<u64>,
    looks: u32,
}

impl MoveWatch {
    /// Begins before the first look into ClickHouse. Without a history no statement is sent.
    ///
    /// # Errors
    /// The database fails.
    pub async fn begin(tx: &mut TenantTx) -> Result<MoveWatch> {
        Ok(MoveWatch { ended_moves: count_ended_moves(tx).await?, looks: 0 })
    }

    /// Returns true after the look into the database if no move has ended since the last call, or if moves end all the time.
    ///
    /// # Errors
    /// The database fails.
    pub async fn is_over(&mut self, tx: &mut TenantTx) -> Result<bool> {
        let ended_moves = count_ended_moves(tx).await?;
        let is_same = self.ended_moves == ended_moves;
        (self.ended_moves, self.looks) = (ended_moves, self.looks + 1);
        Ok(is_same || self.looks >= LOOKS_LIMIT)
    }
}

async fn count_ended_moves(tx: &mut TenantTx) -> Result<Option<u64>> {
    match tx.history().is_some() {
        true => Ok(read_moved_rows(tx).await?.map(|moved| moved.ended_moves)),
        false => Ok(None),
    }
}

/// Merges two pages of the same order into one of at most `limit` entries. `position` is that of an entry. An entry that is in both is
/// taken once, from the first page.
pub(crate) fn merge_pages<E, P: Ord>(
    stored: Vec<E>,
    moved: Vec<E>,
    limit: u32,
    position: impl Fn(&E) -> P,
) -> Vec<E> {
    let mut all: Vec<E> = stored.into_iter().chain(moved).collect();
    // A stable sort: of equal entries the first page's comes first.
    all.sort_by_key(&position);
    all.dedup_by(|later, earlier| position(later) == position(earlier));
    all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    all
}
