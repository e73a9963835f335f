//! Sends the records of a batch, and takes from the outbox what its collector has taken or does not take.

use super::collector::CollectorRequest;
use super::collector_answer::CollectorAnswer;
use super::turn::{SendFailure, Turn, collector_failure};
use crate::Otlp;
use crate::store::{self, DroppedReports, ExportTarget, OutboxEntry};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use prost::Message;
use std::collections::VecDeque;
use unslide_api::feature::Symbolication;
use unslide_model::TenantId;

/// Refused records in a row after which a collector that has taken none of its batch gets no more of it.
const REFUSED_IN_A_ROW_LIMIT: usize = 10;

/// A report with its record.
pub type QueuedRecord = (OutboxEntry, ResourceLogs);

/// A claimed turn with what it sends to.
pub struct BatchDelivery<'d> {
    pub otlp: &'d Otlp,
    pub symbolication: &'d Symbolication,
    pub tenant: &'d TenantId,
    pub target: &'d ExportTarget,
    pub request: CollectorRequest,
}

impl BatchDelivery<'_> {
    /// Sends a batch in one request. If the collector refuses it as a whole, it is sent in ever smaller parts, so that one record that it
    /// does not take refuses no other. Refused records are dropped if the collector has taken another of the batch. If it has taken none, all
    /// stay: then the fault may be in its settings.
    pub async fn send_batch(&self, batch: Vec<QueuedRecord>, turn: &mut Turn) -> Result<(), SendFailure> {
        let (mut refused, mut reason, mut has_accepted) = (Vec::new(), String::new(), false);
        let mut parts = VecDeque::from([batch]);
        let mut is_whole = true;
        while let Some(part) = parts.pop_front() {
            if part.is_empty() {
                continue;
            }
            let (answer, mut part) = self.post_records(part).await?;
            match answer {
                CollectorAnswer::Taken { refused: rejected, message } => {
                    has_accepted = true;
                    turn.has_sent |= rejected < part.len();
                    self.otlp.outcomes.add("exported", part.len() - rejected);
                    let entries: Vec<OutboxEntry> = part.iter().map(|(entry, _)| *entry).collect();
                    let reason =
                        format!("The collector has rejected {rejected} records of a request: {message}");
                    let dropped = DroppedReports { count: rejected, reason: &reason };
                    self.delete_entries(&entries, (rejected > 0).then_some(dropped)).await?;
                }
                CollectorAnswer::Refused(problem) => {
                    reason = problem;
                    if let [(entry, _)] = part.as_slice() {
                        refused.push(*entry);
                    } else {
                        // The newest record first: if it is taken, the collector works.
                        let left = if is_whole { part.len() - 1 } else { part.len() / 2 };
                        let rest = part.split_off(left);
                        parts.extend([rest, part]);
                    }
                }
                CollectorAnswer::Failed { problem, pause } => {
                    return Err(SendFailure::Collector { problem, pause });
                }
            }
            is_whole = false;
            if !has_accepted && refused.len() >= REFUSED_IN_A_ROW_LIMIT {
                break;
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        if !has_accepted {
            let count = refused.len();
            return Err(collector_failure(format!("{reason}. It has taken none of {count}, so they wait")));
        }
        self.delete_entries(&refused, Some(DroppedReports { count: refused.len(), reason: &reason })).await
    }

    /// Posts records, if the turn still is this process's.
    async fn post_records(
        &self,
        records: Vec<QueuedRecord>,
    ) -> Result<(CollectorAnswer, Vec<QueuedRecord>), SendFailure> {
        let Some(client) = &self.otlp.client else {
            return Err(collector_failure("TLS cannot be set up"));
        };
        let encode = move || {
            let (entries, resource_logs): (Vec<OutboxEntry>, Vec<ResourceLogs>) = records.into_iter().unzip();
            let request = ExportLogsServiceRequest { resource_logs };
            let body = request.encode_to_vec();
            let records: Vec<QueuedRecord> = entries.into_iter().zip(request.resource_logs).collect();
            (body, records)
        };
        let cpu = &self.symbolication.capacity.cpu;
        let (body, records) = cpu.run_for(self.tenant, encode).await?;
        let mut tx = self.symbolication.storage.store.tenant(self.tenant).await?;
        let is_current = store::is_current_turn(&mut tx, self.target).await?;
        tx.commit().await?;
        if !is_current {
            return Err(SendFailure::Superseded);
        }
        let answer = client.post_logs(&self.request, body, records.len()).await;
        Ok((answer, records))
    }

    /// Takes reports out of the outbox, and counts those that were dropped.
    pub async fn delete_entries(
        &self,
        entries: &[OutboxEntry],
        dropped: Option<DroppedReports<'_>>,
    ) -> Result<(), SendFailure> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut tx = self.symbolication.storage.store.tenant(self.tenant).await?;
        if !store::guard_turn(&mut tx, self.target, dropped).await? {
            return Err(SendFailure::Superseded);
        }
        store::delete_entries(&mut tx, entries).await?;
        tx.commit().await?;
        if let Some(dropped) = dropped {
            self.otlp.outcomes.add("export_refused", dropped.count);
        }
        Ok(())
    }
}
