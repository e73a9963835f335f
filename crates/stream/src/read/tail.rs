//! Reads a compacted topic from its start to its end, then follows it. Joins no group and keeps no
//! position: the topic is a table, and each process holds its own copy.

use crate::client::{Logging, fetch_watermarks, is_lost_connection};
use crate::error::StreamError;
use crate::read::TAIL_GROUP;
use crate::read::waking::WakingConsumer;
use crate::record::Record;
use crate::settings::Settings;
use crate::signal::Signal;
use bytes::Bytes;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use unslide_model::Clock;

/// An event of a reader, sent to its owner on the reader's own thread, in order.
#[derive(Debug)]
pub enum TailEvent {
    /// The next record. A value of `None` is a tombstone.
    Record(Record),
    /// Records may have been missed, or come again: the topic is read from its start once more.
    Gap,
}

impl TailEvent {
    /// Passes the record's value to `read`, or `None` for a gap. A tombstone is skipped, and an error of
    /// `read` is logged.
    pub fn read_value<E: Display>(self, read: impl FnOnce(Option<Bytes>) -> Result<(), E>) {
        let (at, value) = match self {
            TailEvent::Gap => (None, None),
            TailEvent::Record(Record { value: None, .. }) => return,
            TailEvent::Record(Record { at, value, .. }) => (Some(at), value),
        };
        if let Err(error) = read(value) {
            tracing::error!(record = ?at, error = %error, "a record of a table cannot be read");
        }
    }
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailProgress {
    /// True once everything that the topic held at the start was read.
    pub caught_up: bool,
    /// Everything written before this time of the monotonic clock was read. Renewed every few seconds while Kafka
    /// answers, whether records come or not.
    pub looked_at: Option<Duration>,
    /// The newest of the [`TailReader::refresh`] calls that are answered.
    pub refreshed: u64,
    /// True once the reader has ended.
    pub ended: bool,
}

/// A running reader. It ends when dropped.
pub struct TailReader {
    topic: String,
    progress: watch::Receiver<TailProgress>,
    wanted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    signal: Arc<Signal>,
}

/// The pause after a read that failed, and the longest wait for a record while a refresh is to be answered.
const READ_FAILURE_BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait for a record else.
const RECORD_WAIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the end of the log is compared with the next offset to read.
const LOOK_MICROS: i64 = 5_000_000;
/// How long a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(3);
/// After this long without a successful look the connection counts as interrupted.
const INTERRUPTED_MICROS: i64 = 30_000_000;

impl TailReader {
    /// Starts a thread that reads `topic` and calls `on` for each event. `on` must be quick: the thread does
    /// nothing else during the call.
    ///
    /// # Errors
    /// [`StreamError`] if the client cannot be made.
    pub fn start(
        settings: &Settings,
        topic: &str,
        clock: Arc<dyn Clock>,
        on: impl FnMut(TailEvent) + Send + 'static,
    ) -> Result<TailReader, StreamError> {
        let mut config = settings.require_valid()?.consumer_config();
        config
            .set("group.id", format!("{}{TAIL_GROUP}", settings.topic_prefix))
            .set("auto.offset.reset", "earliest")
            // No partition of a table is ever paused.
            .set("fetch.wait.max.ms", "250")
            .set("enable.partition.eof", "true");
        let signal = Arc::new(Signal::default());
        let consumer = WakingConsumer::new(&config, Logging, Arc::clone(&signal))
            .map_err(|e| StreamError::from_kafka(format!("making a reader of {topic}"), e))?;
        let (sender, progress) = watch::channel(TailProgress::default());
        let stop = Arc::new(AtomicBool::new(false));
        let wanted = Arc::new(AtomicU64::new(0));
        let mut table = Table {
            consumer,
            signal: Arc::clone(&signal),
            topic: topic.into(),
            clock,
            on,
            progress: sender,
            wanted: Arc::clone(&wanted),
            next: BTreeMap::new(),
            behind: BTreeSet::new(),
            quiet: BTreeMap::new(),
            looked: None,
        };
        let flag = Arc::clone(&stop);
        std::thread::Builder::new()
            .name(format!("tail {topic}"))
            .spawn(move || table.run_reader(&flag))
            .map_err(|e| StreamError::Settings(format!("no thread for {topic}: {e}")))?;
        Ok(TailReader { topic: topic.to_owned(), progress, wanted, stop, signal })
    }

