//! Records deferred records that their topic no longer holds, so that no reader waits for them.

use crate::failure::IndexerError;
use crate::pipeline::resources::Resources;
use crate::records::dead_letter::{self, SkippedRecord};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterStage, DeadLetterStatus};
use unslide_store::deferred::{self, DeferredRange, StoredPart};
use unslide_stream::{RecordRef, StreamError, TopicFacts, topics_facts};

/// Removes the records that the topics have lost from these ranges, and records the loss. Returns the ranges
/// that can still be read. `read_to` returns the first offset of a range's partition that was not read.
///
/// # Errors
/// Returns an error if Kafka or the database fails, or if the start of a range has moved.
pub async fn note_lost(
    resources: &Resources,
    ranges: Vec<DeferredRange>,
    read_to: impl Fn(&DeferredRange) -> Option<i64>,
) -> Result<Vec<DeferredRange>, IndexerError> {
    let topics: BTreeSet<String> = ranges.iter().map(|range| range.topic.clone()).collect();
    let topics: Vec<String> = topics.into_iter().collect();
    let mut facts = BTreeMap::new();
    for (topic, held) in topics.iter().zip(topics_facts(&resources.kafka, topics.clone()).await?) {
        match held {
            Ok(held) => facts.insert(topic.clone(), Some(held)),
            Err(StreamError::NoTopic(_)) => facts.insert(topic.clone(), None),
            Err(error) => return Err(error.into()),
        };
    }
    let (mut left, mut lost) = (Vec::new(), Vec::new());
    for range in ranges {
        let read_to = read_to(&range).unwrap_or(range.from).max(range.from);
        let next = first_held(&range, read_to, facts.get(&range.topic).and_then(Option::as_ref));
        if next > range.from {
            let records = if next >= range.to { range.records } else { 0 };
            let oldest_at = range.oldest_at;
            lost.push(StoredPart { range: range.clone(), next, records, oldest_at });
        }
        if next < range.to {
            left.push(DeferredRange { from: next.max(range.from), ..range });
        }
    }
    note_and_shorten(resources, &lost).await?;
    Ok(left)
}

/// Returns the offset of the first record of a range that its topic still holds, or the end of the range.
fn first_held(range: &DeferredRange, read_to: i64, topic: Option<&TopicFacts>) -> i64 {
    let Some(topic) = topic.filter(|topic| topic.id.to_string() == range.topic_id) else { return range.to };
    let Some(held) = topic.partitions.iter().find(|held| held.partition == range.partition) else {
        return range.to;
    };
    // A log that lost its end holds no records from there on.
    let is_cut = held.end < range.to && held.end <= read_to;
    if is_cut || read_to >= range.to { range.to } else { held.start.clamp(range.from, range.to) }
}

async fn note_and_shorten(resources: &Resources, lost: &[StoredPart]) -> Result<(), IndexerError> {
    if lost.is_empty() {
        return Ok(());
    }
    let mut lost_at = BTreeMap::<(&str, i32, i64), Vec<&StoredPart>>::new();
    for part in lost {
        let range = &part.range;
        tracing::error!(
            kafka.topic = range.topic,
            kafka.partition = range.partition,
            kafka.offset = range.from,
            tenant = %range.tenant,
            next_offset = part.next,
            "deferred records were deleted from their topic before they were stored"
        );
        lost_at.entry((&range.topic, range.partition, range.from)).or_default().push(part);
    }
    let now = resources.store.clock().now();
    let letters: Vec<DeadLetter> = lost_at.values().filter_map(|parts| lost_letter(parts, now)).collect();
    let mut tx = resources.store.batch().await?;
    dead_letters::note(&mut tx, &letters).await?;
    deferred::shorten_ranges(&mut tx, lost).await?;
    tx.commit().await?;
    resources.metrics.deferred_lost.inc_by(lost.len() as u64);
    Ok(())
}

/// Returns the dead letter of ranges that began at one record, which cannot be replayed. It belongs to no
/// tenant if the ranges are of several tenants.
fn lost_letter(parts: &[&StoredPart], now: OffsetDateTime) -> Option<DeadLetter> {
    let first = &parts.first()?.range;
    let details = parts.iter().map(|StoredPart { range, next, .. }| {
        format!(
            "the topic was to hold records of {} from {} to {} that were deferred, and does not hold those before {next} \
             any more",
            range.tenant, range.from, range.to
        )
    });
    let detail = details.collect::<Vec<_>>().join("; ");
    let at = RecordRef { topic: first.topic.as_str().into(), partition: first.partition, offset: first.from };
    let tenant = Some(first.tenant.clone()).filter(|_| parts.len() == 1);
    let why = SkippedRecord { reason: "past_retention", detail, tenant, at: now };
    let letter = dead_letter::skipped(&at, first.topic_id.clone(), DeadLetterStage::Read, why);
    Some(DeadLetter { status: DeadLetterStatus::PastRetention, ..letter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::TenantId;
    use unslide_stream::{PartitionFacts, TopicId};

    #[test]
    fn what_a_topic_does_not_hold_any_more_is_told_from_what_it_holds() {
        let range = DeferredRange {
            tenant: TenantId::new("acme").unwrap(),
            topic: "out".into(),
            topic_id: TopicId([1; 16]).to_string(),
            partition: 0,
            from: 10,
            to: 20,
            records: 5,
            oldest_at: OffsetDateTime::UNIX_EPOCH,
        };
        let topic = |id, partition, start, end| TopicFacts {
            id: TopicId([id; 16]),
            partitions: vec![PartitionFacts { partition, start, end }],
        };
        for (held, read_to, first) in [
            (topic(1, 0, 0, 50), 10, 10),
            (topic(1, 0, 0, 50), 19, 10),
            (topic(1, 0, 0, 50), 20, 20),
            (topic(1, 0, 15, 50), 10, 15),
            (topic(1, 0, 30, 50), 10, 20),
            // A log that was cut, another topic of this name, and a partition that is not there.
            (topic(1, 0, 0, 10), 10, 20),
            (topic(1, 0, 0, 15), 10, 10),
            (topic(1, 0, 0, 15), 15, 20),
            (topic(2, 0, 0, 50), 10, 20),
            (topic(1, 1, 0, 50), 10, 20),
        ] {
            assert_eq!(first_held(&range, read_to, Some(&held)), first, "{held:?}");
        }
        assert_eq!(first_held(&range, 10, None), 20);
    }
}
