//! Makes dead letters: of records in the dead-letter topic, and of records that the indexer skips.

use time::OffsetDateTime;
use unslide_model::{TenantId, timestamp};
use unslide_proto::headers;
use unslide_store::dead_letters::{DeadLetter, DeadLetterId, DeadLetterStage, DeadLetterStatus, TopicOffset};
use unslide_stream::{Headers, Record, RecordRef};

/// Reasons for which the record's claimed tenant can't be trusted.
const UNCERTAIN_TENANT: [&str; 6] =
    ["no_tenant", "unknown_tenant", "no_signature", "bad_signature", "stale_signature", "tenant_mismatch"];

/// Why, when and for which tenant the indexer skipped a record.
#[derive(Clone, Debug)]
pub struct SkippedRecord {
    pub reason: &'static str,
    pub detail: String,
    pub tenant: Option<TenantId>,
    pub at: OffsetDateTime,
}

/// Reads a record; this never fails. `now` replaces a time that the topic does not have. The topic's id is
/// not known yet.
pub fn read_dead_letter(record: &Record, now: OffsetDateTime) -> DeadLetter {
    let given = &record.headers;
    let text = |name| given.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let reason = text(headers::REASON).filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or_else(|| "unknown".to_owned());
    let tenant = given.get_tenant();
    let index = given.get_number(headers::SOURCE_INDEX).zip(given.get_number(headers::SOURCE_COUNT));
    DeadLetter {
        id: DeadLetterId {
            topic_id: String::new(),
            partition: record.at.partition,
            offset: record.at.offset,
        },
        stage: DeadLetterStage::Symbolize,
        topic: record.at.topic.to_string(),
        tenant: tenant.filter(|_| !UNCERTAIN_TENANT.contains(&reason.as_str())),
        arrived_at: record.time_millis.and_then(timestamp::from_millis).unwrap_or(now),
        detail: text(headers::DETAIL).unwrap_or_default(),
        reason,
        attempt: given.get_number(headers::ATTEMPT),
        origin: read_topic_offset(
            given,
            headers::ORIGIN_TOPIC,
            headers::ORIGIN_PARTITION,
            headers::ORIGIN_OFFSET,
        ),
        source: read_topic_offset(
            given,
            headers::SOURCE_TOPIC,
            headers::SOURCE_PARTITION,
            headers::SOURCE_OFFSET,
        ),
        source_index: index.map(|(index, _)| index),
        source_count: index.map(|(_, count)| count),
        value_bytes: record.value.as_ref().map(|value| value.len() as u64),
        status: DeadLetterStatus::Waiting,
        replays: 0,
        replayed_at: None,
        replayed_by: None,
        replayed_as: None,
        replay_detail: None,
    }
}

/// Returns the dead letter of a record that the indexer skipped. Only the record's position is known, which
/// is enough to read it again.
pub fn skipped(at: &RecordRef, topic_id: String, stage: DeadLetterStage, why: SkippedRecord) -> DeadLetter {
    DeadLetter {
        id: DeadLetterId { topic_id, partition: at.partition, offset: at.offset },
        stage,
        topic: at.topic.to_string(),
        tenant: why.tenant.filter(|_| !UNCERTAIN_TENANT.contains(&why.reason)),
        arrived_at: why.at,
        reason: why.reason.to_owned(),
        detail: why.detail,
        attempt: None,
        origin: None,
        source: None,
        source_index: None,
        source_count: None,
        value_bytes: None,
        status: DeadLetterStatus::Waiting,
        replays: 0,
        replayed_at: None,
        replayed_by: None,
        replayed_as: None,
        replay_detail: None,
    }
}

fn read_topic_offset(given: &Headers, topic: &str, partition: &str, offset: &str) -> Option<TopicOffset> {
    Some(TopicOffset {
        topic: given.get_text(topic)?.to_owned(),
        partition: given.get_number(partition)?,
        offset: given.get_number(offset)?,
    })
}

/// Returns the reason as a label. Anything that is not a word of this program becomes `other`, so that the
/// number of labels is bounded.
pub fn reason_label(reason: &str) -> &str {
    let word = reason.len() <= 32 && reason.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if word { reason } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(headers: Headers) -> Record {
        Record {
            at: RecordRef { topic: "unslide.dead-letter".into(), partition: 2, offset: 40 },
            time_millis: Some(1_700),
            key: None,
            value: None,
            headers,
        }
    }

    #[test]
    fn any_record_can_be_noted() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let nothing = read_dead_letter(&record(Headers::new()), now);
        assert_eq!((nothing.reason.as_str(), nothing.tenant, nothing.origin), ("unknown", None, None));
        assert_eq!((nothing.value_bytes, nothing.id.offset), (None, 40));
        let odd = Headers::new()
            .with(headers::REASON, &b"\xff\0"[..])
            .with(headers::TENANT, "No Slug")
            .with(headers::ORIGIN_TOPIC, "a")
            .with(headers::ORIGIN_PARTITION, "x")
            .with(headers::SOURCE_INDEX, "-1");
        let odd = read_dead_letter(&record(odd), now);
        assert_eq!((odd.tenant, odd.origin, odd.source_index), (None, None, None));
        assert_eq!(reason_label(&odd.reason), "other");
    }

    #[test]
    fn a_tenant_that_was_only_claimed_is_nobody() {
        for (reason, tenant) in
            [("not_json", Some("acme")), ("unknown_tenant", None), ("bad_signature", None)]
        {
            let given = Headers::new().with(headers::REASON, reason).with(headers::TENANT, "acme");
            let letter = read_dead_letter(&record(given), OffsetDateTime::UNIX_EPOCH);
            assert_eq!(letter.tenant.as_ref().map(TenantId::as_str), tenant, "{reason}");
            assert_eq!(reason_label(&letter.reason), reason);
        }
    }
}
