//! The outcomes of a record that is not answered now: dead letter, retry, overflow, dropped.

use crate::output::dead_letters::{DeadLetterTopic, Provenance};
use crate::output::ledger::Ledger;
use crate::output::traces::RecordTraces;
use crate::retry_tiers::Tier;
use crate::source_record::{Reason, SourceRecord, to_reference};
use std::sync::Arc;
use unslide_model::{DebugId, TenantId};
use unslide_proto::headers;
use unslide_proto::report::{Outcome, TerminalOutcome};
use unslide_proto::topics::TopicNames;
use unslide_stream::lane::Done;
use unslide_stream::{OutRecord, Record, TopicLookUps};

/// Number of keys in the overflow topic for a tenant's records, and so the maximum number of partitions.
pub const OVERFLOW_KEYS: u8 = 2;

/// Headers of the overflow topic of ingest that a forwarded record has not.
const DRAIN_HEADERS: [&str; 3] = [headers::DRAIN_RATE, headers::DRAIN_TOPIC, headers::DRAIN_KEY];

/// Builds the records of outcomes.
pub struct OutcomeWriter {
    /// Name of the worker slot.
    pub slot: String,
    /// Names of the installation's topics.
    pub topics: TopicNames,
    /// Topic of dead letters; the topics of copies accept records of the same size.
    pub letters: DeadLetterTopic,
    pub traces: Arc<RecordTraces>,
    /// Topics of other cells.
    pub cells: TopicLookUps,
}

impl OutcomeWriter {
    /// Returns the ledger of a lane.
    pub fn lane_ledger(&self, lane: &'static str) -> Ledger {
        Ledger { topic: self.topics.ledger.clone(), lane, worker: self.slot.clone() }
    }
}

/// Ends a record that cannot be processed as a whole with a dead letter that holds its unchanged bytes.
pub fn dead_letter(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    tenant: Option<&TenantId>,
    reason: &str,
    detail: &str,
) -> Done {
    let history = Provenance::from_record(entry, tenant, writer.traces.traceparent(entry.record));
    let letter = history.dead_letter(&writer.letters, entry.record.value.clone(), reason, detail);
    build_done(entry, tenant, letter, Outcome::DeadLetter)
}

/// Sends the record to the next retry tier. Returns `None` if it was in every tier for this reason, or is too
/// large for them.
pub fn send_to_retry(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    tenant: &TenantId,
    id: Option<&DebugId>,
    reason: Reason,
    detail: &str,
) -> Option<Done> {
    let tries = entry.failed_tries(reason).saturating_add(1);
    let tier = match (reason, Tier::after_tries(tries)) {
        // The download continues, so a short wait is enough.
        (Reason::Cold, _) => Tier::OneSecond,
        // A record of an unknown tenant keeps being retried while the table of tenants cannot be read.
        (Reason::UnknownTenant, None) => Tier::TenMinutes,
        (_, tier) => tier?,
    };
    let key = id.map_or_else(|| tenant.to_string(), |id| format!("{tenant}/{id}")).into();
    let history = Provenance::from_record(entry, Some(tenant), writer.traces.traceparent(entry.record));
    let copy = history.copy_to(tier.topic(&writer.topics), key, reason.header_value(), tries, detail);
    (copy.size() <= writer.letters.most_bytes).then(|| build_done(entry, Some(tenant), copy, Outcome::Retry))
}

/// Sends the record to the overflow topic. Returns `None` if it is too large for that topic.
pub fn send_to_overflow(writer: &OutcomeWriter, entry: &SourceRecord<'_>, tenant: &TenantId) -> Option<Done> {
    let half = entry.record.at.offset.rem_euclid(i64::from(OVERFLOW_KEYS));
    let history = Provenance::from_record(entry, Some(tenant), writer.traces.traceparent(entry.record));
    let detail = "the tenant is over its rate of cost units";
    let key = format!("{tenant}/{half}").into();
    let copy = history.copy_to(&writer.topics.overflow, key, Reason::OverShare.header_value(), 1, detail);
    (copy.size() <= writer.letters.most_bytes)
        .then(|| build_done(entry, Some(tenant), copy, Outcome::Overflow))
}

/// Drops the record of a deleted tenant and writes only a ledger entry.
pub fn drop_record(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    tenant: &TenantId,
    lane: &'static str,
) -> Done {
    let end = TerminalOutcome {
        tenant: tenant.to_string(),
        outcome: Outcome::DroppedDeleted.into(),
        origin: Some(entry.origin.clone()),
        source: Some(to_reference(&entry.record.at)),
        ..TerminalOutcome::default()
    };
    let ledger = writer.lane_ledger(lane).build_terminal(end, writer.traces.clock.now_micros());
    build_done(entry, Some(tenant), ledger, Outcome::DroppedDeleted)
}

/// Returns the topic that a record of the overflow topic of ingest is forwarded to, or `None` if the symbolizer
/// processes it.
pub fn find_drain_topic<'w>(writer: &'w OutcomeWriter, record: &Record) -> Option<&'w str> {
    let names = &writer.topics;
    let named = record.headers.get_text(headers::DRAIN_TOPIC)?;
    (*record.at.topic == *names.ingest_overflow && named == names.sessions).then_some(&names.sessions)
}

/// Sends a record to the topic that it was on its way to when it came to overflow, and writes a ledger entry.
pub fn forward_record(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    tenant: Option<&TenantId>,
    topic: &str,
    lane: &'static str,
) -> Done {
    let record = entry.record;
    let mut copied = OutRecord { topic: topic.into(), value: record.value.clone(), ..OutRecord::default() };
    copied.key = record.headers.get(headers::DRAIN_KEY).cloned();
    for header in record.headers.iter().filter(|header| !DRAIN_HEADERS.contains(&header.0)) {
        copied.headers.push(header.0.to_owned(), header.1.clone());
    }
    let end = TerminalOutcome {
        tenant: tenant.map(TenantId::to_string).unwrap_or_default(),
        outcome: Outcome::Forwarded.into(),
        origin: Some(entry.origin.clone()),
        source: Some(to_reference(&record.at)),
        ..TerminalOutcome::default()
    };
    let ledger = writer.lane_ledger(lane).build_terminal(end, writer.traces.clock.now_micros());
    let mut done = build_done(entry, tenant, ledger, Outcome::Forwarded);
    done.outputs.push(copied);
    done
}

pub(super) fn build_done(
    entry: &SourceRecord<'_>,
    tenant: Option<&TenantId>,
    output: OutRecord,
    outcome: Outcome,
) -> Done {
    Done {
        source: entry.record.at.clone(),
        outputs: vec![output],
        outcomes: vec![(tenant.map(TenantId::to_string).unwrap_or_default(), outcome)],
        history: None,
    }
}
