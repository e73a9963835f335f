//! Finds the records of a batch that are about reports with rows in ClickHouse.

use crate::records::{Item, Parsed};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::{ReportId, TenantId};
use unslide_store::{Store, StoreError, history};
use unslide_stream::RecordRef;

/// Returns these records, each with its tenant.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn find_moved(
    store: &Store,
    items: &[Item],
) -> Result<Vec<(TenantId, RecordRef)>, StoreError> {
    let mut reports: BTreeMap<&TenantId, Vec<(ReportId, &RecordRef)>> = BTreeMap::new();
    for item in items {
        if let Parsed::Report(report) = &item.parsed {
            reports.entry(&report.tenant).or_default().push((report.arrival.report_id, &item.at));
        }
    }
    let mut moved = Vec::new();
    for (tenant, reports) in reports {
        let ids: Vec<ReportId> = reports.iter().map(|(id, _)| *id).collect();
        let mut tx = store.tenant(tenant).await?;
        let found: BTreeSet<ReportId> = history::list_moved(&mut tx, &ids).await?.into_iter().collect();
        tx.rollback().await?;
        let of_them = reports.into_iter().filter(|(id, _)| found.contains(id));
        moved.extend(of_them.map(|(_, at)| (tenant.clone(), at.clone())));
    }
    Ok(moved)
}