    /// Returns the reader's progress, to be watched.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<TailProgress> {
        self.progress.clone()
    }

    /// Waits until everything that the topic held at the start was read.
    ///
    /// # Errors
    /// [`StreamError::Ended`] if the reader ended before.
    pub async fn caught_up(&self) -> Result<(), StreamError> {
        let mut progress = self.progress.clone();
        let seen = progress.wait_for(|p| p.caught_up || p.ended).await;
        match seen {
            Ok(p) if p.caught_up => Ok(()),
            _ => Err(StreamError::Ended(self.topic.clone())),
        }
    }
}

impl TailReader {
    /// Waits until everything was read that the topic held when this was called. It includes the records that
    /// another process wrote before it caused this call, independent of clocks.
    ///
    /// # Errors
    /// [`StreamError::Ended`] if that is not so `within` the given time.
    pub async fn refresh(&self, within: Duration) -> Result<(), StreamError> {
        let ticket = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.signal.raise();
        let mut progress = self.progress.clone();
        let answered = tokio::time::timeout(within, progress.wait_for(|p| p.refreshed >= ticket || p.ended));
        match answered.await {
            Ok(Ok(p)) if p.refreshed >= ticket => Ok(()),
            _ => Err(StreamError::Ended(self.topic.clone())),
        }
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.signal.raise();
    }
}

struct Table<F> {
    consumer: WakingConsumer<Logging>,
    /// Raised when there is something to poll, to look for, or to stop for.
    signal: Arc<Signal>,
    topic: Arc<str>,
    clock: Arc<dyn Clock>,
    on: F,
    progress: watch::Sender<TailProgress>,
    /// How many refreshes were asked for.
    wanted: Arc<AtomicU64>,
    /// The next offset of each assigned partition.
    next: BTreeMap<i32, i64>,
    /// Partitions that have not reached their end since they were assigned.
    behind: BTreeSet<i32>,
    /// The log's end of partitions that gave no record since a look found it there, and when that was, by
    /// the monotonic clock as everything here that is compared with another time of this reader.
    quiet: BTreeMap<i32, (i64, i64)>,
    /// When the last look at the log's end succeeded.
    looked: Option<i64>,
}

