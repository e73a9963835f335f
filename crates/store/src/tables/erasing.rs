//! The erasure of what a request has found, with its count by table. Every step may be repeated.

use super::Selection;
use crate::erasure_requests::ErasureRequest;
use crate::persons::ErasedRows;
use crate::reports::delete_report;
use crate::{Result, Store};
use unslide_model::{ReportId, TenantId};

/// The erasure of data for one request.
#[derive(Clone, Copy)]
pub struct Erasing<'s> {
    /// The store, with the declarations of all features.
    pub store: &'s Store,
    /// The tenant.
    pub tenant: &'s TenantId,
    /// The request, which counts what is removed.
    pub request: ErasureRequest,
}

impl Erasing<'_> {
    /// Deletes reports, each with its variant in a transaction of its own: it locks the counts of its version and group.
    /// Returns the number of those that were not deleted already.
    pub async fn erase_reports(self, found: Vec<(ReportId, u32)>) -> Result<u64> {
        let mut deleted = 0;
        for (report_id, variant) in found {
            let mut tx = self.store.tenant(self.tenant).await?;
            if delete_report(&mut tx, report_id, variant, None).await? {
                let removed = ErasedRows { table: "reports", rows: 1 };
                self.request.count_removed(&mut tx, &[removed]).await?;
                deleted += 1;
            }
            tx.commit().await?;
        }
        Ok(deleted)
    }

    /// Deletes selected rows of all tables, at most `limit` of each. Returns their number.
    pub async fn erase_rows(self, selection: Selection<'_>, limit: Option<u32>) -> Result<u64> {
        let mut tx = self.store.tenant(self.tenant).await?;
        let removed = selection.delete_rows(&mut tx, limit).await?;
        self.request.count_removed(&mut tx, &removed).await?;
        tx.commit().await?;
        Ok(removed.iter().map(|removed| removed.rows).sum())
    }
}
