//! Parses records on the CPU pool into items to store.

use answers::Answered;
use enriched::{ReadReport, Unreadable};
use event::ReadEvent;
pub mod answers;
mod context;
pub mod dead_letter;
pub mod enriched;
pub mod event;
pub mod ledger;
pub mod stored;

use crate::failure::{Failure, RECORD_TRIES_LIMIT};
use crate::feature::EventTopic;
use crate::rewriting::LoadedRewriters;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_model::{PROCESS_USE, TenantId, timestamp};
use unslide_proto::headers;
use unslide_report::ReadLimits;
use unslide_report::reader::ReportReaders;
use unslide_runtime::resource_use::measure_cpu;
use unslide_runtime::{CpuError, Host};
use unslide_store::dead_letters::DeadLetter;
use unslide_store::resource_uses::UseStatement;
use unslide_stream::{Record, RecordRef, Signatures};

/// Number of records that one job of the CPU pool reads.
const RECORDS_A_JOB: usize = 16;

/// Kind of the records in a topic.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    Reports,
    Ledger,
    DeadLetters,
    /// Events of a topic of a feature.
    Events(&'static EventTopic),
}

impl Content {
    /// Returns true if gateways write the records; otherwise only the service itself does.
    pub fn is_of_gateways(self) -> bool {
        matches!(self, Content::Events(_))
    }

    /// Returns true if rewriters of reports may change what is stored of a record.
    pub fn is_rewritten(self) -> bool {
        match self {
            Content::Reports => true,
            Content::Events(topic) => topic.keys.is_some(),
            Content::Ledger | Content::DeadLetters => false,
        }
    }
}

/// The treatment of a record.
#[derive(Clone, Debug)]
pub enum RecordAction {
    /// It is read and stored.
    Store,
    /// It is deferred for this tenant, and not parsed now.
    Defer(TenantId),
    /// It was passed on to the cell that serves this tenant, and is not parsed.
    SkipPassedOn(TenantId),
}

/// A record, and what is done with it.
#[derive(Clone, Debug)]
pub struct PolledRecord {
    pub record: Record,
    pub action: RecordAction,
}

/// Result of parsing a record.
#[derive(Clone, Debug)]
pub enum Parsed {
    Report(Box<ReadReport>),
    /// An answer to a request.
    Answer(Answered),
    /// What a symbolizer used.
    Uses(UseStatement),
    /// A dead letter, and the request that ends with it.
    DeadLetter(Box<DeadLetter>, Option<Answered>),
    /// An event for a feature to store.
    Event(Box<ReadEvent>),
    /// The record was not read now, because its tenant uses more than its share.
    Deferred,
    /// The record was passed on to the cell that serves its tenant.
    PassedOn,
    /// The record does not concern the store.
    Nothing,
    /// The record cannot be read.
    Unreadable(Unreadable),
    /// The record cannot be stored, and the record itself is the cause.
    Failed(Failure),
}

impl Parsed {
    /// Returns the tenant that the record is about, if it says so.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Parsed::Report(report) => Some(&report.tenant),
            Parsed::Event(event) => Some(&event.tenant),
            Parsed::Answer(answer) => Some(&answer.tenant),
            Parsed::DeadLetter(letter, _) => letter.tenant.as_ref(),
            Parsed::Uses(_)
            | Parsed::Deferred
            | Parsed::PassedOn
            | Parsed::Nothing
            | Parsed::Unreadable(_)
            | Parsed::Failed(_) => None,
        }
    }
}

/// A record that was read, with the result.
#[derive(Clone, Debug)]
pub struct Item {
    pub at: RecordRef,
    /// Time of the record in the topic, or the time at which it was read if it has none.
    pub arrived_at: OffsetDateTime,
    /// The tenant, if it is known.
    pub tenant: Option<TenantId>,
    /// The `traceparent` header, if spans are exported.
    pub traceparent: Option<String>,
    /// An app sent the record with a public key: anyone may have.
    pub is_from_public_key: bool,
    pub parsed: Parsed,
}

impl Item {
    /// Returns why the record cannot be stored, if the record itself is the cause.
    pub fn failure(&self) -> Option<&Failure> {
        if let Parsed::Failed(failure) = &self.parsed { Some(failure) } else { None }
    }

    /// Returns true for a record that is stored with its batch.
    pub fn is_stored(&self) -> bool {
        self.failure().is_none() && !self.is_deferred() && !self.is_passed_on()
    }

    /// Returns true for a record that another cell stores.
    pub fn is_passed_on(&self) -> bool {
        matches!(self.parsed, Parsed::PassedOn)
    }

    /// Returns true for a record that was not read and is stored later.
    pub fn is_deferred(&self) -> bool {
        matches!(self.parsed, Parsed::Deferred)
    }
}

