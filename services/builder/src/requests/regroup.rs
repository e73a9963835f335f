//! Moves stored reports to the groups that a tenant's rules give them. This needs only the stored bodies:
//! reports are not symbolicated again and no requests are sent.

use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use crate::requests::resources::RequestResources;
use crate::stored_bodies::{ReportVariant, read_bodies};
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_model::{ReportGrouping, TenantId};
use unslide_report::Report;
use unslide_store::jobs::{self, JobLease};
use unslide_store::reports::kept_bodies;
use unslide_store::reports::regroup::{self, RegroupPage, RegroupStep, Regrouped};
use unslide_store::requests::RequestSource;
use unslide_symbolicate::grouping::{self, GroupingRules};

/// Number of reports per transaction.
const REGROUP_PAGE_ENTRIES: u32 = 200;

/// Regroups the tenant's reports page by page. Any builder can continue after the last page.
pub(crate) async fn regroup_reports(
    resources: &RequestResources,
    job: &JobLease,
    version: u64,
) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let turn = JobTurn::begin(resources.shutdown.token());
    loop {
        let mut tx = resources.storage.store.tenant(tenant).await?;
        let step = regroup::next(&mut tx, version, REGROUP_PAGE_ENTRIES).await?;
        let page = match step {
            RegroupStep::Page(page) => page,
            RegroupStep::Wait(pause) => {
                jobs::postpone_job(&mut tx, job, pause).await?;
                tx.commit().await?;
                return Ok(());
            }
            RegroupStep::Over => {
                jobs::complete_job(&mut tx, job).await?;
                tx.commit().await?;
                return Ok(());
            }
        };
        // No connection is held during reads from object storage.
        tx.rollback().await?;
        let regrouped = regroup_page(resources, tenant, &page).await?;
        let mut tx = resources.storage.store.tenant(tenant).await?;
        if !regroup::store_regrouped(&mut tx, &page, &regrouped).await? {
            // The rules changed, or another builder has the job: the next step finds out.
            tx.rollback().await?;
            continue;
        }
        jobs::record_progress(&mut tx, job, &job.work).await?;
        let is_over = turn.is_over();
        if is_over {
            jobs::postpone_job(&mut tx, job, time::Duration::ZERO).await?;
        }
        tx.commit().await?;
        if is_over {
            return Ok(());
        }
    }
}

/// Returns the groups of a page's reports, for the reports with a readable body, and for those without one that are like such a
/// report.
async fn regroup_page(
    resources: &RequestResources,
    tenant: &TenantId,
    page: &RegroupPage,
) -> Result<Vec<Regrouped>, JobFailure> {
    let rules = GroupingRules::parse(&page.rules.text).map_err(|problems| {
        let problem = problems.first().map(ToString::to_string).unwrap_or_default();
        JobFailure::Again(format!("the tenant's grouping rules cannot be read: {problem}"))
    })?;
    let rules = Arc::new(rules);
    let mut tx = resources.storage.store.tenant(tenant).await?;
    let without_body = kept_bodies::list_like_reports(&mut tx, &page.reports).await?;
    tx.rollback().await?;
    let lacks_body = |report: &ReportVariant| without_body.iter().any(|one| one.report == *report);
    let with_body: Vec<_> = page.reports.iter().copied().filter(|report| !lacks_body(report)).collect();
    let mut regrouped = regroup_reports_with_bodies(resources, tenant, &with_body, &rules).await?;
    let likes: BTreeSet<_> = without_body.iter().map(|one| one.like).collect();
    let likes: Vec<_> = likes.into_iter().collect();
    let examples = regroup_reports_with_bodies(resources, tenant, &likes, &rules).await?;
    for one in &without_body {
        let example = examples.iter().find(|example| (example.report_id, example.variant) == one.like);
        if let Some(example) = example {
            let (report_id, variant) = one.report;
            regrouped.push(Regrouped { report_id, variant, revision: one.revision, ..example.clone() });
        }
    }
    Ok(regrouped)
}

/// Returns the groups of reports with a readable body.
async fn regroup_reports_with_bodies(
    resources: &RequestResources,
    tenant: &TenantId,
    reports: &[ReportVariant],
    rules: &Arc<GroupingRules>,
) -> Result<Vec<Regrouped>, JobFailure> {
    let (rules, readers) = (rules.clone(), resources.readers.clone());
    let regroup = move |(report_id, variant): ReportVariant, source: &RequestSource, document: Vec<u8>| {
        let json = readers.stored_report(&document)?;
        let report = Report::read_stored(&json)?;
        let grouping = grouping::regroup_report(&report, &rules)?.map(ReportGrouping::from);
        let terms = report.search_terms();
        Ok(Regrouped { report_id, variant, revision: source.revision, grouping, terms })
    };
    read_bodies(&resources.storage, tenant, reports, "a stored report stays in its group", regroup).await
}
