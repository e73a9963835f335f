//! Moving stored reports to the groups that a tenant's rules give them. Nothing is symbolicated and nothing is sent:
//! the stored bodies say what is needed.

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES};
use unslide_model::{BodyKey, ReportGrouping, ReportId, TenantId};
use unslide_report::Report;
use unslide_store::jobs::{self, JobLease};
use unslide_store::reports::regroup::{self, RegroupPage, RegroupStep, Regrouped};
use unslide_store::requests::{self, RequestSource};
use unslide_store::segments::ReportBody;
use unslide_symbolicate::grouping::{self, GroupingRules};

/// Reports of one transaction.
const PAGE: u32 = 200;
/// The most reports with bodies in memory at the same time.
const AT_ONCE: usize = 8;

/// Pages over the tenant's reports. It goes on where the page before has ended, whatever builder begins with it.
pub(crate) async fn regroup(builder: &Builder, job: &JobLease, version: u64) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let turn = JobTurn::begin(builder.host.shutdown.token());
    loop {
        let mut tx = builder.store.tenant(tenant).await?;
        let step = regroup::next(&mut tx, version, PAGE).await?;
        let page = match step {
            RegroupStep::Page(page) => page,
            RegroupStep::Wait(pause) => {
                jobs::postpone(&mut tx, job, pause).await?;
                tx.commit().await?;
                return Ok(());
            }
            RegroupStep::Over => {
                jobs::complete(&mut tx, job).await?;
                tx.commit().await?;
                return Ok(());
            }
        };
        // It waits for object storage, and so shall no connection.
        tx.rollback().await?;
        let regrouped = read(builder, tenant, &page).await?;
        let mut tx = builder.store.tenant(tenant).await?;
        if !regroup::store(&mut tx, &page, &regrouped).await? {
            // The rules changed, or another builder has the job: the next step tells.
            tx.rollback().await?;
            continue;
        }
        jobs::progressed(&mut tx, job, &job.work).await?;
        let is_over = turn.is_over();
        if is_over {
            jobs::postpone(&mut tx, job, time::Duration::ZERO).await?;
        }
        tx.commit().await?;
        if is_over {
            return Ok(());
        }
    }
}

/// The groups of a page's reports, as far as their bodies can be read.
async fn read(
    builder: &Builder,
    tenant: &TenantId,
    page: &RegroupPage,
) -> Result<Vec<Regrouped>, JobFailure> {
    let rules = GroupingRules::parse(&page.rules.text).map_err(|problems| {
        let problem = problems.first().map(ToString::to_string).unwrap_or_default();
        JobFailure::Again(format!("the tenant's grouping rules can't be read: {problem}"))
    })?;
    let rules = Arc::new(rules);
    let mut regrouped = Vec::new();
    for reports in page.reports.chunks(AT_ONCE) {
        let mut moved = Vec::new();
        for (report, source) in sources(builder, tenant, reports).await? {
            match read_one(builder, tenant, report, source, &rules).await? {
                Found::Grouping(one) => regrouped.push(one),
                Found::Unreadable => {}
                Found::Gone => moved.push(report),
            }
        }
        // The body of a report moves while it is looked for; the database knows where to.
        for (report, source) in sources(builder, tenant, &moved).await? {
            if let Found::Grouping(one) = read_one(builder, tenant, report, source, &rules).await? {
                regrouped.push(one);
            }
        }
    }
    Ok(regrouped)
}

async fn sources(
    builder: &Builder,
    tenant: &TenantId,
    reports: &[(ReportId, u32)],
) -> Result<BTreeMap<(ReportId, u32), RequestSource>, JobFailure> {
    let mut tx = builder.store.tenant(tenant).await?;
    let sources = requests::sources(&mut tx, reports).await?;
    tx.rollback().await?;
    Ok(sources)
}

/// What became of reading one report.
enum Found {
    Grouping(Regrouped),
    /// It was shortened, or is damaged.
    Unreadable,
    /// Its body is not where it was.
    Gone,
}

async fn read_one(
    builder: &Builder,
    tenant: &TenantId,
    (report_id, variant): (ReportId, u32),
    source: RequestSource,
    rules: &Arc<GroupingRules>,
) -> Result<Found, JobFailure> {
    let revision = source.revision;
    let stored = match source.body {
        ReportBody::Inline(_) => GroupedBody::Inline(source.body),
        ReportBody::Segment(place) => {
            let key = keys::segment(tenant, place.day, place.segment);
            match segment::fetch(&builder.objects, &key, place.offset, place.length).await? {
                Some(frame) => {
                    let id = BodyId { tenant: tenant.clone(), report_id, variant, revision };
                    GroupedBody::Frame(id, place.key, frame)
                }
                None => return Ok(Found::Gone),
            }
        }
    };
    let rules = rules.clone();
    let grouped = tokio::task::spawn_blocking(move || stored.group(&rules)).await;
    Ok(match grouped {
        Ok(Ok((grouping, terms))) => {
            Found::Grouping(Regrouped { report_id, variant, revision, grouping, terms })
        }
        Ok(Err(error)) => {
            tracing::warn!(tenant = %tenant, report.id = %report_id, "a stored report stays in its group: {error}");
            Found::Unreadable
        }
        Err(error) => {
            tracing::error!(tenant = %tenant, report.id = %report_id, "a stored report could not be grouped: {error}");
            Found::Unreadable
        }
    })
}

/// A body as it is stored.
enum GroupedBody {
    Inline(ReportBody),
    Frame(BodyId, BodyKey, bytes::Bytes),
}

impl GroupedBody {
    fn group(
        self,
        rules: &GroupingRules,
    ) -> Result<(Option<ReportGrouping>, Vec<String>), Box<dyn std::error::Error + Send + Sync>> {
        let json = match self {
            GroupedBody::Inline(body) => body.json()?,
            GroupedBody::Frame(id, key, frame) => segment::open(&id, &key, frame, MAX_BODY_BYTES)?,
        };
        let report = Report::read_stored(&json)?;
        Ok((grouping::regroup(&report, rules)?.map(ReportGrouping::from), report.search_terms()))
    }
}
