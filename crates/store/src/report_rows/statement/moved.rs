//! Rows of reports in ClickHouse, as a part of the statement that reads those of PostgreSQL.
//!
//! ClickHouse returns candidates. The statement takes those that a key of the tenant names in their version, and decides their
//! conditions as those of other rows: both are one list of one moment. A row that moves between the look into ClickHouse and the
//! statement would be in neither: then the number of ended moves differs, and both are done again.

use crate::column::{ReportIdColumn, U32};
use crate::number::to_row32;
use crate::{Result, TenantTx, Uuid};
use sqlx::{FromRow, Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_history::{History, HistoryFilter, HistoryOrder, HistoryPlace, HistoryRow, HistoryVersion};
use unslide_model::{ReportId, TenantId};

/// Candidates of one look into ClickHouse.
const CANDIDATES_LIMIT: i64 = 500;
/// Candidates of one source. Their documents are values of one statement.
pub(in crate::report_rows) const DOCUMENTS_LIMIT: usize = 5_000;

/// Adds a statement that lists keys of moved reports behind a place, the newest first: their time, id, variant and version.
pub(in crate::report_rows) type PushKeys<'s> =
    Box<dyn Fn(&mut QueryBuilder<Postgres>, Option<&HistoryPlace>, i64) + Send + Sync + 's>;

/// The way in which reports of a source are found that are in ClickHouse.
pub(in crate::report_rows) enum MovedSearch<'s> {
    /// By conditions that ClickHouse decides. More may match than are wanted.
    Filter(Box<HistoryFilter>),
    /// By tables that stay in PostgreSQL.
    Keys(PushKeys<'s>),
}

/// A search of a source, and how far it is.
pub(in crate::report_rows) struct MovedReports<'s> {
    pub(in crate::report_rows) search: MovedSearch<'s>,
    /// Begins behind this place.
    pub(in crate::report_rows) after: Option<HistoryPlace>,
    progress: Option<Progress>,
}

#[derive(Clone, Copy)]
struct Progress {
    reached: Option<HistoryPlace>,
    /// Nothing older was searched.
    floor: Option<OffsetDateTime>,
    is_all: bool,
    ended_moves: i64,
}

/// The rows that a statement has found for a source.
#[derive(Clone, Copy)]
pub(in crate::report_rows) struct FoundRows {
    pub(in crate::report_rows) is_full: bool,
    pub(in crate::report_rows) oldest: Option<OffsetDateTime>,
    pub(in crate::report_rows) ended_moves: i64,
    /// No row that was moved arrived later.
    pub(in crate::report_rows) newest_moved: OffsetDateTime,
}

impl FoundRows {
    /// Returns the time that no wanted row is older than.
    fn floor(&self) -> Option<OffsetDateTime> {
        self.oldest.filter(|_| self.is_full)
    }
}

