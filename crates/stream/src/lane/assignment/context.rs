//! State that the consumer's callbacks change: which partitions are this lane's, and since when.

use crate::client;
use crate::lane::Observer;
use crate::lane::assignment::membership;
use crate::lane::fatal_records::attempts::Attempts;
use parking_lot::Mutex;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(in crate::lane) use crate::read::spread::TopicPartition;

/// The state of a partition's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) enum Mark {
    /// The committed offset's metadata was not read yet.
    Unread,
    /// The metadata of the committed offset, if there is one. No attempt is written yet.
    Known { offset: Option<i64>, attempts: Attempts },
    /// An attempt is written at this offset.
    Written { offset: i64, attempts: Attempts },
    /// A transaction was committed since, up to the offset `next`: no attempt has to be written.
    Clear { next: i64, attempts: Attempts },
}

impl Mark {
    /// Returns true if the partition's next record is processed alone; `batch` is the limit of records in a
    /// batch.
    pub(in crate::lane) fn is_alone(self, batch: usize) -> bool {
        match self {
            Mark::Clear { attempts, .. } | Mark::Written { attempts, .. } => attempts.alone > 0,
            Mark::Known { attempts, .. } => attempts.add_attempt(batch).alone > 0,
            Mark::Unread => false,
        }
    }
}

/// Whether a partition's next record may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) enum Gate {
    /// It may.
    Open,
    /// The record at `offset` is not due yet; polled records are skipped. `lost`: the partition
    /// could not be set back to it, or not be paused there, so that it will not come without a further seek.
    Held { offset: i64, until: Instant, lost: bool },
    /// The record at `offset` is due and has to be the next.
    Due { offset: i64 },
}

/// The decision on a polled record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) enum PollOutcome {
    /// It is taken, under this epoch.
    Take { epoch: u64 },
    /// It is not this lane's, or comes again later.
    Pass,
    /// One that was held back has to come before it and did not.
    Missed { due: i64 },
}

/// A partition that is this lane's.
#[derive(Clone, Copy, Debug)]
pub(in crate::lane) struct AssignedPartition {
    pub gate: Gate,
    /// No two assignments, also of one partition, have the same epoch.
    pub epoch: u64,
    pub mark: Mark,
    /// The last attempt that this worker wrote, and its offset. This worker is alive, so it is no attempt of
    /// another one.
    pub noted: Option<(i64, Attempts)>,
    /// True once a record was polled: then the client has a position that must be set back on a rewind.
    pub touched: bool,
}

/// How long after a seek the client may still say that it has fetched to the end: the thread of a broker
/// counts the next records, and waits for answers first.
const SEEK_SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The lag of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) struct Lag {
    /// Records that can be had and are neither polled nor held back.
    pub waiting: i64,
    /// Offsets that open transactions hold back.
    pub open: i64,
    /// Bytes in the client's queue.
    pub bytes: u64,
}

/// The partitions that are this lane's now.
#[derive(Debug, Default)]
pub(in crate::lane) struct Ownership {
    next_epoch: u64,
    pub owned: BTreeMap<TopicPartition, AssignedPartition>,
    /// The member id under which the group gave them to this lane.
    pub member: String,
    /// This lane was thrown out and has come again with partitions that it had before: others may have had
    /// them in between, so that only the committed offsets count.
    pub returned: bool,
    /// Commits of attempts that the coordinator has not answered yet.
    pub unanswered: u64,
    /// Set by a revocation or a rewind, so that gathered records that are no longer this lane's are dropped.
    pub changed: bool,
    /// True while fetching is paused: new partitions are paused as well.
    pub paused: bool,
    /// The lane has to notify the processor of its share.
    pub shares_changed: bool,
    /// Records that can be had and are neither polled nor held back, as the client last said.
    pub waiting: i64,
    /// When a rewind last set the number of waiting records.
    pub rewound: Option<Instant>,
}

impl Ownership {
    pub(in crate::lane) fn fresh_epoch(&mut self) -> u64 {
        self.next_epoch += 1;
        self.next_epoch
    }

