//! Fetches crash logs, and sends each as a report by the way of all reports.

use super::Poller;
use super::failure::TurnFailure;
use super::lists::check_rate;
use crate::apple::{AppleError, AppleSession};
use crate::store::{self, SubmissionState, WaitingSubmission};
use bytes::Bytes;
use std::time::Duration as StdDuration;
use time::Duration;
use unslide_api::feature::intake::{
    BodyForm, Bounds, Incoming, ReadBudget, ReceivedReport, RecordMaker, ReportScope, TraceContext,
    read_body, read_reports,
};
use unslide_api::feature::operation::Charge;
use unslide_api::problem::{Kind, Problem};
use unslide_model::{ReportId, TenantId};
use unslide_report::ReadLimits;
use unslide_stream::OutRecord;

/// Crash logs of a turn.
const LOGS_LIMIT: u32 = 100;
/// Reports of one crash log.
const MAX_REPORTS: usize = 10;
/// How long Apple may take until it has a log.
const LOG_TIMEOUT: Duration = Duration::days(7);
/// The pause before a log is asked for again, which doubles up to the longest.
const FIRST_RETRY_INTERVAL: Duration = Duration::minutes(15);
const RETRY_INTERVAL_MAX: Duration = Duration::days(1);
/// How long the broker may take for a report.
const BROKER_TIMEOUT: StdDuration = StdDuration::from_secs(30);
/// Names the sender in the details of dead letters.
const SENDER: &str = "TestFlight";
/// The most characters of a detail that is stored.
const MAX_DETAIL_CHARS: usize = 500;

/// The records of a crash log.
struct LogRecords {
    records: Vec<OutRecord>,
    /// The report, or why there is none.
    report: Result<ReportId, String>,
}

impl Poller {
    /// Sends the crash logs that are there. Returns true if there may be more.
    pub(super) async fn send_logs(
        &self,
        tenant: &TenantId,
        session: &mut AppleSession<'_>,
    ) -> Result<bool, TurnFailure> {
        let mut tx = self.store().tenant(tenant).await?;
        let waiting = store::list_waiting(&mut tx, LOGS_LIMIT).await?;
        tx.commit().await?;
        for one in &waiting {
            match session.read_log(&one.submission).await {
                Ok(Some(log)) => self.send_log(tenant, one, log).await?,
                Ok(None) => self.postpone(tenant, one, "Apple has no crash log of it").await?,
                // This log alone is wrong.
                Err(
                    error @ (AppleError::TooLarge(_) | AppleError::Unreadable | AppleError::Request { .. }),
                ) => {
                    self.postpone(tenant, one, &error.to_string()).await?;
                }
                Err(error) => return Err(error.into()),
            }
            check_rate(session)?;
        }
        Ok(waiting.len() == LOGS_LIMIT as usize)
    }

    /// Has a log asked for again later, or ends its submission.
    async fn postpone(
        &self,
        tenant: &TenantId,
        one: &WaitingSubmission,
        why: &str,
    ) -> Result<(), TurnFailure> {
        let mut tx = self.store().tenant(tenant).await?;
        let outcome = if tx.now() - one.seen_at >= LOG_TIMEOUT {
            store::end_submission(&mut tx, &one.submission, SubmissionState::NoLog, why).await?;
            "no_log"
        } else {
            let doublings = u32::try_from(one.tries).unwrap_or_default().min(7);
            let pause = (FIRST_RETRY_INTERVAL * 2_i32.pow(doublings)).min(RETRY_INTERVAL_MAX);
            store::postpone_submission(&mut tx, &one.submission, pause).await?;
            "postponed"
        };
        tx.commit().await?;
        self.inbox.outcomes.add(outcome, 1);
        Ok(())
    }

