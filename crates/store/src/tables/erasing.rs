//! Removes the data that an erasure finds and counts it by table for its request, or only counts it.
//! Every step may be repeated.

use super::Selection;
use super::rows::COUNT_LIMIT;
use crate::erasure_requests::ErasureRequest;
use crate::persons::ErasedRows;
use crate::reports::delete_report;
use crate::{Result, Store, TenantTx};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::{ReportId, TenantId};
use utoipa::ToSchema;

/// Rows that one statement of an erasure lists.
const PAGE_ENTRIES: u32 = 200;
/// Time for which an erasure searches before other jobs get their turn.
const ERASURE_TURN_LIMIT: Duration = Duration::from_secs(10);
/// Time for which a request counts.
const COUNT_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Counts of what an erasure would remove.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RemovalCount {
    /// Rows that would be removed, by table. A report counts as one row, with all its parts.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub would_remove: BTreeMap<&'static str, u64>,
    /// False if the count stopped at 100,000 rows of a table or after 5 seconds: there are more rows than it says.
    pub complete: bool,
    #[serde(skip)]
    reports: BTreeSet<(ReportId, u32)>,
    #[serde(skip)]
    end: Instant,
}

impl RemovalCount {
    pub(crate) fn begin() -> RemovalCount {
        RemovalCount {
            would_remove: BTreeMap::new(),
            complete: true,
            reports: BTreeSet::new(),
            end: Instant::now() + COUNT_TIME_LIMIT,
        }
    }

    /// Returns true if the time for counting is over.
    pub(crate) fn is_over(&mut self) -> bool {
        let is_over = Instant::now() >= self.end;
        self.complete &= !is_over;
        is_over
    }

    pub(crate) fn add_rows(&mut self, counted: &[ErasedRows]) {
        for ErasedRows { table, rows } in counted.iter().filter(|counted| counted.rows > 0) {
            *self.would_remove.entry(table).or_default() += rows;
            self.complete &= *rows < u64::from(COUNT_LIMIT);
        }
    }

    /// Adds reports, each once.
    fn add_reports(&mut self, found: Vec<(ReportId, u32)>) {
        self.complete &= found.len() < COUNT_LIMIT as usize;
        self.reports.extend(found);
        if !self.reports.is_empty() {
            self.would_remove.insert("reports", self.reports.len() as u64);
        }
    }
}

/// An erasure at work: it removes the data that it finds, or only counts it.
pub struct Erasing<'s>(Action<'s>);

enum Action<'s> {
    Remove { store: &'s Store, tenant: &'s TenantId, request: ErasureRequest, end: Instant },
    Count { tx: &'s mut TenantTx, count: RemovalCount },
}

impl<'s> Erasing<'s> {
    /// Removes data for a request, which counts what is removed. `store` has the declarations of all features.
    #[must_use]
    pub fn removing(store: &'s Store, tenant: &'s TenantId, request: ErasureRequest) -> Erasing<'s> {
        Erasing(Action::Remove { store, tenant, request, end: Instant::now() + ERASURE_TURN_LIMIT })
    }

    /// Counts what would be removed, in one transaction.
    #[must_use]
    pub fn counting(tx: &'s mut TenantTx) -> Erasing<'s> {
        Erasing(Action::Count { tx, count: RemovalCount::begin() })
    }

    /// Returns true if nothing is removed.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        matches!(self.0, Action::Count { .. })
    }

    /// Returns the counts; without any if data is removed.
    #[must_use]
    pub fn into_count(self) -> RemovalCount {
        match self.0 {
            Action::Count { count, .. } => count,
            Action::Remove { .. } => RemovalCount::begin(),
        }
    }

    /// Returns true if the turn of the erasure, or the time for counting, is over.
    pub fn is_turn_over(&mut self) -> bool {
        match &mut self.0 {
            Action::Remove { end, .. } => Instant::now() >= *end,
            Action::Count { count, .. } => count.is_over(),
        }
    }

    /// The number of entries that one statement lists.
    #[must_use]
    pub fn page_entries(&self) -> u32 {
        if self.is_counting() { COUNT_LIMIT } else { PAGE_ENTRIES }
    }

    /// Begins a transaction that lists what is erased next.
    pub async fn begin_search(&mut self) -> Result<SearchTx<'_>> {
        Ok(match &mut self.0 {
            Action::Remove { store, tenant, .. } => SearchTx::Own(Box::new(store.tenant(tenant).await?)),
            Action::Count { tx, .. } => SearchTx::Shared(tx),
        })
    }

    /// Begins a transaction that records what is erased. Returns None if nothing is removed.
    pub async fn begin_removal(&self) -> Result<Option<TenantTx>> {
        match &self.0 {
            Action::Remove { store, tenant, .. } => Ok(Some(store.tenant(tenant).await?)),
            Action::Count { .. } => Ok(None),
        }
    }

    /// Deletes reports, each with its variant in a transaction of its own: it locks the counts of its version and group.
    /// Returns true if the same search may find more.
    pub async fn erase_reports(&mut self, found: Vec<(ReportId, u32)>) -> Result<bool> {
        let (store, tenant, request) = match &mut self.0 {
            Action::Remove { store, tenant, request, .. } => (store, tenant, request),
            Action::Count { count, .. } => {
                count.add_reports(found);
                return Ok(false);
            }
        };
        let mut is_any = false;
        for (report_id, variant) in found {
            let mut tx = store.tenant(tenant).await?;
            // Those that are not there any more were deleted by others.
            if delete_report(&mut tx, report_id, variant, None).await? {
                let removed = ErasedRows { table: "reports", rows: 1 };
                request.count_removed(&mut tx, &[removed]).await?;
                is_any = true;
            }
            tx.commit().await?;
        }
        Ok(is_any)
    }

    /// Deletes selected rows of all tables, at most `limit` of each. Returns true if the same search may find more.
    pub async fn erase_rows(&mut self, selection: Selection<'_>, limit: Option<u32>) -> Result<bool> {
        match &mut self.0 {
            Action::Remove { store, tenant, request, .. } => {
                let mut tx = store.tenant(tenant).await?;
                let removed = selection.delete_rows(&mut tx, limit).await?;
                request.count_removed(&mut tx, &removed).await?;
                tx.commit().await?;
                Ok(!removed.is_empty())
            }
            Action::Count { tx, count } => {
                count.add_rows(&selection.count_rows(tx).await?);
                Ok(false)
            }
        }
    }
}

/// A transaction that lists what is erased. It is rolled back when it is dropped, if it is no one else's.
pub enum SearchTx<'t> {
    /// A transaction of this search.
    Own(Box<TenantTx>),
    /// The transaction of the request that counts.
    Shared(&'t mut TenantTx),
}

impl Deref for SearchTx<'_> {
    type Target = TenantTx;

    fn deref(&self) -> &TenantTx {
        match self {
            SearchTx::Own(tx) => tx,
            SearchTx::Shared(tx) => tx,
        }
    }
}

impl DerefMut for SearchTx<'_> {
    fn deref_mut(&mut self) -> &mut TenantTx {
        match self {
            SearchTx::Own(tx) => tx,
            SearchTx::Shared(tx) => tx,
        }
    }
}
