//! The live lane: reports as they come in.

use crate::account::Ledger;
use crate::letters::{History, Position};
use crate::symbols::{Fetched, Generations, Wanted};
use crate::tenants::Standing;
use crate::worker::{Step, Worker};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::report::{Outcome, TerminalOutcome};
use unslide_report::{Element, ReadLimits, Report, split};
use unslide_stream::lane::{Done, Pause, Processor, Refusal};
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Context, Plan};

/// The lane's name, also in its group and transactional id.
pub const NAME: &str = "live";

/// Symbolicates what comes in.
pub struct Live {
    worker: Arc<Worker>,
    ledger: Ledger,
}

/// Who a record's tenant is.
enum Sender {
    Known { tenant: TenantId },
    Refused { tenant: String, reason: &'static str, detail: String },
    Deleted { tenant: TenantId },
}

impl Live {
    /// The lane of this worker, whose name is `slot`.
    pub fn new(worker: Arc<Worker>, slot: &str) -> Live {
        Live { ledger: worker.ledger(NAME, slot), worker }
    }

    fn sender(&self, record: &Record) -> Sender {
        let Some(name) = record.headers.get(headers::TENANT) else {
            let detail = format!("the record has no header `{}`", headers::TENANT);
            return Sender::Refused { tenant: String::new(), reason: "no_tenant", detail };
        };
        let Some(tenant) = tenant_of(record) else {
            let detail = format!("{:?} is no tenant's name", String::from_utf8_lossy(name));
            return Sender::Refused { tenant: String::new(), reason: "unknown_tenant", detail };
        };
        match self.worker.tenants.standing(&tenant) {
            Standing::Active => Sender::Known { tenant },
            Standing::Suspended => {
                let detail = format!("the tenant {tenant} is suspended");
                Sender::Refused { tenant: tenant.to_string(), reason: "tenant_suspended", detail }
            }
            Standing::Deleted => Sender::Deleted { tenant },
            Standing::Unknown => {
                let detail = format!("there is no tenant {tenant}");
                Sender::Refused { tenant: tenant.to_string(), reason: "unknown_tenant", detail }
            }
        }
    }

    fn look(&self, record: &Record, fetched: &Fetched) -> Step {
        let traceparent = self.worker.traceparent(record);
        match self.sender(record) {
            Sender::Known { tenant } => self.symbolicate(record, &tenant, traceparent, fetched),
            Sender::Refused { tenant, reason, detail } => {
                Step::Done(self.worker.dead_letter(record, traceparent, &tenant, reason, &detail))
            }
            Sender::Deleted { tenant } => Step::Done(self.dropped(record, &tenant)),
        }
    }

    fn symbolicate(
        &self,
        record: &Record,
        tenant: &TenantId,
        traceparent: String,
        fetched: &Fetched,
    ) -> Step {
        let limits = self.worker.limits;
        let value = record.value.clone().unwrap_or_default();
        let elements = match split(&value, &limits) {
            Ok(elements) => elements,
            Err(error) => {
                let done = self.worker.dead_letter(
                    record,
                    traceparent,
                    tenant.as_str(),
                    error.reason(),
                    &error.to_string(),
                );
                return Step::Done(done);
            }
        };
        // An empty array is a record without a report, and still has an outcome.
        if elements.is_empty() {
            let detail = "the record is an array without a report in it";
            return Step::Done(self.worker.dead_letter(
                record,
                traceparent,
                tenant.as_str(),
                "not_a_report",
                detail,
            ));
        }
        // One report that fills the record is no array, whatever bytes are around it.
        let single = elements.len() == 1
            && matches!(elements[0], Element::Report(bytes) if bytes.len() == value.len());
        let count = elements.len();
        let mut outputs = Vec::with_capacity(count);
        let mut outcomes = Vec::with_capacity(count);
        let mut wanted = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let position = (!single).then_some(Position { index, count });
            let history =
                History { source: record, position, origin: None, traceparent: traceparent.clone() };
            match self.element(element, &value, tenant, &limits, &history, fetched) {
                Ok((output, outcome)) => {
                    outputs.push(output);
                    outcomes.push((tenant.to_string(), outcome));
                }
                Err(more) => wanted.extend(more),
            }
        }
        if !wanted.is_empty() {
            return Step::Wants(wanted);
        }
        Step::Done(Done { source: record.at.clone(), outputs, outcomes })
    }