    /// Takes over the client's statistics of this lane's partitions. They come some time after they were
    /// `gathered`: those from before a rewind, or shortly after it, do not count the records that come again.
    fn update_lag(&mut self, statistics: &Statistics, gathered: Instant) -> Lag {
        let mut lag = self.compute_lag(statistics);
        if self.rewound.is_some_and(|at| gathered <= at + SEEK_SETTLE_TIMEOUT) {
            lag.waiting = lag.waiting.max(self.waiting);
        }
        self.waiting = lag.waiting;
        lag
    }

    /// Computes the lag of this lane's partitions from the client's statistics.
    fn compute_lag(&self, statistics: &Statistics) -> Lag {
        let (mut waiting, mut open, mut queued, mut again, mut bytes) = (0, 0, 0, 0, 0);
        for ((topic, partition), owned) in &self.owned {
            let known = statistics.topics.get(&**topic).and_then(|t| t.partitions.get(partition));
            let Some(p) = known else { continue };
            // All partitions share one queue, and the statistics of each count all of it.
            queued = queued.max(p.fetchq_cnt);
            bytes = bytes.max(p.fetchq_size);
            match owned.gate {
                // Negative values mean "not known yet". Measured from the next offset to fetch and not from
                // the committed offset: markers of transactions at the log's end are no records.
                Gate::Open if p.next_offset >= 0 && p.ls_offset >= 0 => {
                    waiting += (p.ls_offset - p.next_offset).max(0);
                }
                Gate::Open => {}
                // A record that is due may be held back once more when it comes, and its partition's fetched
                // records are fetched again then: only a taken record shows that the rest waits.
                Gate::Held { offset, .. } | Gate::Due { offset } => again += (p.next_offset - offset).max(0),
            }
            if p.hi_offset >= 0 && p.ls_offset >= 0 {
                open += (p.hi_offset - p.ls_offset).max(0);
            }
        }
        Lag { waiting: waiting + (queued - again).max(0), open, bytes }
    }

    /// Returns the epoch of a partition; `None` if it is not this lane's.
    pub(in crate::lane) fn find_epoch(&self, place: &TopicPartition) -> Option<u64> {
        self.owned.get(place).map(|owned| owned.epoch)
    }

    /// Decides on a record that was polled.
    pub(in crate::lane) fn admit_record(&mut self, place: &TopicPartition, offset: i64) -> PollOutcome {
        let Some(owned) = self.owned.get_mut(place) else { return PollOutcome::Pass };
        owned.touched = true;
        match &mut owned.gate {
            Gate::Held { offset: held, lost, .. } => {
                *lost |= offset >= *held;
                return PollOutcome::Pass;
            }
            Gate::Due { offset: due } if offset < *due => return PollOutcome::Pass,
            Gate::Due { offset: due } if offset > *due => return PollOutcome::Missed { due: *due },
            Gate::Open | Gate::Due { .. } => {}
        }
        owned.gate = Gate::Open;
        PollOutcome::Take { epoch: owned.epoch }
    }

    /// Forgets the known committed offsets: another process may have committed others since, so that no
    /// attempt may be taken back.
    pub(in crate::lane) fn forget_marks(&mut self) {
        for owned in self.owned.values_mut() {
            owned.mark = Mark::Unread;
        }
    }

    /// Makes everything prepared so far worthless, as after a rewind.
    pub(in crate::lane) fn renew_epochs(&mut self) {
        self.changed = true;
        let first = self.next_epoch + 1;
        self.next_epoch += self.owned.len() as u64;
        for (n, owned) in self.owned.values_mut().enumerate() {
            owned.epoch = first + n as u64;
            owned.touched = false;
            owned.gate = Gate::Open;
        }
    }
}

/// The lane's side of the consumer.
pub(in crate::lane) struct LaneContext {
    /// Held by the rebalance callback, and whenever group metadata is read or offsets are cut to
    /// the assignment.
    pub ownership: Mutex<Ownership>,
    pub observer: Arc<dyn Observer>,
    /// Before the client was made.
    created: Instant,
}

