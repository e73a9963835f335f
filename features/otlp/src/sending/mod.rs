//! Sends the crashes of tenants to their collectors, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each tenant to one process at a time. A report leaves the outbox after the
//! collector has taken it: a process that ends in between sends it again, with the same id.

mod collector;
mod crash_record;

pub use collector::{COLLECTOR_SECTION, CollectorClient, check_collector_url};

use crate::Otlp;
use crate::sealing::HeaderOwner;
use crate::store::{self, ExportTarget, OutboxEntry, SendEnd};
use collector::{CollectorAnswer, CollectorRequest};
use crash_record::build_record;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Symbolication;
use unslide_api::feature::site::stored_body::{self, StoredBodyError};
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_api::problem::Problem;
use unslide_model::{Secret, TenantId};
use unslide_store::queries::report::find_report;
use unslide_store::{Result, Store};

/// Timeout of a turn. Shorter than its lease.
const TURN_TIMEOUT: Duration = Duration::from_secs(180);
/// Reports of a request, and requests of a turn.
const BATCH_LIMIT: u16 = 50;
const BATCHES_LIMIT: usize = 20;
/// Reads of a report if its body is moved or revised at the same time.
const BODY_READS: usize = 3;
/// The pause after a request that failed, which doubles up to the longest.
const FIRST_RETRY_INTERVAL: time::Duration = time::Duration::seconds(5);
const RETRY_INTERVAL_MAX: time::Duration = time::Duration::minutes(5);
/// The pause if a collector wants a longer one.
const WANTED_INTERVAL_MAX: time::Duration = time::Duration::hours(1);

/// Sends the reports of all tenants.
pub struct ReportSender {
    otlp: Arc<Otlp>,
    symbolication: Arc<Symbolication>,
}

/// Why a turn ended before the outbox was empty.
enum TurnFailure {
    /// The database, object storage or a limit is in the way.
    Service(Problem),
    /// The collector, or the settings for it.
    Collector { problem: String, pause: Option<time::Duration> },
}

impl<E> From<E> for TurnFailure
where
    Problem: From<E>,
{
    fn from(error: E) -> TurnFailure {
        TurnFailure::Service(Problem::from(error))
    }
}

/// The outcome of a turn.
#[derive(Default)]
struct Turn {
    has_sent: bool,
    /// The words of the collector about records that it has refused.
    refusal: Option<String>,
}

impl TenantWork for ReportSender {
    const CONCURRENT_TENANTS_LIMIT: usize = 4;
    const LOOK_FAILURE: &'static str = "due exports over OTLP could not be looked for";

    async fn list_due(&self, _: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due(self.store(), limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.send_for_tenant(tenant).await {
            tracing::warn!(%error, %tenant, "an export over OTLP could not be claimed or recorded");
        }
    }
}

impl ReportSender {
    pub fn new(otlp: Arc<Otlp>, symbolication: &Arc<Symbolication>) -> ReportSender {
        ReportSender { otlp, symbolication: symbolication.clone() }
    }

    fn store(&self) -> &Store {
        &self.symbolication.storage.store
    }

    async fn send_for_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store().tenant(tenant).await?;
        let claimed = store::claim_turn(&mut tx).await?;
        tx.commit().await?;
        let Some(target) = claimed else { return Ok(()) };
        let mut turn = Turn::default();
        let ended = tokio::time::timeout(TURN_TIMEOUT, self.send_outbox(tenant, &target, &mut turn)).await;
        let end = match ended {
            Ok(Ok(())) | Err(_) => {
                SendEnd { pause: time::Duration::ZERO, has_sent: turn.has_sent, problem: turn.refusal }
            }
            Ok(Err(failure)) => {
                self.otlp.outcomes.add("export_failed", 1);
                let failures = if turn.has_sent { 0 } else { target.failures };
                end_failed(failure, failures, turn.has_sent, tenant)
            }
        };
        let mut tx = self.store().tenant(tenant).await?;
        store::finish_turn(&mut tx, &target, &end).await?;
        tx.commit().await
    }

    async fn send_outbox(
        &self,
        tenant: &TenantId,
        target: &ExportTarget,
        turn: &mut Turn,
    ) -> std::result::Result<(), TurnFailure> {
        let request = self.build_request(tenant, target)?;
        for _ in 0..BATCHES_LIMIT {
            let mut tx = self.symbolication.storage.tenant(tenant).await?;
            let entries = store::list_oldest(&mut tx, BATCH_LIMIT).await?;
            tx.rollback();
            if entries.is_empty() {
                return Ok(());
            }
            let mut records = Vec::new();
            let mut without_record = Vec::new();
            for entry in &entries {
                match self.read_record(tenant, entry).await? {
                    Some(record) => records.push((*entry, record)),
                    None => without_record.push(*entry),
                }
            }
            let mut tx = self.store().tenant(tenant).await?;
            store::delete_sent(&mut tx, &without_record).await?;
            tx.commit().await?;
            self.send_records(tenant, &request, records, turn).await?;
        }
        Ok(())
    }

