//! Ledger entries for transactions, so that an audit need not read bodies.

use std::collections::BTreeMap;
use unslide_model::{ResourceUses, TenantId};
use unslide_proto::Message;
use unslide_proto::report::ledger_record::Entry;
use unslide_proto::report::{
    self, BatchAccount, LedgerRecord, Outcome, OutcomeCount, PartitionBatch, TerminalOutcome,
};
use unslide_stream::OutRecord;
use unslide_stream::lane::Done;

/// Writes the ledger entries of one lane of a worker.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub topic: String,
    pub lane: &'static str,
    pub worker: String,
}

impl Ledger {
    /// Returns the entry of one transaction.
    pub fn build_batch(&self, done: &[&Done], at_micros: i64) -> OutRecord {
        type ByPlace<'d, T> = BTreeMap<(&'d str, i32), T>;
        let mut partitions: ByPlace<'_, PartitionBatch> = BTreeMap::new();
        let mut outcomes: ByPlace<'_, BTreeMap<(String, i32), u64>> = BTreeMap::new();
        for one in done {
            let place = (&*one.source.topic, one.source.partition);
            let offset = one.source.offset;
            let batch = partitions.entry(place).or_insert_with(|| PartitionBatch {
                topic: place.0.to_owned(),
                partition: place.1,
                first_offset: offset,
                next_offset: offset,
                ..PartitionBatch::default()
            });
            batch.first_offset = batch.first_offset.min(offset);
            batch.next_offset = batch.next_offset.max(offset + 1);
            batch.records += 1;
            for (tenant, outcome) in &one.outcomes {
                *outcomes
                    .entry(place)
                    .or_default()
                    .entry((tenant.clone(), (*outcome).into()))
                    .or_default() += 1;
            }
        }
        for (place, counts) in outcomes {
            if let Some(batch) = partitions.get_mut(&place) {
                batch.outcomes = counts
                    .into_iter()
                    .map(|((tenant, outcome), count)| OutcomeCount { tenant, outcome, count })
                    .collect();
            }
        }
        let account = BatchAccount { partitions: partitions.into_values().collect() };
        self.build_record(Entry::Batch(account), at_micros)
    }

    /// Returns the entry for the end of a record or request that leaves no other message.
    pub fn build_terminal(&self, end: TerminalOutcome, at_micros: i64) -> OutRecord {
        self.build_record(Entry::Terminal(end), at_micros)
    }

    /// Returns the entry that says what the worker used.
    pub fn build_uses(&self, uses: &ResourceUses, at_micros: i64) -> OutRecord {
        let uses = uses.iter().map(|(tenant, used)| report::ResourceUse {
            tenant: tenant.as_ref().map(TenantId::to_string).unwrap_or_default(),
            cpu_micros: used.cpu_micros,
            kafka_bytes: used.kafka_bytes,
            object_requests: used.object_requests,
            object_bytes: used.object_bytes,
            stored: used.stored,
        });
        self.build_record(Entry::Uses(report::ResourceUses { uses: uses.collect() }), at_micros)
    }

    fn build_record(&self, entry: Entry, at_micros: i64) -> OutRecord {
        let record = LedgerRecord {
            lane: self.lane.to_owned(),
            worker: self.worker.clone(),
            at_micros,
            entry: Some(entry),
        };
        OutRecord::for_topic(self.topic.as_str(), record.encode_to_vec()).key(self.worker.clone())
    }
}

/// Returns the name of an outcome in metrics.
pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "unspecified",
        Outcome::Symbolicated => "symbolicated",
        Outcome::DeadLetter => "dead_letter",
        Outcome::Retry => "retry",
        Outcome::Overflow => "overflow",
        Outcome::Unchanged => "unchanged",
        Outcome::SourceGone => "source_gone",
        Outcome::DroppedDeleted => "dropped_deleted",
        Outcome::FetchingFailed => "fetching_failed",
        Outcome::Forwarded => "forwarded",
        Outcome::PassedOn => "passed_on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_stream::RecordRef;

    fn done(partition: i32, offset: i64, outcomes: &[(&str, Outcome)]) -> Done {
        Done {
            source: RecordRef { topic: "in".into(), partition, offset },
            outputs: Vec::new(),
            outcomes: outcomes.iter().map(|(t, o)| ((*t).to_owned(), *o)).collect(),
            history: None,
        }
    }

    #[test]
    fn an_account_has_each_partition_once_with_its_outcomes_by_tenant() {
        let ledger = Ledger { topic: "ledger".into(), lane: "live", worker: "w-0".into() };
        let all = [
            done(1, 8, &[("acme", Outcome::Symbolicated), ("acme", Outcome::Symbolicated)]),
            done(0, 3, &[("", Outcome::DeadLetter)]),
            done(1, 9, &[("other", Outcome::Symbolicated)]),
        ];
        let record = ledger.build_batch(&all.iter().collect::<Vec<_>>(), 7);
        let read = LedgerRecord::decode(record.value.unwrap()).unwrap();
        let Some(Entry::Batch(account)) = read.entry else { panic!("no batch") };
        assert_eq!((read.lane.as_str(), read.worker.as_str(), read.at_micros), ("live", "w-0", 7));
        let told: Vec<_> = account
            .partitions
            .iter()
            .map(|p| (p.partition, p.first_offset, p.next_offset, p.records, p.outcomes.len()))
            .collect();
        assert_eq!(told, [(0, 3, 4, 1, 1), (1, 8, 10, 2, 2)]);
        assert_eq!(account.partitions[1].outcomes[0].count, 2);
    }
}
