//! Checks the ledger against the records: transactions record the input that they took and its outcomes, and
//! the topics have to show the same.

use super::tally::{ARRAY, AuditTally, KINDS, Part, Spot, Taken};
use unslide_proto::report::Outcome;

impl AuditTally {
    /// Appends a sentence for each contradiction.
    pub(super) fn check_ledger(&self, contradictions: &mut Vec<String>) {
        for (number, part) in self.parts.iter().enumerate() {
            let mut taken = self.taken.get(&number).cloned().unwrap_or_default();
            taken.sort_by_key(|one| (one.first, one.next));
            self.find_overlaps(part, &taken, contradictions);
            self.find_gaps(part, &taken, contradictions);
            for one in &taken {
                let counted = &part.extent.counted;
                let committed = part.extent.committed.unwrap_or(0);
                // A transaction that ended after the audit began may have outputs behind its end.
                let known = one.first >= counted.start.max(part.extent.start)
                    && one.next <= counted.end.min(committed);
                if known {
                    self.compare_batch(number, part, one, contradictions);
                }
            }
        }
    }

    fn find_overlaps(&self, part: &Part, taken: &[Taken], contradictions: &mut Vec<String>) {
        let mut end = i64::MIN;
        for one in taken {
            if one.first < end && one.next > part.extent.counted.start {
                contradictions.push(format!(
                    "{}/{}: two transactions of the ledger took offsets {}..{}",
                    part.extent.topic,
                    part.extent.partition,
                    one.first,
                    end.min(one.next)
                ));
            }
            end = end.max(one.next);
        }
    }

    /// Records that were taken and that no transaction says it took.
    fn find_gaps(&self, part: &Part, taken: &[Taken], contradictions: &mut Vec<String>) {
        let Some(committed) = part.extent.committed else { return };
        let counted = &part.extent.counted;
        let mut batches = taken.iter().peekable();
        let mut gap: Option<(i64, i64, u64)> = None;
        for (slot, noted) in (0..).zip(&part.slots) {
            let offset = part.offset_at(slot);
            if offset >= committed {
                break;
            }
            if !noted.is_present() || !counted.contains(&offset) {
                continue;
            }
            while batches.next_if(|one| one.next <= offset).is_some() {}
            if batches.peek().is_some_and(|one| one.first <= offset) {
                continue;
            }
            gap = match gap {
                Some((first, _, records)) => Some((first, offset, records + 1)),
                None => Some((offset, offset, 1)),
            };
        }
        if let Some((first, last, records)) = gap {
            contradictions.push(format!(
                "{}/{}: {records} records from {first} to {last} were taken by no transaction of the ledger",
                part.extent.topic, part.extent.partition
            ));
        }
    }

    fn compare_batch(&self, number: usize, part: &Part, one: &Taken, contradictions: &mut Vec<String>) {
        let (mut records, mut shown, mut unclear) = (0, [0_u64; KINDS], false);
        for offset in one.first..one.next {
            let Ok(slot) = u32::try_from(offset - part.extent.from) else { continue };
            let Some(noted) = part.slots.get(slot as usize).filter(|noted| noted.is_present()) else {
                continue;
            };
            records += 1;
            match noted.kind() {
                0 => {}
                ARRAY => {
                    if let Some(array) = self.arrays.get(&Spot { part: number as u32, slot }) {
                        for (sum, count) in shown.iter_mut().zip(array.kinds) {
                            *sum += u64::from(count);
                        }
                        unclear |= array.missing_count() > 0 && noted.via() != 0;
                    }
                }
                kind => shown[usize::from(kind)] += 1,
            }
            // The kind of its outcome is no longer known, or the whole record is excused.
            unclear |= (noted.kind() == 0 && noted.via() != 0) || noted.is_excused();
        }
        let place = format!(
            "{}/{}: the transaction that took {}..{}",
            part.extent.topic, part.extent.partition, one.first, one.next
        );
        if records != one.records {
            contradictions.push(format!("{place} says {} records, and there are {records}", one.records));
        }
        if unclear {
            return;
        }
        for (name, kinds) in [
            ("reports published", &[Outcome::Symbolicated][..]),
            ("dead letters", &[Outcome::DeadLetter]),
            ("copies to retry or overflow", &[Outcome::Retry, Outcome::Overflow]),
            ("unchanged reports", &[Outcome::Unchanged]),
            ("requests that could not fetch symbols", &[Outcome::FetchingFailed]),
            ("sessions that were sent on", &[Outcome::Forwarded]),
            ("records that were passed on", &[Outcome::PassedOn]),
            ("requests without their report", &[Outcome::SourceGone]),
            ("reports of deleted tenants", &[Outcome::DroppedDeleted]),
        ] {
            let sum = |all: &[u64; KINDS]| kinds.iter().map(|kind| all[*kind as usize]).sum::<u64>();
            let (said, shown) = (sum(&one.outcomes), sum(&shown));
            if said != shown {
                contradictions.push(format!("{place} says {said} {name}, and the topics show {shown}"));
            }
        }
    }
}