    fn build_request(
        &self,
        tenant: &TenantId,
        target: &ExportTarget,
    ) -> std::result::Result<CollectorRequest, TurnFailure> {
        let headers = match &target.sealed_headers {
            None => BTreeMap::new(),
            Some(sealed) => {
                let owner = HeaderOwner { tenant, url: &target.url };
                let opened = self.otlp.sealer.as_ref().map(|sealer| sealer.open_headers(owner, sealed));
                match opened {
                    Some(Ok(headers)) => headers,
                    Some(Err(error)) => return Err(collector_failure(error.to_string())),
                    None => {
                        let problem = format!("the operator has removed {}", crate::sealing::SEALING_KEY);
                        return Err(collector_failure(problem));
                    }
                }
            }
        };
        Ok(CollectorRequest { url: Secret::new(target.url.as_str()), headers })
    }

    /// Returns the record of a report in its stored revision. None if it is gone, is no crash, or its body is lost: that one would keep all
    /// others waiting.
    async fn read_record(
        &self,
        tenant: &TenantId,
        entry: &OutboxEntry,
    ) -> std::result::Result<Option<ResourceLogs>, TurnFailure> {
        for _ in 0..BODY_READS {
            let mut tx = self.symbolication.storage.tenant(tenant).await?;
            let found = find_report(&mut tx, entry.report, entry.variant).await?;
            let Some(found) = found.filter(|found| found.listed.told_by.is_some()) else {
                tx.rollback();
                return Ok(None);
            };
            let body = match stored_body::read_body(&self.symbolication, tenant, tx, &found).await {
                Ok(body) => body,
                // It may have been moved or revised at this moment.
                Err(StoredBodyError::Lost(_)) => continue,
                Err(StoredBodyError::Problem(problem)) => return Err(TurnFailure::Service(problem)),
            };
            let (listed, url) = (found.listed, self.otlp.public_url.clone());
            let work = move || {
                let report = stored_body::read_report(&body.json)?;
                Ok::<_, Problem>(build_record(&listed, &report, &url))
            };
            let built = self.symbolication.capacity.cpu.run_for(tenant, work).await?;
            match built {
                Ok(record) => return Ok(Some(record)),
                Err(_) => break,
            }
        }
        self.otlp.outcomes.add("export_refused", 1);
        let report = entry.report;
        tracing::warn!(%tenant, %report, "a stored report has no body that can be read: it is not exported over OTLP");
        Ok(None)
    }

    /// Sends records in one request. A request that the collector refuses as a whole is sent in halves, so that one record that it
    /// does not take refuses no other.
    async fn send_records(
        &self,
        tenant: &TenantId,
        request: &CollectorRequest,
        records: Vec<(OutboxEntry, ResourceLogs)>,
        turn: &mut Turn,
    ) -> std::result::Result<(), TurnFailure> {
        let Some(client) = &self.otlp.client else {
            return Err(collector_failure("TLS cannot be set up".to_owned()));
        };
        let mut batches = vec![records];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            let logs = batch.iter().map(|(_, record)| record.clone()).collect();
            match client.post_logs(request, logs).await {
                CollectorAnswer::Taken { refused, message } => {
                    turn.has_sent = true;
                    let sent: Vec<OutboxEntry> = batch.iter().map(|(entry, _)| *entry).collect();
                    self.otlp.outcomes.add("exported", sent.len().saturating_sub(refused));
                    self.otlp.outcomes.add("export_refused", refused);
                    if refused > 0 {
                        turn.refusal =
                            Some(format!("the collector has refused {refused} records: {message}"));
                    }
                    self.delete_entries(tenant, &sent).await?;
                }
                CollectorAnswer::Refused(problem) if batch.len() == 1 => {
                    self.otlp.outcomes.add("export_refused", 1);
                    let sent: Vec<OutboxEntry> = batch.iter().map(|(entry, _)| *entry).collect();
                    turn.refusal = Some(problem);
                    self.delete_entries(tenant, &sent).await?;
                }
                CollectorAnswer::Refused(_) => {
                    let rest = batch.split_off(batch.len() / 2);
                    batches.push(rest);
                    batches.push(batch);
                }
                CollectorAnswer::Failed { problem, pause } => {
                    return Err(TurnFailure::Collector { problem, pause });
                }
            }
        }
        Ok(())
    }

    async fn delete_entries(&self, tenant: &TenantId, sent: &[OutboxEntry]) -> Result<()> {
        let mut tx = self.store().tenant(tenant).await?;
        store::delete_sent(&mut tx, sent).await?;
        tx.commit().await
    }
}

fn collector_failure(problem: String) -> TurnFailure {
    TurnFailure::Collector { problem, pause: None }
}

fn end_failed(failure: TurnFailure, failures: i32, has_sent: bool, tenant: &TenantId) -> SendEnd {
    let doublings = u32::try_from(failures).unwrap_or_default().min(6);
    let usual = (FIRST_RETRY_INTERVAL * 2_i32.pow(doublings)).min(RETRY_INTERVAL_MAX);
    match failure {
        TurnFailure::Collector { problem, pause } => {
            let pause = pause.map_or(usual, |wanted| wanted.clamp(usual, WANTED_INTERVAL_MAX));
            SendEnd { pause, has_sent, problem: Some(problem) }
        }
        TurnFailure::Service(problem) => {
            tracing::warn!(error = %problem, %tenant, "a report could not be read for its export over OTLP");
            SendEnd {
                pause: usual,
                has_sent,
                problem: Some("this service cannot read the reports now".to_owned()),
            }
        }
    }
}