#[derive(Clone)]
pub struct Reading {
    pub content: Content,
    /// Readers of reports in other formats.
    pub readers: ReportReaders,
    /// The rewriters of reports that features have.
    pub rewriters: LoadedRewriters,
    /// Limits for reading a report.
    pub limits: ReadLimits,
    /// The gateways' keys, for checking the signatures of events.
    pub signatures: Arc<Signatures>,
    /// The current time, which is only used to reject impossible times.
    pub now: OffsetDateTime,
    /// True if spans are exported.
    pub has_spans: bool,
}

/// Function that reads one record: [`parse_record`], or a replacement in tests.
pub type ReadRecord = fn(&Record, &Reading) -> Parsed;

/// Reads records on the CPU pool, in their order. If a job panics, each of its records is read separately. A
/// record that panics on every try has failed.
///
/// # Errors
/// Returns an error if the pool has shut down.
pub async fn read_records(
    host: &Host,
    reading: &Reading,
    read: ReadRecord,
    records: Vec<PolledRecord>,
) -> Result<Vec<Item>, CpuError> {
    let mut records = records.into_iter();
    let mut jobs = Vec::new();
    loop {
        let some: Arc<[PolledRecord]> = records.by_ref().take(RECORDS_A_JOB).collect();
        if some.is_empty() {
            break;
        }
        let (own, reading) = (Arc::clone(&some), reading.clone());
        let job = host.cpu.submit_job(move || {
            own.iter().map(|record| read_item(record, &reading, read)).collect::<Vec<_>>()
        });
        jobs.push((some, job));
    }
    let mut items = Vec::new();
    for (some, job) in jobs {
        match job.await {
            Ok(read) => items.extend(read),
            Err(CpuError::Panicked(_)) => {
                for index in 0..some.len() {
                    items.push(read_alone(host, reading, read, &some, index).await?);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(items)
}

async fn read_alone(
    host: &Host,
    reading: &Reading,
    read: ReadRecord,
    records: &Arc<[PolledRecord]>,
    index: usize,
) -> Result<Item, CpuError> {
    let mut panic = String::new();
    for _ in 0..RECORD_TRIES_LIMIT {
        let (records, reading) = (Arc::clone(records), reading.clone());
        let job = move || read_item(&records[index], &reading, read);
        match host.cpu.run(job).await {
            Ok(item) => return Ok(item),
            Err(CpuError::Panicked(text)) => panic = text,
            Err(error) => return Err(error),
        }
    }
    Ok(build_item(&records[index].record, reading, Parsed::Failed(Failure::from_panic(panic))))
}

fn read_item(polled: &PolledRecord, reading: &Reading, read: ReadRecord) -> Item {
    let record = &polled.record;
    let (tenant, parsed) = match &polled.action {
        RecordAction::Store => {
            let (parsed, used) = measure_cpu(|| read(record, reading));
            let item = build_item(record, reading, parsed);
            PROCESS_USE.add(item.tenant.as_ref(), used);
            return item;
        }
        RecordAction::Defer(tenant) => (tenant, Parsed::Deferred),
        RecordAction::SkipPassedOn(tenant) => (tenant, Parsed::PassedOn),
    };
    Item { tenant: Some(tenant.clone()), ..build_item(record, reading, parsed) }
}

fn build_item(record: &Record, reading: &Reading, parsed: Parsed) -> Item {
    let tenant = match parsed.tenant() {
        Some(tenant) => Some(tenant.clone()),
        // Only symbolizers write the outputs. In a dead letter or an event the header is an unverified claim.
        None if matches!(reading.content, Content::Reports) => record.headers.get_tenant(),
        None => None,
    };
    let arrived_at = record.time_millis.and_then(timestamp::from_millis).unwrap_or(reading.now);
    let traceparent = record.headers.get_text(headers::TRACEPARENT).filter(|_| reading.has_spans);
    Item {
        at: record.at.clone(),
        arrived_at,
        tenant,
        traceparent: traceparent.map(str::to_owned),
        is_from_public_key: record.headers.get_text(headers::SENDER_KEY).is_some(),
        parsed,
    }
}

pub fn parse_record(record: &Record, reading: &Reading) -> Parsed {
    match reading.content {
        Content::Reports => enriched::read_report(record, reading)
            .map_or_else(Parsed::Unreadable, |read| Parsed::Report(Box::new(read))),
        Content::Ledger => ledger::read_entry(record).unwrap_or_else(Parsed::Unreadable),
        Content::Events(topic) => event::read_event(record, reading, topic)
            .map_or_else(Parsed::Unreadable, |read| Parsed::Event(Box::new(read))),
        Content::DeadLetters => Parsed::DeadLetter(
            Box::new(dead_letter::read_dead_letter(record, reading.now)),
            answers::from_dead_letter(record),
        ),
    }
}
