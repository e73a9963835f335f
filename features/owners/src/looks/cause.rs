//! The source file of a group's cause, from a stored report.

use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::Problem;
use unslide_api::feature::site::choose_report;
use unslide_api::feature::site::stored_body::{self, StoredBody, StoredBodyError};
use unslide_model::{ReportId, TenantId};
use unslide_store::GroupId;
use unslide_store::queries::report;
use unslide_store::queries::reports::{self, ReportFilter};
use unslide_symbolicate::grouping::{self, CountedFrame, GroupingRules};

/// The newest reports of which one represents the group, as on its page.
const CANDIDATES_LIMIT: u32 = 20;

/// The source file of the function that grouping names as the cause of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCause {
    pub report: ReportId,
    pub variant: u32,
    pub revision: u32,
    /// The version of the app in the report.
    pub version: String,
    /// The function with its frame; `None` if the report blames no function, or was shortened.
    pub blamed: Option<CountedFrame>,
}

/// Reads the cause of a group from the report that represents it. Returns `None` if the group has no stored report.
///
/// # Errors
/// A server does not answer, no bytes are left, or the body was moved at this moment: the look is to be repeated.
pub async fn read_cause(
    symbolication: &Symbolication,
    tenant: &TenantId,
    group: GroupId,
    rules: &Arc<GroupingRules>,
) -> Result<Option<GroupCause>, Problem> {
    let filter = ReportFilter { group: Some(group), ..ReportFilter::default() };
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let mut rows = reports::list_reports(&mut tx, &filter, None, CANDIDATES_LIMIT).await?.reports;
    rows.retain(|row| !row.body_dropped);
    let newest: Vec<_> = rows.iter().map(|row| (row.is_complete(), row.frames.own_symbolicated)).collect();
    let Some(row) = choose_report(&newest).and_then(|(at, _)| rows.get(at)) else { return Ok(None) };
    let Some(found) = report::find_report(&mut tx, row.report_id, row.variant).await? else {
        return Ok(None);
    };
    let StoredBody { json, reservation, .. } =
        match stored_body::read_body(symbolication, tenant, tx, &found).await {
            Ok(body) => body,
            Err(StoredBodyError::Lost(lost)) => return Err(Problem::internal(lost)),
            Err(StoredBodyError::Problem(problem)) => return Err(problem),
        };
    let rules = rules.clone();
    let find = move || {
        let report = stored_body::read_report(&json)?;
        let grouped = grouping::regroup_report(&report, &rules).ok().flatten();
        Ok::<_, Problem>(grouped.and_then(|grouped| grouped.culprit_frame))
    };
    let blamed = symbolication.capacity.cpu.run_for(tenant, find).await??;
    drop(reservation);
    let listed = found.listed;
    Ok(Some(GroupCause {
        report: listed.report_id,
        variant: listed.variant,
        revision: listed.revision,
        version: listed.version,
        blamed,
    }))
}
