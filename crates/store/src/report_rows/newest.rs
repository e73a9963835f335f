//! The newest reports of a tenant, with their groups.

use super::samples::{ReportSample, SampleScope, read_samples};
use crate::column::{ReportIdColumn, U32};
use crate::{GroupId, Result, TenantTx};
use sqlx::FromRow;
use unslide_model::ReportId;

/// A stored report and its group.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct GroupedReport {
    /// The report.
    #[sqlx(try_from = "ReportIdColumn")]
    pub report_id: ReportId,
    /// Which of those with this id.
    #[sqlx(try_from = "U32")]
    pub variant: u32,
    /// Its app.
    pub app: String,
    /// The group of its own fingerprint, which may be merged into another one.
    #[sqlx(rename = "group_id")]
    pub group: Option<GroupId>,
}

/// Returns the newest stored reports.
pub async fn list_newest_reports(tx: &mut TenantTx, limit: u32) -> Result<Vec<GroupedReport>> {
    let sample = ReportSample::new(SampleScope::Tenant, "r.app, r.group_id", i64::from(limit));
    read_samples(tx, [sample], &|query| {
        query.push("SELECT report_id, variant, app, group_id FROM newest");
    })
    .await
}
