//! Passes records of a tenant that has moved on to the cell that serves it.
//!
//! A record goes to the topic of the same name there, with the same key, value and headers. What a sender signed is checked again there,
//! by the time at which the record comes to that cell. So a signed record that has waited here is passed on as a copy of a retry tier, which
//! only workers write: its signature counts as checked, and it keeps its time.

use crate::output::dead_letters::Provenance;
use crate::output::outcomes::{OutcomeWriter, build_done, dead_letter};
use crate::source_record::{Reason, SourceRecord, to_reference};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_proto::report::{Outcome, TerminalOutcome};
use unslide_proto::topics::TopicNames;
use unslide_stream::OutRecord;
use unslide_stream::lane::Done;

/// The time since its arrival after which a signed record is passed on as one that was checked, in milliseconds. It is far shorter than a
/// signature is valid, so that the other cell may be behind.
const CHECKED_AFTER_MILLIS: i64 = 60_000;

/// The cell that serves a record's tenant.
#[derive(Clone, Debug)]
pub struct OtherCell {
    /// The tenant that has moved.
    pub tenant: TenantId,
    /// The prefix of that cell's topics.
    pub prefix: Arc<str>,
}

/// Passes a record on, and writes a ledger entry. A record that no topic of the other cell takes becomes a dead letter. `report` has what a
/// request of the store names.
pub fn pass_on(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    cell: &OtherCell,
    lane: &'static str,
    report: TerminalOutcome,
) -> Done {
    let tenant = &cell.tenant;
    let copied = match build_copy(writer, entry, cell) {
        Ok(copied) => copied,
        Err(missing) => {
            let detail = format!(
                "the tenant {tenant} moved to another cell, and the topic {missing} does not exist there"
            );
            return dead_letter(writer, entry, Some(tenant), "no_cell_topic", &detail);
        }
    };
    let end = TerminalOutcome {
        tenant: tenant.to_string(),
        outcome: Outcome::PassedOn.into(),
        origin: Some(entry.origin.clone()),
        source: Some(to_reference(&entry.record.at)),
        passed_to: copied.topic.to_string(),
        ..report
    };
    let ledger = writer.lane_ledger(lane).build_terminal(end, writer.traces.clock.now_micros());
    let mut done = build_done(entry, Some(tenant), ledger, Outcome::PassedOn);
    done.outputs.push(copied);
    done
}

/// Returns the record for the other cell, or the name of the topic that is missing there.
fn build_copy(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    cell: &OtherCell,
) -> Result<OutRecord, String> {
    let record = entry.record;
    let others = TopicNames::with_prefix(&cell.prefix);
    let named = writer.topics.name_with_prefix(&record.at.topic, &cell.prefix);
    // A tenant's own topic need not exist there: then the shared one takes the record, with the tenant's name.
    let is_own = writer.topics.tenant_of_input(&record.at.topic).is_some();
    let topic = named.filter(|topic| !is_own || !writer.cells.is_missing(topic));
    let topic = topic.unwrap_or_else(|| others.input.clone());
    if is_late(writer, entry)
        && let Some(checked) = build_checked_copy(writer, entry, cell, &others)
    {
        return Ok(checked);
    }
    if writer.cells.is_missing(&topic) {
        return Err(topic);
    }
    let mut copied = OutRecord::copy_of(record, topic);
    if is_own {
        copied.headers.set(headers::TENANT, cell.tenant.to_string());
    }
    Ok(copied)
}

/// Returns true for a record of a sender with a signature that may be too old by the time at which the other cell reads it.
fn is_late(writer: &OutcomeWriter, entry: &SourceRecord<'_>) -> bool {
    let now = writer.traces.clock.now_micros() / 1_000;
    let waited = entry.arrived_millis.map_or(0, |arrived| now.saturating_sub(arrived));
    !entry.internal && entry.record.headers.get(headers::SIGNATURE).is_some() && waited > CHECKED_AFTER_MILLIS
}

/// Returns the record as a copy of the shortest retry tier, or `None` if that is missing or does not take it.
fn build_checked_copy(
    writer: &OutcomeWriter,
    entry: &SourceRecord<'_>,
    cell: &OtherCell,
    others: &TopicNames,
) -> Option<OutRecord> {
    let topic = &others.retry_1s;
    let history = Provenance::from_record(entry, Some(&cell.tenant), writer.traces.traceparent(entry.record));
    let detail = "the tenant moved to this cell";
    let copy = history.copy_to(topic, cell.tenant.to_string().into(), Reason::Cold.header_value(), 1, detail);
    (copy.size() <= writer.letters.most_bytes && !writer.cells.is_missing(topic)).then_some(copy)
}