impl LaneContext {
    pub(in crate::lane) fn new(observer: Arc<dyn Observer>) -> LaneContext {
        LaneContext { ownership: Mutex::new(Ownership::default()), observer, created: Instant::now() }
    }

    /// Takes back written attempts that did not end with the process, while their partitions are given up.
    /// The commit goes out before this member joins the next generation; later it would be refused. The
    /// answer does not matter: an attempt too many counts only if the process dies several times more.
    /// `member` is the id that wrote them: under another id the offsets may be another member's, who is
    /// further.
    pub(in crate::lane) fn take_back(
        consumer: &BaseConsumer<LaneContext>,
        member: &str,
        marks: &[(TopicPartition, i64, Attempts)],
    ) {
        if marks.is_empty() || !membership::is_still(consumer, member) {
            return;
        }
        let entries = marks.iter().map(|(place, offset, attempts)| (place, *offset, attempts.taken_back()));
        let list = list_offsets(entries);
        if let Err(e) = list.and_then(|list| consumer.commit(&list, CommitMode::Async)) {
            tracing::debug!(error = %e, "an attempt could not be taken back");
        }
    }

    /// Commits offsets with their attempts and counts the commit as unanswered until the coordinator
    /// has answered. The lane's thread cannot wait for that: it has to poll.
    pub(in crate::lane) fn commit_attempts(
        consumer: &Arc<BaseConsumer<LaneContext>>,
        list: TopicPartitionList,
    ) {
        consumer.context().ownership.lock().unanswered += 1;
        let asking = Arc::clone(consumer);
        let spawned = std::thread::Builder::new().name("lane note".to_owned()).spawn(move || {
            let member = asking.context().ownership.lock().member.clone();
            if !membership::is_still(&asking, &member) {
                tracing::debug!("an attempt is not written: the membership was lost");
            } else if let Err(e) = asking.commit(&list, CommitMode::Sync) {
                tracing::debug!(error = %e, "an attempt could not be written");
            }
            asking.context().ownership.lock().unanswered -= 1;
        });
        if let Err(e) = spawned {
            tracing::warn!(error = %e, "no thread to write an attempt");
            consumer.context().ownership.lock().unanswered -= 1;
        }
    }
}

/// Makes a list of offsets with attempts as their metadata.
pub(in crate::lane) fn list_offsets<'a>(
    entries: impl IntoIterator<Item = (&'a TopicPartition, i64, Attempts)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset, attempts) in entries {
        let mut element = list.add_partition(topic, *partition);
        element.set_offset(Offset::Offset(offset))?;
        let text = attempts.to_string();
        if !text.is_empty() {
            element.set_metadata(&text);
        }
    }
    Ok(list)
}

/// Makes a list of partitions.
pub(in crate::lane) fn list_partitions<'a>(
    entries: impl IntoIterator<Item = &'a TopicPartition>,
) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in entries {
        list.add_partition(topic, *partition);
    }
    list
}

impl ClientContext for LaneContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log_client_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let age = Duration::from_micros(u64::try_from(statistics.age).unwrap_or(0));
        let Lag { waiting, open, bytes } = self.ownership.lock().update_lag(&statistics, self.created + age);
        self.observer.record_lag(waiting, open);
        self.observer.record_fetched(bytes);
    }
}

