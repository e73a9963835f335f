//! The job of the builder that applies the rules to stored reports, without symbolicating them again.

use crate::rewriting::{self, TenantRules};
use crate::store::runs::{self, JOB_ROW, PageCounts, SCRUB_JOB_KIND, ScrubRunId};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler, ReportVariant};
use unslide_feature::{StoredDocument, rewrite_stored_report};
use unslide_model::TenantId;
use unslide_store::cursor::ReportCursor;
use unslide_store::reports::regroup::{PagedReport, list_oldest_reports};
use unslide_store::reports::{Arrival, rewrite_reports};
use unslide_store::requests::RequestSource;
use unslide_store::{Announcement, HookFuture, OwnerTx, announce_to_features, jobs};

/// One at a time in each builder.
pub const SCRUB_JOBS: &[JobHandler] =
    &[JobHandler { kind: SCRUB_JOB_KIND, places: 1, child_task: None, run, give_up }];

/// Time between the start of a run and its first report: until then indexers store reports that they read with the rules of before.
const SETTLING_INTERVAL: Duration = Duration::seconds(30);
/// Reports that one statement lists.
const LISTED_REPORTS: u32 = 200;
/// Reports of apps with rules that one transaction changes: their bodies are in memory.
const BODIES_IN_MEMORY_LIMIT: usize = 16;
/// Time for which a job goes on before the jobs of others get their turn.
const JOB_TURN_MICROS: i64 = 30_000_000;

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(scrub_some(job))
}

fn give_up<'t>(tx: &'t mut OwnerTx, given_up: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async { runs::fail_run(tx, given_up.job.work.row(JOB_ROW)?).await })
}

/// Goes on with a run for one turn.
async fn scrub_some(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let tenant = job.lease.tenant()?;
    let id: ScrubRunId = job.lease.work.row(JOB_ROW)?;
    let rules = Arc::new(rewriting::load_tenant_rules(job.store(), tenant).await?);
    let clock = job.store().clock();
    let end = clock.monotonic_micros() + JOB_TURN_MICROS;
    loop {
        let mut tx = job.store().tenant(tenant).await?;
        let Some(run) = runs::find_open_run(&mut tx, id).await? else {
            return job.end_turn(tx, None).await;
        };
        let settled = run.started_at + SETTLING_INTERVAL;
        if tx.now() < settled {
            let pause = settled - tx.now();
            return job.end_turn(tx, Some(pause)).await;
        }
        let listed = list_oldest_reports(&mut tx, run.last.as_ref(), LISTED_REPORTS).await?;
        let now = tx.now();
        // No connection is held during reads from object storage.
        tx.rollback().await?;
        let page = Page::from_listed(&listed, |app| rules.has_rules(tenant, app));
        let (rewritten, unreadable) = rewrite_page(job, tenant, &page.reports, &rules, now).await?;
        let mut tx = job.store().tenant(tenant).await?;
        let changed = rewrite_reports(&mut tx, &rewritten).await?;
        let counts = PageCounts { looked: page.looked, changed, unreadable };
        if !runs::record_page(&mut tx, id, page.last.as_ref(), counts).await? {
            // A later run has taken its place.
            tx.rollback().await?;
            continue;
        }
        if page.last.is_none() {
            announce_to_features(&mut tx, &[Announcement::texts_removed()]).await?;
            return job.end_turn(tx, None).await;
        }
        if clock.monotonic_micros() >= end {
            return job.end_turn(tx, Some(Duration::ZERO)).await;
        }
        jobs::record_progress(&mut tx, job.lease, &job.lease.work).await?;
        tx.commit().await?;
    }
}

/// Reports that one transaction looks at.
struct Page {
    looked: u64,
    /// Those of apps with rules.
    reports: Vec<ReportVariant>,
    /// The position behind the page; None if no report is left.
    last: Option<ReportCursor>,
}

impl Page {
    /// Takes reports from the beginning of a list until there are enough of apps with rules.
    fn from_listed(listed: &[PagedReport], has_rules: impl Fn(&str) -> bool) -> Page {
        let mut page = Page { looked: 0, reports: Vec::new(), last: None };
        for report in listed {
            if page.reports.len() >= BODIES_IN_MEMORY_LIMIT {
                break;
            }
            page.looked += 1;
            page.last = Some(report.cursor);
            if has_rules(&report.app) {
                page.reports.push((report.report_id, report.variant));
            }
        }
        page
    }
}

/// Returns the reports that the rules change, and how many could not be read.
async fn rewrite_page(
    job: &FeatureJob<'_>,
    tenant: &TenantId,
    reports: &[ReportVariant],
    rules: &Arc<TenantRules>,
    now: OffsetDateTime,
) -> Result<(Vec<Arrival>, u64), JobFailure> {
    let (mut rewritten, mut moved) = (Vec::new(), Vec::new());
    let sources = job.load_sources(reports).await?;
    // A report without a body has texts in its row alone.
    let mut unreadable = (reports.len() - sources.len()) as u64;
    for (report, source) in sources {
        match rewrite_one(job, tenant, report, source, rules, now).await? {
            Outcome::Rewritten(arrival) => rewritten.push(*arrival),
            Outcome::Unchanged => {}
            Outcome::Unreadable => unreadable += 1,
            Outcome::Gone => moved.push(report),
        }
    }
    // The body of a report may move during the look-up; the database has its new position.
    for (report, source) in job.load_sources(&moved).await? {
        match rewrite_one(job, tenant, report, source, rules, now).await? {
            Outcome::Rewritten(arrival) => rewritten.push(*arrival),
            Outcome::Unchanged => {}
            Outcome::Unreadable | Outcome::Gone => unreadable += 1,
        }
    }
    Ok((rewritten, unreadable))
}

/// Result of reading one report.
enum Outcome {
    Rewritten(Box<Arrival>),
    /// The rules take nothing of it.
    Unchanged,
    Unreadable,
    /// The body is no longer at its position.
    Gone,
}

async fn rewrite_one(
    job: &FeatureJob<'_>,
    tenant: &TenantId,
    report: ReportVariant,
    source: RequestSource,
    rules: &Arc<TenantRules>,
    now: OffsetDateTime,
) -> Result<Outcome, JobFailure> {
    let Some(body) = job.fetch_body(report, &source).await? else { return Ok(Outcome::Gone) };
    let (owner, rules, readers) = (tenant.clone(), Arc::clone(rules), job.readers().clone());
    let rewrite = move || {
        let document = body.read_document().map_err(|error| error.to_string())?;
        let stored = StoredDocument { tenant: &owner, report_id: report.0, source: &source, document };
        rewrite_stored_report(stored, &readers, (crate::NAME, rules), now)
    };
    let rewritten = tokio::task::spawn_blocking(rewrite).await.map_err(|error| error.to_string());
    Ok(match rewritten.and_then(|rewritten| rewritten) {
        Ok(Some(arrival)) => Outcome::Rewritten(Box::new(arrival)),
        Ok(None) => Outcome::Unchanged,
        Err(error) => {
            tracing::warn!(tenant = %tenant, report.id = %report.0, error, "a stored report could not be scrubbed");
            Outcome::Unreadable
        }
    })
}
