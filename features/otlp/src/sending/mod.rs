//! Sends the crashes of tenants to their collectors, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each tenant to one process at a time. A report leaves the outbox after the
//! collector has taken it: a process that ends in between sends it again, with the same id.

mod collector;
mod collector_answer;
mod crash_record;
mod delivery;
mod turn;

pub use collector::{COLLECTOR_SECTION, CollectorClient, check_collector_url};

use crate::Otlp;
use crate::sealing::HeaderOwner;
use crate::store::{self, DroppedReports, ExportTarget, OutboxEntry};
use collector::CollectorRequest;
use crash_record::build_record;
use delivery::BatchDelivery;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use turn::{SendFailure, Turn, collector_failure, end_turn};
use unslide_api::feature::Symbolication;
use unslide_api::feature::site::stored_body::{self, StoredBodyError};
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_api::problem::Problem;
use unslide_model::{Secret, TenantId, format_causes};
use unslide_runtime::CpuError;
use unslide_store::queries::report::find_report;
use unslide_store::{Result, Store};

/// Timeout of a turn. Shorter than its lease.
const TURN_TIMEOUT: Duration = Duration::from_secs(180);
/// Reports of a request, and requests of a turn.
const BATCH_LIMIT: u16 = 50;
const BATCHES_LIMIT: usize = 20;
/// Reads of a report if its body is moved or revised at the same time.
const BODY_READS: usize = 3;
/// Sends the reports of all tenants.
pub struct ReportSender {
    otlp: Arc<Otlp>,
    symbolication: Arc<Symbolication>,
}

/// The record of a report in the outbox.
enum ReadRecord {
    Record(Box<ResourceLogs>),
    /// The report is gone, or is no crash.
    NotExported,
    /// Its body is lost or damaged.
    Unreadable,
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
        let ended = ended.unwrap_or(Err(SendFailure::TimedOut));
        let Some(end) = end_turn(ended, turn.has_sent, target.failures, tenant) else { return Ok(()) };
        self.otlp.outcomes.add("export_failed", usize::from(end.problem.is_some()));
        let mut tx = self.store().tenant(tenant).await?;
        store::finish_turn(&mut tx, &target, &end).await?;
        tx.commit().await
    }

    async fn send_outbox(
        &self,
        tenant: &TenantId,
        target: &ExportTarget,
        turn: &mut Turn,
    ) -> std::result::Result<(), SendFailure> {
        let request = self.build_request(tenant, target)?;
        let (otlp, symbolication) = (&*self.otlp, &*self.symbolication);
        let delivery = BatchDelivery { otlp, symbolication, tenant, target, request };
        for _ in 0..BATCHES_LIMIT {
            let mut tx = self.symbolication.storage.tenant(tenant).await?;
            let entries = store::list_batch(&mut tx, BATCH_LIMIT).await?;
            tx.rollback();
            if entries.is_empty() {
                return Ok(());
            }
            let (mut records, mut not_exported, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
            for entry in &entries {
                match self.read_record(tenant, entry).await? {
                    ReadRecord::Record(record) => records.push((*entry, *record)),
                    ReadRecord::NotExported => not_exported.push(*entry),
                    ReadRecord::Unreadable => unreadable.push(*entry),
                }
            }
            delivery.delete_entries(&not_exported, None).await?;
            let reason = "The stored report cannot be read";
            let dropped = DroppedReports { count: unreadable.len(), reason };
            delivery.delete_entries(&unreadable, Some(dropped)).await?;
            delivery.send_batch(records, turn).await?;
        }
        Ok(())
    }

    fn build_request(
        &self,
        tenant: &TenantId,
        target: &ExportTarget,
    ) -> std::result::Result<CollectorRequest, SendFailure> {
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

    /// Reads the record of a report in its stored revision. One that cannot be read would keep all others waiting, so only a service
    /// that does not answer is a failure.
    async fn read_record(
        &self,
        tenant: &TenantId,
        entry: &OutboxEntry,
    ) -> std::result::Result<ReadRecord, SendFailure> {
        let mut problem = None;
        for _ in 0..BODY_READS {
            let mut tx = self.symbolication.storage.tenant(tenant).await?;
            let found = find_report(&mut tx, entry.report, entry.variant).await?;
            let Some(found) = found.filter(|found| found.listed.told_by.is_some()) else {
                tx.rollback();
                return Ok(ReadRecord::NotExported);
            };
            let body = match stored_body::read_body(&self.symbolication, tenant, tx, &found).await {
                Ok(body) => body,
                // It may have been moved or revised at this moment.
                Err(StoredBodyError::Lost(lost)) => {
                    problem = Some(format_causes(&lost));
                    continue;
                }
                Err(StoredBodyError::Problem(problem)) => return Err(SendFailure::Service(problem)),
            };
            let (listed, url) = (found.listed, self.otlp.public_url.clone());
            let work = move || {
                let report = stored_body::read_report(&body.json)?;
                Ok::<_, Problem>(build_record(&listed, &report, &url))
            };
            match self.symbolication.capacity.cpu.run_for(tenant, work).await {
                Ok(Ok(record)) => return Ok(ReadRecord::Record(Box::new(record))),
                Ok(Err(error)) => problem = Some(format_causes(&error)),
                Err(CpuError::Panicked(panic)) => problem = Some(panic),
                Err(closed @ CpuError::Closed) => return Err(closed.into()),
            }
            break;
        }
        let (report, error) = (entry.report, problem.unwrap_or_default());
        tracing::warn!(%tenant, %report, error, "a stored report has no body that can be read: it is not exported over OTLP");
        Ok(ReadRecord::Unreadable)
    }
}
