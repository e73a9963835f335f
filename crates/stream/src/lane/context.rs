//! What the consumer's callbacks change: which partitions are this lane's, and since when.

use super::attempts::Attempts;
use super::{Observer, membership};
use crate::client;
use parking_lot::Mutex;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::util::Timeout;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A partition of a topic.
pub(super) type Place = (Arc<str>, i32);

/// Where a partition's attempts stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The committed offset's metadata was not read yet.
    Unread,
    /// The metadata of the committed offset, where there is one. No attempt is written yet.
    Known { offset: Option<i64>, attempts: Attempts },
    /// An attempt is written at this offset.
    Written { offset: i64, attempts: Attempts },
    /// A transaction was committed since: no attempt has to be written.
    Clear { attempts: Attempts },
}

/// Whether a partition's next record may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// It may.
    Open,
    /// The record at `offset` is not due yet; what comes is passed over.
    Held { offset: i64, until: Instant },
    /// The record at `offset` is due and has to be the next.
    Due { offset: i64 },
}

/// What becomes of a record that was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is taken, under this epoch.
    Take { epoch: u64 },
    /// It is not this lane's, or comes again later.
    Pass,
    /// One that was held back has to come before it and did not.
    Missed { due: i64 },
}

/// A partition that is this lane's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub gate: Gate,
    /// No two assignments, also of one partition, have the same epoch.
    pub epoch: u64,
    pub mark: Mark,
    /// True once a record was polled: then the client has a position that must be set back on a rewind.
    pub touched: bool,
}

/// The partitions that are this lane's now.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    next_epoch: u64,
    pub owned: BTreeMap<Place, Owned>,
    /// The member id under which the group gave them to this lane.
    pub member: String,
    /// This lane was thrown out and has come again with partitions that it had before: others may have
    /// had them meanwhile, so that nothing counts but what is committed.
    pub returned: bool,
    /// Commits of attempts that the coordinator has not answered yet.
    pub unanswered: u64,
    /// Set by a revocation or a rewind, so that what was gathered and is worthless now is let go.
    pub changed: bool,
    /// True while fetching is paused: new partitions are paused as well.
    pub paused: bool,
    /// The processor has to be told what is this lane's.
    pub shares_changed: bool,
    /// Records that can be had and are neither polled nor held back, as the client last said.
    pub waiting: i64,
}

impl Ownership {
    pub(super) fn fresh_epoch(&mut self) -> u64 {
        self.next_epoch += 1;
        self.next_epoch
    }

    /// The epoch of a partition; `None` where it is not this lane's.
    pub(super) fn epoch(&self, place: &Place) -> Option<u64> {
        self.owned.get(place).map(|owned| owned.epoch)
    }

    /// Decides on a record that was polled.
    pub(super) fn admit(&mut self, place: &Place, offset: i64) -> Admission {
        let Some(owned) = self.owned.get_mut(place) else { return Admission::Pass };
        owned.touched = true;
        match owned.gate {
            Gate::Held { .. } => return Admission::Pass,
            Gate::Due { offset: due } if offset < due => return Admission::Pass,
            Gate::Due { offset: due } if offset > due => return Admission::Missed { due },
            Gate::Open | Gate::Due { .. } => {}
        }
        owned.gate = Gate::Open;
        Admission::Take { epoch: owned.epoch }
    }

