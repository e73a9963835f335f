//! The job of the builder that applies the rules to stored reports, without symbolicating them again.

use crate::rewriting::{self, TenantRules};
use crate::row_document::scrub_row;
use crate::store::runs::{self, JOB_ROW, PageCounts, SCRUB_JOB_KIND, ScrubRunId};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler, ReportVariant};
use unslide_feature::{StoredDocument, rewrite_stored_report};
use unslide_store::cursor::ReportCursor;
use unslide_store::reports::pages::{PagedReport, list_oldest_reports};
use unslide_store::reports::row_texts::{self, RowTexts};
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
/// Reports of apps with rules that one transaction changes: their new bodies are in memory.
const CHANGED_REPORTS_LIMIT: usize = 16;
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
        let mut page = Page::from_listed(&listed, |app| rules.has_rules(tenant, app));
        let rows = row_texts::read_row_texts(&mut tx, &page.reports).await?;
        page.reports.retain(|report| rows.iter().all(|row| (row.report_id, row.variant) != *report));
        // No connection is held during reads from object storage.
        tx.rollback().await?;
        let without_body = rewrite_rows(job, rows, &rules).await?;
        let (rewritten, unreadable) = rewrite_page(job, &page.reports, &rules, now).await?;
        let unreadable = unreadable + without_body.unreadable;
        let mut tx = job.store().tenant(tenant).await?;
        let changed = rewrite_reports(&mut tx, &rewritten).await? + without_body.changed;
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
            if page.reports.len() >= CHANGED_REPORTS_LIMIT {
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

/// Changes the rows of reports without a body in a transaction of its own, because the other reports are locked after their groups then.
async fn rewrite_rows(
    job: &FeatureJob<'_>,
    rows: Vec<RowTexts>,
    rules: &Arc<TenantRules>,
) -> Result<PageCounts, JobFailure> {
    let tenant = job.lease.tenant()?;
    let (rules, owner, listed) = (Arc::clone(rules), tenant.clone(), rows.len());
    let scrub = move || -> Vec<Option<RowTexts>> {
        rows.iter().filter_map(|row| scrub_row(&rules, &owner, row).ok()).collect()
    };
    if listed == 0 {
        return Ok(PageCounts::default());
    }
    let scrubbed = tokio::task::spawn_blocking(scrub).await;
    let scrubbed =
        scrubbed.map_err(|_| JobFailure::Again("rules could not be applied to rows".to_owned()))?;
    let unreadable = (listed - scrubbed.len()) as u64;
    let changed: Vec<RowTexts> = scrubbed.into_iter().flatten().collect();
    if changed.is_empty() {
        return Ok(PageCounts { unreadable, ..PageCounts::default() });
    }
    let mut tx = job.store().tenant(tenant).await?;
    let changed = row_texts::replace_row_texts(&mut tx, &changed).await?;
    tx.commit().await?;
    Ok(PageCounts { changed, unreadable, ..PageCounts::default() })
}

/// Returns the reports that the rules change, and how many could not be read.
async fn rewrite_page(
    job: &FeatureJob<'_>,
    reports: &[ReportVariant],
    rules: &Arc<TenantRules>,
    now: OffsetDateTime,
) -> Result<(Vec<Arrival>, u64), JobFailure> {
    let (tenant, rules, readers) = (job.lease.tenant()?.clone(), Arc::clone(rules), job.readers().clone());
    let rewrite = move |(report_id, _): ReportVariant, source: &RequestSource, document: Vec<u8>| {
        let stored = StoredDocument { tenant: &tenant, report_id, source, document };
        Ok(rewrite_stored_report(stored, &readers, (crate::NAME, rules.clone()), now)?)
    };
    let read = job.read_bodies(reports, "a stored report could not be scrubbed", rewrite).await?;
    let unreadable = (reports.len() - read.len()) as u64;
    Ok((read.into_iter().flatten().collect(), unreadable))
}