    /// One report's output, or the symbols that it wants first.
    fn element(
        &self,
        element: &Element<'_>,
        value: &Bytes,
        tenant: &TenantId,
        limits: &ReadLimits,
        history: &History<'_>,
        fetched: &Fetched,
    ) -> Result<(OutRecord, Outcome), Vec<Wanted>> {
        let dead = |bytes: &[u8], reason: &str, detail: &str| {
            let topic = &self.worker.topics.dead_letter;
            let letter = history.dead_letter(topic, Some(value.slice_ref(bytes)), reason, detail);
            Ok((letter, Outcome::DeadLetter))
        };
        let bytes = match element {
            Element::Report(bytes) => *bytes,
            Element::Text(text) => {
                let detail =
                    "a string is a report that the device rendered as text; it has no frames to look up";
                return dead(text.raw(), "not_a_report", detail);
            }
            Element::Other { bytes, found } => {
                return dead(bytes, "not_a_report", &format!("a report is an object, this is {found}"));
            }
        };
        let report = match Report::read(bytes, limits) {
            Ok(report) => report,
            Err(error) => return dead(bytes, error.reason(), &error.to_string()),
        };
        let plan = Plan::new(&report);
        let wanted = Wanted::of(tenant, &plan.needs(), |_| Generations::default());
        let Some(answers) = self.worker.symbols.at_hand(&wanted, fetched) else { return Err(wanted) };
        let context = Context {
            tenant: Some(tenant),
            revision: Some(1),
            processed_at: Some(self.worker.clock.now()),
            ..Context::default()
        };
        let id = tenant.scope(report.id);
        match self.worker.output(&plan, &id, &answers, history, context) {
            Ok((enriched, output)) => {
                self.worker.metrics.symbolicated(&enriched);
                tracing::debug!(report.id = %id.id, trace.parent = history.traceparent, "a report was symbolicated");
                Ok((output, Outcome::Symbolicated))
            }
            Err(too_large) => {
                let limit = self.worker.output_bytes;
                let detail =
                    format!("the smallest output has {} bytes and may have {limit}", too_large.bytes);
                dead(bytes, "too_large", &detail)
            }
        }
    }

    fn dropped(&self, record: &Record, tenant: &TenantId) -> Done {
        let end = TerminalOutcome {
            tenant: tenant.to_string(),
            outcome: Outcome::DroppedDeleted.into(),
            source: Some(crate::account::reference(&record.at)),
            ..TerminalOutcome::default()
        };
        Done {
            source: record.at.clone(),
            outputs: vec![self.ledger.terminal(end, self.worker.clock.now_micros())],
            outcomes: vec![(tenant.to_string(), Outcome::DroppedDeleted)],
        }
    }
}

/// After this long nobody waits for news of a record's tenant any more, in microseconds.
const PATIENCE: i64 = 600_000_000;
/// By this much the broker's clock and this host's may differ, in microseconds.
const SKEW: i64 = 5_000_000;

impl Live {
    /// Reads on in the table of tenants where a record names one that is not known and the table was
    /// not read past the record's time: who is unknown after that stays unknown. Where it can't be
    /// read, nobody is judged by what is known of it; only an old record does not wait.
    async fn meet(&self, batch: &[Record]) -> Result<(), Pause> {
        let now = self.worker.clock.now_micros();
        let tenants = &self.worker.tenants;
        let read_through = tenants.progress().borrow().read_through_micros.unwrap_or(i64::MIN);
        let stranger = |record: &Record| {
            let at = record.time_millis.map_or(now, |millis| millis.saturating_mul(1_000));
            now.saturating_sub(at) < PATIENCE
                && read_through < at.saturating_add(SKEW)
                && tenant_of(record).is_some_and(|tenant| tenants.standing(&tenant) == Standing::Unknown)
        };
        if !batch.iter().any(stranger) {
            return Ok(());
        }
        tenants.refresh().await.map_err(|error| Pause {
            reason: format!("the table of tenants can't be read to its end: {error}"),
            wait: Duration::from_secs(1),
        })
    }
}

fn tenant_of(record: &Record) -> Option<TenantId> {
    TenantId::new(record.headers.text(headers::TENANT)?).ok()
}

impl Processor for Live {
    fn prepare(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            self.meet(&batch).await?;
            let lane = Arc::clone(&self);
            self.worker.run(batch, move |record, fetched| lane.look(record, fetched)).await
        })
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        let tenant = tenant_of(record).map(|t| t.to_string()).unwrap_or_default();
        let (reason, detail) = crate::run::refusal(why);
        self.worker.dead_letter(record, self.worker.traceparent(record), &tenant, reason, &detail)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![self.ledger.batch(done, self.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        self.worker.metrics.committed(NAME, records, done, self.worker.clock.now_micros());
    }
}