    /// Makes everything prepared so far worthless, as after a rewind.
    pub(super) fn renew_epochs(&mut self) {
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
pub(super) struct LaneContext {
    /// Held by the rebalance callback, and whenever group metadata is read or offsets are cut to
    /// the assignment.
    pub ownership: Mutex<Ownership>,
    pub observer: Arc<dyn Observer>,
}

impl LaneContext {
    pub(super) fn new(observer: Arc<dyn Observer>) -> LaneContext {
        LaneContext { ownership: Mutex::new(Ownership::default()), observer }
    }

    /// Writes attempts back that did not end with the process, while their partitions are given up.
    /// It goes out before this member joins the next generation; later it would be refused. The answer
    /// does not matter: an attempt too many counts only if the process dies several times more.
    /// `member` is who wrote them: under another id the offsets may be somebody else's, who is further.
    pub(super) fn take_back(
        consumer: &BaseConsumer<LaneContext>,
        member: &str,
        marks: &[(Place, i64, Attempts)],
    ) {
        if marks.is_empty() || !membership::is_still(consumer, member) {
            return;
        }
        let entries = marks.iter().map(|(place, offset, attempts)| (place, *offset, attempts.taken_back()));
        let list = offsets(entries);
        if let Err(e) = list.and_then(|list| consumer.commit(&list, CommitMode::Async)) {
            tracing::debug!(error = %e, "an attempt could not be taken back");
        }
    }

    /// Commits offsets with their attempts and counts the commit as unanswered until the coordinator
    /// has answered. The lane's thread can't wait for that: it has to poll.
    pub(super) fn note(consumer: &Arc<BaseConsumer<LaneContext>>, list: TopicPartitionList) {
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

/// A list of offsets with attempts as their metadata.
pub(super) fn offsets<'a>(
    entries: impl IntoIterator<Item = (&'a Place, i64, Attempts)>,
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

/// A list of partitions.
pub(super) fn places<'a>(entries: impl IntoIterator<Item = &'a Place>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in entries {
        list.add_partition(topic, *partition);
    }
    list
}

impl ClientContext for LaneContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let mut ownership = self.ownership.lock();
        let (mut waiting, mut open, mut queued, mut bytes) = (0, 0, 0, 0);
        for ((topic, partition), owned) in &ownership.owned {
            let known = statistics.topics.get(&**topic).and_then(|t| t.partitions.get(partition));
            let Some(p) = known else { continue };
            // All partitions share one queue, and each tells all of it.
            queued = queued.max(p.fetchq_cnt);
            bytes = bytes.max(p.fetchq_size);
            // Negative values stand for "not known yet". Measured from what is fetched next and not
            // from what was committed: markers of transactions at the log's end are no records.
            if p.next_offset >= 0 && p.ls_offset >= 0 && !matches!(owned.gate, Gate::Held { .. }) {
                waiting += (p.ls_offset - p.next_offset).max(0);
            }
            if p.hi_offset >= 0 && p.ls_offset >= 0 {
                open += (p.hi_offset - p.ls_offset).max(0);
            }
        }
        ownership.waiting = waiting + queued;
        self.observer.lag(waiting + queued, open);
        self.observer.fetched(bytes);
    }
}

impl ConsumerContext for LaneContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(list) = rebalance else { return };
        let lost = consumer.assignment_lost();
        let mut ownership = self.ownership.lock();
        let mut written = Vec::new();
        for element in list.elements() {
            let place: Place = (element.topic().into(), element.partition());
            if let Some(owned) = ownership.owned.remove(&place)
                && let Mark::Written { offset, attempts } = owned.mark
            {
                written.push((place, offset, attempts));
            }
        }
        ownership.changed = true;
        ownership.shares_changed = true;
        self.observer.assigned(ownership.owned.len());
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
        }
        for element in list.elements() {
            let epoch = ownership.fresh_epoch();
            let owned = Owned { gate: Gate::Open, epoch, mark: Mark::Unread, touched: false };
            ownership.owned.insert((element.topic().into(), element.partition()), owned);
        }
        ownership.shares_changed = true;
        if list.count() > 0 {
            // The client forgets no pause while a partition is away.
            let paused = ownership.paused;
            if let Err(e) = if paused { consumer.pause(list) } else { consumer.resume(list) } {
                tracing::warn!(error = %e, paused, "new partitions could not be paused or resumed");
            }
        }
        self.observer.assigned(ownership.owned.len());
        tracing::info!(
            partitions = list.count(),
            total = ownership.owned.len(),
            "partitions were given to this lane"
        );
    }

    fn main_queue_min_poll_interval(&self) -> Timeout {
        Timeout::After(Duration::from_millis(100))
    }
}
