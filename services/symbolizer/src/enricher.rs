//! Builds the output of a report: the enriched report as a record of its topic.

use crate::admission::tenants::Tenants;
use crate::output::dead_letters::Provenance;
use crate::output::tenant_topics::Outputs;
use crate::source_record::SourceRecord;
use crate::symbols::{Answers, SymbolSource};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{ReportId, Scoped, TenantId};
use unslide_proto::Message;
use unslide_proto::report::Resymbolicate;
use unslide_proto::topics::TopicNames;
use unslide_report::reader::{ReportDocument, ReportReaders};
use unslide_report::{ReadError, ReadLimits};
use unslide_stream::lane::Pause;
use unslide_stream::{OutRecord, Record};
use unslide_symbolicate::{Analysis, Context, Enrichment, ImageSymbols, Plan};

/// Upper limit for the key and headers of an output, in bytes.
const HEADER_BYTES: usize = 4 << 10;

/// Symbols, readers, analyses and output topics, which all lanes share.
pub struct Enricher {
    pub symbols: SymbolSource,
    /// Tenants that are known, with their analyses and rules.
    pub tenants: Arc<Tenants>,
    /// Readers of other formats than KSCrash's JSON.
    pub readers: ReportReaders,
    /// Limits for reading a report.
    pub limits: ReadLimits,
    pub analyses: Vec<Analysis>,
    /// Names of the installation's topics.
    pub topics: TopicNames,
    /// True if tenants may have topics of their own.
    pub tenant_topics: bool,
    /// The tenants' own output topics that exist.
    pub outputs: Outputs,
    /// The largest output, in bytes of key, headers and value.
    pub output_bytes: usize,
}

/// An enriched report and its output record.
pub struct ReportOutput {
    /// Result of the symbolication. Its bytes are in the record, unless the record is of another format.
    pub enriched: Enrichment,
    /// Record that holds the report.
    pub record: OutRecord,
}

impl ReportOutput {
    /// Returns the bytes of the output.
    pub fn bytes(&self) -> &[u8] {
        self.record.value.as_deref().unwrap_or_default()
    }

    /// Returns the enriched report in KSCrash's form.
    pub fn json(&self) -> &[u8] {
        if self.enriched.bytes.is_empty() { self.bytes() } else { &self.enriched.bytes }
    }
}

/// Error for a report without an output.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// It is too large in every form.
    #[error(transparent)]
    TooLarge(#[from] OutputTooLarge),
    /// The answers could not be written into its document.
    #[error("the answers cannot be written into the document: {0}")]
    NotWritten(#[from] ReadError),
}

impl OutputError {
    /// Returns the reason in one word, as dead letters carry it.
    pub fn reason(&self) -> &'static str {
        match self {
            OutputError::TooLarge(_) => "too_large",
            OutputError::NotWritten(error) => error.reason(),
        }
    }
}

/// Error for an enriched report that is too large for the output topic in every form.
#[derive(Debug, thiserror::Error)]
#[error("the enriched report has {bytes} bytes, the limit of its topic is {limit}")]
pub struct OutputTooLarge {
    bytes: usize,
    limit: usize,
}

impl Enricher {
    /// Returns the analyses that are on for a tenant.
    pub fn list_analyses(&self, tenant: &TenantId) -> Vec<Analysis> {
        self.tenants.enabled_analyses(tenant, &self.analyses)
    }

    /// Returns the output topic of a report with this history. A report from a tenant's own input goes to the
    /// tenant's own output. If that output no longer exists, a copy or a request goes to the shared output,
    /// so that it does not block other tenants. The input itself is not read while its output is missing.
    fn output_topic(&self, tenant: &TenantId, history: &Provenance<'_>) -> String {
        let origin = &history.origin.topic;
        let own = self.tenant_topics && self.topics.tenant_of_input(origin).as_ref() == Some(tenant);
        let first_hand = **origin == *history.source.at.topic;
        if own && (first_hand || self.outputs.has_output(tenant)) {
            self.topics.tenant_output(tenant)
        } else {
            self.topics.output.clone()
        }
    }

    /// Looks up the outputs of the tenants that sent the records of a batch. A fresh lookup is needed because
    /// an output may have been created since the last one.
    ///
    /// # Errors
    /// Returns [`Pause`] if Kafka cannot list the topics.
    pub async fn seek_outputs<'r>(&self, batch: impl Iterator<Item = &'r Record>) -> Result<(), Pause> {
        if !self.tenant_topics {
            return Ok(());
        }
        let origins = batch.filter_map(|record| {
            let entry = SourceRecord::from_record(record, &self.topics);
            if !entry.request && *record.at.topic != *self.topics.resymbolicate {
                return Some(entry.origin.topic);
            }
            Some(Resymbolicate::decode(record.value.clone()?).ok()?.origin?.topic)
        });
        self.outputs.look_up_unseen(origins).await.map_err(|error| {
            let reason = format!("the topics of tenants cannot be listed: {error}");
            Pause { reason, wait: Duration::from_secs(1) }
        })
    }

    /// Enriches the planned report as a record that the broker accepts. The first form that fits is used: the
    /// full report, then without the calls of threads that did not crash, then with as many function names as
    /// fit. While it is written, no form grows beyond the broker's limit, unless the report itself and the
    /// statuses of its frames do.
    ///
    /// # Errors
    /// Returns [`OutputError`] if the smallest form does not fit, or if the document cannot take the answers.
    pub fn build_output(
        &self,
        source: &ReportDocument<'_>,
        plan: &Plan<'_, '_>,
        id: &Scoped<ReportId>,
        answers: &Answers,
        history: &Provenance<'_>,
        context: Context<'_>,
    ) -> Result<ReportOutput, OutputError> {
        let symbols = |id: &unslide_model::DebugId| -> Option<&ImageSymbols> { answers.symbols.get(id) };
        let revision = context.revision.unwrap_or(1);
        let topic = self.output_topic(&id.tenant, history);
        let fits = self.output_bytes.saturating_sub(HEADER_BYTES + source.excess_bytes());
        let most_bytes = Some(context.most_bytes.map_or(fits, |most| most.min(fits)));
        let rules = self.tenants.grouping_rules(&id.tenant);
        let (analyses, derived) = (self.list_analyses(&id.tenant), answers.list_derived());
        let rules = Some(&*rules);
        let context = Context { most_bytes, rules, analyses: &analyses, derived: &derived, ..context };
        let mut record = history.build_report(&topic, id, revision, context.supersedes, bytes::Bytes::new());
        let around = record.size();
        let excess = source.excess_bytes();
        let is_taken = |bytes: usize| around + excess + bytes <= self.output_bytes;
        let mut enriched = plan.enrich_fitting(&symbols, &context, is_taken);
        let bytes = match source.is_translated() {
            true => source.write(enriched.bytes.clone())?,
            false => std::mem::take(&mut enriched.bytes),
        };
        let bytes = bytes::Bytes::from(bytes);
        let all = around + bytes.len();
        if all > self.output_bytes {
            return Err(OutputTooLarge { bytes: all, limit: self.output_bytes }.into());
        }
        record.value = Some(bytes);
        Ok(ReportOutput { enriched, record })
    }
}