impl<F: FnMut(TailEvent)> Table<F> {
    fn run_reader(&mut self, stop: &AtomicBool) {
        let mut look_at = i64::MIN;
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.monotonic_micros();
            let refresh = self.wanted.load(Ordering::Acquire) > self.progress.borrow().refreshed;
            if now >= look_at || (refresh && self.behind.is_empty()) {
                look_at = match self.check_partitions(now) {
                    Ok(()) => now + LOOK_MICROS,
                    Err(e) => {
                        tracing::warn!(topic = %self.topic, error = %e, "Kafka does not return the end of a table");
                        self.clock.monotonic_micros() + LOOK_MICROS / 5
                    }
                };
            }
            if self.next.is_empty() {
                self.signal.wait(READ_FAILURE_BACKOFF);
                continue;
            }
            self.poll(if refresh { READ_FAILURE_BACKOFF } else { RECORD_WAIT_TIMEOUT });
        }
        self.progress.send_modify(|p| p.ended = true);
    }

    fn poll(&mut self, at_most: Duration) {
        self.consumer.wait(at_most);
        match self.consumer.poll(Duration::ZERO) {
            None => {}
            Some(Ok(message)) => {
                self.next.insert(message.partition(), message.offset() + 1);
                self.quiet.remove(&message.partition());
                let record = Record::from_message(&message, Arc::clone(&self.topic));
                (self.on)(TailEvent::Record(record));
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.pass_markers();
                self.behind.remove(&partition);
                self.note_caught_up();
            }
            Some(Err(e)) => {
                if !is_lost_connection(&e) {
                    tracing::warn!(topic = %self.topic, error = %e, "a read of a table failed and is tried again");
                }
                std::thread::sleep(READ_FAILURE_BACKOFF);
            }
        }
    }

    /// Moves on over the markers of transactions, which take offsets and are no records.
    fn pass_markers(&mut self) {
        let Ok(positions) = self.consumer.position() else { return };
        for position in positions.elements() {
            if let (Offset::Offset(offset), Some(next)) =
                (position.offset(), self.next.get_mut(&position.partition()))
            {
                *next = (*next).max(offset);
            }
        }
    }

    fn note_caught_up(&self) {
        if self.behind.is_empty() && !self.next.is_empty() {
            self.progress.send_if_modified(|p| !std::mem::replace(&mut p.caught_up, true));
        }
    }

    /// Assigns new partitions, and finds out whether the log was cut below the next offset to read, and until
    /// when everything was read.
    fn check_partitions(&mut self, now: i64) -> Result<(), KafkaError> {
        let wanted = self.wanted.load(Ordering::Acquire);
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), LOOK_WITHIN)?;
        let partitions: Vec<i32> = metadata
            .topics()
            .iter()
            .filter(|t| t.name() == &*self.topic && t.error().is_none())
            .flat_map(|t| t.partitions().iter().map(rdkafka::metadata::MetadataPartition::id))
            .collect();
        if partitions.is_empty() {
            return Err(KafkaError::MetadataFetch(rdkafka::error::RDKafkaErrorCode::UnknownTopicOrPartition));
        }
        let mut ends = BTreeMap::new();
        for partition in partitions {
            let bounds = fetch_watermarks(&self.consumer, &self.topic, partition, LOOK_WITHIN)?;
            ends.insert(partition, bounds);
        }
        // After a long interruption, or if the log ends before the next offset (the topic was deleted and
        // created again), the known state may be wrong: read everything again.
        let interrupted = self.looked.is_some_and(|then| now - then > INTERRUPTED_MICROS);
        let shrunk = self.next.iter().any(|(p, next)| ends.get(p).is_some_and(|(_, end)| end < next));
        if interrupted || shrunk {
            (self.on)(TailEvent::Gap);
            self.next.clear();
        }
        if ends.keys().any(|p| !self.next.contains_key(p)) {
            self.assign_partitions(&ends)?;
        }
        self.looked = Some(now);
        // The last offsets may hold no record any more, or none for readers. A partition without new records
        // for a while counts as read, too, if it was at its end and the end stayed.
        let read = ends.iter().all(|(p, (_, end))| {
            let (quiet_end, since) = self.quiet.get(p).copied().unwrap_or((-1, now));
            self.next.get(p).is_some_and(|next| next >= end)
                || (quiet_end == *end && now - since >= LOOK_MICROS)
        });
        for (p, (_, end)) in &ends {
            if self.quiet.get(p).is_none_or(|(quiet_end, _)| quiet_end != end) {
                self.quiet.insert(*p, (*end, now));
            }
        }
        if read && self.behind.is_empty() {
            self.progress.send_modify(|p| {
                p.looked_at = Some(Duration::from_micros(now.unsigned_abs()));
                p.refreshed = wanted;
            });
        }
        Ok(())
    }

    fn assign_partitions(&mut self, ends: &BTreeMap<i32, (i64, i64)>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(ends.len());
        for partition in ends.keys() {
            let offset = match self.next.get(partition) {
                Some(next) => Offset::Offset(*next),
                None => Offset::Beginning,
            };
            list.add_partition_offset(&self.topic, *partition, offset)?;
        }
        self.consumer.assign(&list)?;
        for (partition, (start, _)) in ends {
            self.next.entry(*partition).or_insert(*start);
            self.behind.insert(*partition);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Headers, RecordRef};

    fn record(value: Option<&'static str>) -> TailEvent {
        let at = RecordRef { topic: "table".into(), partition: 0, offset: 0 };
        let value = value.map(Bytes::from);
        TailEvent::Record(Record { at, time_millis: None, key: None, value, headers: Headers::new() })
    }

    #[test]
    fn gaps_and_values_are_read_whatever_is_wrong_with_them_and_tombstones_are_not() {
        let mut seen = Vec::new();
        for event in [record(Some("first")), record(None), TailEvent::Gap, record(Some("second"))] {
            event.read_value(|value| {
                seen.push(value);
                Err("no such format")
            });
        }
        assert_eq!(seen, [Some("first".into()), None, Some("second".into())]);
    }
}