impl ConsumerContext for LaneContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(list) = rebalance else { return };
        let lost = consumer.assignment_lost();
        let mut ownership = self.ownership.lock();
        let mut written = Vec::new();
        for element in list.elements() {
            let place: TopicPartition = (element.topic().into(), element.partition());
            if let Some(owned) = ownership.owned.remove(&place)
                && let Mark::Written { offset, attempts } = owned.mark
            {
                written.push((place, offset, attempts));
            }
        }
        ownership.changed = true;
        ownership.shares_changed = true;
        self.observer.record_assigned(ownership.owned.len());
        if !lost {
            LaneContext::take_back(consumer, &ownership.member, &written);
        }
        tracing::info!(
            partitions = list.count(),
            remaining = ownership.owned.len(),
            lost,
            "partitions were taken from this lane"
        );
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(list) = rebalance else { return };
        let member = membership::member_id(consumer);
        let mut ownership = self.ownership.lock();
        if ownership.member != member {
            ownership.member = member;
            ownership.returned |= !ownership.owned.is_empty();
            ownership.forget_marks();
        }
        for element in list.elements() {
            let epoch = ownership.fresh_epoch();
            let owned = AssignedPartition {
                gate: Gate::Open,
                epoch,
                mark: Mark::Unread,
                noted: None,
                touched: false,
            };
            ownership.owned.insert((element.topic().into(), element.partition()), owned);
        }
        ownership.shares_changed = true;
        if list.count() > 0 {
            // The client keeps a partition's pause while the partition is assigned to another member.
            let paused = ownership.paused;
            if let Err(e) = if paused { consumer.pause(list) } else { consumer.resume(list) } {
                tracing::warn!(error = %e, paused, "new partitions could not be paused or resumed");
            }
        }
        self.observer.record_assigned(ownership.owned.len());
        tracing::info!(
            partitions = list.count(),
            total = ownership.owned.len(),
            "partitions were given to this lane"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::statistics::{Partition, Topic};

    /// What the client says of two partitions of ten records, of which it has fetched some.
    fn statistics(fetched: [i64; 2], queued: i64) -> Statistics {
        let partition = |next_offset| Partition {
            next_offset,
            fetchq_cnt: queued,
            ls_offset: 10,
            hi_offset: 12,
            ..Partition::default()
        };
        let partitions = [(0, partition(fetched[0])), (1, partition(fetched[1]))].into();
        let topics = [("t".to_owned(), Topic { partitions, ..Topic::default() })].into();
        Statistics { topics, ..Statistics::default() }
    }

    fn owning(gates: [Gate; 2]) -> Ownership {
        let owned =
            |gate| AssignedPartition { gate, epoch: 1, mark: Mark::Unread, noted: None, touched: true };
        let places = [("t".into(), 0), ("t".into(), 1)];
        Ownership { owned: places.into_iter().zip(gates.map(owned)).collect(), ..Ownership::default() }
    }

    fn waiting(gates: [Gate; 2], fetched: [i64; 2], queued: i64) -> i64 {
        owning(gates).compute_lag(&statistics(fetched, queued)).waiting
    }

    #[test]
    fn what_a_rewind_brings_again_waits_until_the_client_has_counted_anew() {
        let mut ownership = owning([Gate::Open, Gate::Open]);
        let all_fetched = statistics([10, 10], 0);
        let before = Instant::now();
        (ownership.waiting, ownership.rewound) = (2, Some(before));
        assert_eq!(ownership.update_lag(&all_fetched, before).waiting, 2);
        assert_eq!(ownership.update_lag(&all_fetched, before + SEEK_SETTLE_TIMEOUT).waiting, 2);
        assert_eq!(ownership.update_lag(&statistics([5, 10], 0), before).waiting, 5);
        assert_eq!(ownership.update_lag(&all_fetched, before + 2 * SEEK_SETTLE_TIMEOUT).waiting, 0);
        assert_eq!(ownership.waiting, 0);
    }

    #[test]
    fn what_waits_is_what_may_be_taken() {
        let held = Gate::Held { offset: 2, until: Instant::now(), lost: false };
        let due = Gate::Due { offset: 2 };
        let open = Gate::Open;
        assert_eq!(waiting([open, open], [4, 10], 3), 6 + 3);
        // Not known yet.
        assert_eq!(waiting([open, open], [-1001, 10], 0), 0);
        for gate in [held, due] {
            assert_eq!(waiting([gate, open], [2, 10], 3), 3, "{gate:?}");
            // It was asked for again, with all that lies behind it.
            assert_eq!(waiting([gate, open], [10, 10], 8 + 3), 3, "{gate:?}");
            assert_eq!(waiting([gate, open], [10, 10], 0), 0, "{gate:?}");
        }
    }
}