impl<'s> MovedReports<'s> {
    pub(in crate::report_rows) fn for_filter(
        filter: HistoryFilter,
        after: Option<HistoryPlace>,
    ) -> MovedReports<'s> {
        MovedReports { search: MovedSearch::Filter(Box::new(filter)), after, progress: None }
    }

    pub(in crate::report_rows) fn for_keys(
        push_keys: PushKeys<'s>,
        after: Option<HistoryPlace>,
    ) -> MovedReports<'s> {
        MovedReports { search: MovedSearch::Keys(push_keys), after, progress: None }
    }

    /// Returns true if rows may be in ClickHouse that the statement has to have.
    pub(in crate::report_rows) fn needs_more(&mut self, found: &FoundRows) -> bool {
        let Some(progress) = self.progress.filter(|progress| progress.ended_moves == found.ended_moves)
        else {
            self.progress = None;
            return found.floor().is_none_or(|floor| floor <= found.newest_moved);
        };
        match (found.floor(), progress.floor) {
            // What was left out is wanted now.
            (None, Some(_)) => {
                self.progress = None;
                true
            }
            (Some(floor), _) if progress.reached.is_some_and(|reached| reached.received_at < floor) => false,
            _ => !progress.is_all,
        }
    }

    /// Finds the next candidates.
    pub(in crate::report_rows) async fn find_next(
        &mut self,
        tx: &mut TenantTx,
        history: &History,
        tenant: &TenantId,
        found: &FoundRows,
        limit: i64,
    ) -> Result<Vec<HistoryRow>> {
        let limit = limit.clamp(1, CANDIDATES_LIMIT);
        let after = self.progress.map_or(self.after, |progress| progress.reached.or(self.after));
        let floor = found.floor();
        let versions: Vec<HistoryVersion> = match &self.search {
            MovedSearch::Filter(filter) => {
                let from = filter.from.into_iter().chain(floor).max();
                if from.is_some_and(|from| from > found.newest_moved) {
                    Vec::new()
                } else {
                    let filter = HistoryFilter { from, ..(**filter).clone() };
                    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                    history.find_versions(tenant, &filter, after, HistoryOrder::NewestFirst, limit).await?
                }
            }
            MovedSearch::Keys(push_keys) => {
                let mut query = QueryBuilder::<Postgres>::new("");
                push_keys(&mut query, after.as_ref(), limit);
                let rows: Vec<KeyOfMoved> = query.build_query_as().fetch_all(tx.parts().0).await?;
                rows.into_iter().map(KeyOfMoved::into_version).collect()
            }
        };
        self.progress = Some(Progress {
            reached: versions.last().map(|last| last.place).or(after),
            floor: if matches!(self.search, MovedSearch::Filter(_)) { floor } else { None },
            is_all: versions.len() < usize::try_from(limit).unwrap_or(usize::MAX),
            ended_moves: found.ended_moves,
        });
        if versions.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<HistoryPlace> = versions.iter().map(|version| version.place).collect();
        Ok(history.read(tenant, &places).await?)
    }
}

#[derive(FromRow)]
struct KeyOfMoved {
    received_at: OffsetDateTime,
    #[sqlx(try_from = "ReportIdColumn")]
    report_id: ReportId,
    #[sqlx(try_from = "U32")]
    variant: u32,
    #[sqlx(rename = "history_version", try_from = "U32")]
    version: u32,
}

impl KeyOfMoved {
    fn into_version(self) -> HistoryVersion {
        let KeyOfMoved { received_at, report_id, variant, version } = self;
        HistoryVersion { place: HistoryPlace { received_at, report_id, variant }, version }
    }
}

/// Adds the table of the candidates that keys of the tenant name in their version.
pub(in crate::report_rows) fn push_candidates(
    query: &mut QueryBuilder<Postgres>,
    name: &str,
    tenant: &str,
    candidates: &[HistoryRow],
) {
    let documents: Vec<&str> = candidates.iter().map(|row| row.row.as_str()).collect();
    query.push(format!("{name} AS MATERIALIZED (SELECT d.* FROM unslide_moved_reports("));
    query.push_bind(format!("[{}]", documents.join(","))).push("::text::jsonb) d JOIN unnest(");
    query.push_bind(candidates.iter().map(|row| row.report_id.uuid()).collect::<Vec<Uuid>>()).push(", ");
    query.push_bind(candidates.iter().map(|row| to_row32(row.variant)).collect::<Vec<i32>>()).push(", ");
    query.push_bind(candidates.iter().map(|row| to_row32(row.version)).collect::<Vec<i32>>());
    query.push(
        ") AS v (report_id, variant, version) ON v.report_id = d.report_id AND v.variant = d.variant \
         JOIN report_keys k ON k.report_id = d.report_id AND k.variant = d.variant AND k.received_at = d.received_at \
         AND k.history_version = v.version AND k.deleted_at IS NULL AND k.tenant = ",
    );
    query.push_bind(tenant.to_owned()).push(" WHERE d.tenant = ").push_bind(tenant.to_owned()).push("), ");
}