    async fn send_log(
        &self,
        tenant: &TenantId,
        one: &WaitingSubmission,
        log: String,
    ) -> Result<(), TurnFailure> {
        let broker = &self.broker;
        broker.check_topics().map_err(TurnFailure::Send)?;
        let read = match self.read_log(tenant, &one.app, log.into()).await {
            Ok(read) => read,
            Err(problem) if is_about_log(&problem) => {
                let detail = problem.detail().unwrap_or_else(|| problem.kind().title()).to_owned();
                LogRecords { records: Vec::new(), report: Err(detail) }
            }
            Err(problem) => return Err(TurnFailure::Send(problem)),
        };
        let sending = tokio::time::timeout(BROKER_TIMEOUT, broker.producer.send_all(&read.records));
        let late = |_| Problem::unavailable("Kafka does not answer", 30);
        sending.await.map_err(late).and_then(|sent| Ok(sent?)).map_err(TurnFailure::Send)?;
        // A process that ends here sends the same report again.
        let mut tx = self.store().tenant(tenant).await?;
        let outcome = match read.report {
            Ok(report) => {
                store::record_sent(&mut tx, one, report).await?;
                broker.metrics.count_reports(1);
                "sent"
            }
            Err(detail) => {
                let detail: String = detail.chars().take(MAX_DETAIL_CHARS).collect();
                store::end_submission(&mut tx, &one.submission, SubmissionState::Refused, &detail).await?;
                "refused"
            }
        };
        tx.commit().await?;
        self.inbox.outcomes.add(outcome, 1);
        Ok(())
    }

    /// Reads a crash log as the body of a request is read.
    async fn read_log(&self, tenant: &TenantId, app: &str, log: Bytes) -> Result<LogRecords, Problem> {
        let capacity = &self.broker.capacity;
        let mut reserved = capacity.permits.reserve_public_body(tenant)?;
        reserved.reserve_more(log.len() as u64)?;
        let mut charge = Charge::for_reports(capacity, tenant, 0)?;
        charge.charge_received(log.len() as u64)?;
        let max_bytes = capacity.limits.report_bytes;
        let bounds = Bounds {
            unpacked: capacity.limits.ingest_unpacked_bytes,
            reports: MAX_REPORTS,
            report: ReadLimits { max_bytes, ..ReadLimits::default() },
        };
        let readers = self.symbolication.readers.clone();
        let (broker, owner, app) = (self.broker.clone(), tenant.clone(), app.to_owned());
        let trace = TraceContext::from_parent(None, &self.ids);
        let work = move |log: Bytes| {
            let refuse_app = |found: Option<&str>| refuse_app(&app, found);
            let scope = ReportScope { refuse_app: Some(&refuse_app), readers: &readers };
            let mut budget = ReadBudget { reserved, charge };
            let reports = read_reports(&log, &BodyForm::Any, &bounds, &scope, &mut budget)?;
            let topic = broker.topics.input.as_str().into();
            let maker = RecordMaker {
                broker: &broker,
                tenant: &owner,
                sender: SENDER,
                sender_key: None,
                trace,
                topic,
            };
            let records = reports.iter().map(|report| report.build_record(&maker)).collect();
            Ok(LogRecords { records, report: find_report(&reports) })
        };
        read_body(capacity, tenant, log, work).await
    }
}

/// Returns true for a problem with the bytes of a log, which another try does not mend.
fn is_about_log(problem: &Problem) -> bool {
    matches!(
        problem.kind(),
        Kind::InvalidBody | Kind::InvalidReport | Kind::NotAReport | Kind::TooLarge | Kind::UnsupportedFormat
    )
}

/// Returns why a report is not of an app or of one of its extensions.
fn refuse_app(app: &str, found: Option<&str>) -> Option<String> {
    let is_own = found
        .and_then(|found| found.strip_prefix(app))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    // The name comes from the report, so its length is bounded here.
    let found: String = found.unwrap_or("no app").chars().take(60).collect();
    (!is_own).then(|| format!("the crash log is of {found}, the submission of {app}"))
}

/// Returns the first report that a reader takes, or why there is none.
fn find_report(reports: &[ReceivedReport]) -> Result<ReportId, String> {
    let mut why = None;
    for report in reports {
        match report {
            ReceivedReport::Accepted(Incoming { id: Some(id), .. }) => return Ok(*id),
            ReceivedReport::Accepted(_) => {}
            ReceivedReport::Refused(refused) => why = why.or(Some(refused.detail.clone())),
        }
    }
    Err(why.unwrap_or_else(|| "the text is no crash log that can be read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_of_the_app_or_of_an_extension_of_it() {
        let is_refused = |found| refuse_app("com.acme.shop", found).is_some();
        assert!(!is_refused(Some("com.acme.shop")) && !is_refused(Some("com.acme.shop.widget")));
        assert!(is_refused(Some("com.acme.shopping")) && is_refused(Some("com.acme")) && is_refused(None));
    }
}
