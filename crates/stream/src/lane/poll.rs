//! Polls records, and pauses fetching while enough records wait.

use crate::client::is_lost_connection;
use crate::lane::Processor;
use crate::lane::assignment::context::{Gate, PollOutcome, list_partitions};
use crate::lane::batch::gather::GatheredRecord;
use crate::lane::batch::queues::PREPARATION_WAIT_TIMEOUT;
use crate::lane::batch::slots::BatchSlot;
use crate::lane::engine::Engine;
use crate::lane::progress::BUSY_POLL_INTERVAL;
use crate::record::Record;
use rdkafka::Message;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time between two polls while no work is under way: the client reports when there is something
/// to poll.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two polls while a whole batch waits: each may bring another record, and a rebalance
/// waits for the next.
const FULL_POLL: Duration = Duration::from_millis(500);

impl<P: Processor> Engine<P> {
    /// Waits for the first event, and gathers the records that have come.
    pub(super) fn poll(&mut self, stopping: bool) {
        if self.queues.slot.is_preparing() {
            self.queues.wait_for_preparation();
        }
        let mut wait = self.poll_wait();
        let mut room = if stopping { 1 } else { 1_000 };
        if self.queues.gather.is_full() && !self.polling.fetching_paused {
            // Callbacks come by polling, and so may a record: now and then one too many.
            let pause = if self.notes_under_way() { BUSY_POLL_INTERVAL } else { FULL_POLL };
            if self.polling.last_poll.elapsed() < pause {
                if !wait.is_zero() {
                    std::thread::sleep(PREPARATION_WAIT_TIMEOUT);
                }
                return;
            }
            room = 1;
        }
        self.polling.last_poll = Instant::now();
        let consumer = Arc::clone(&self.consumer);
        while room > 0 {
            let polled = {
                let _call = self.control.watch.enter_call("poll");
                self.consumer.wait(wait);
                consumer.poll(Duration::ZERO)
            };
            match polled {
                None => break,
                Some(Ok(message)) => self.take_record(message, stopping),
                Some(Err(e @ KafkaError::MessageConsumptionFatal(_))) => {
                    self.begin_expulsion(&e);
                    return;
                }
                Some(Err(e)) => {
                    if !is_lost_connection(&e) {
                        tracing::warn!(error = %e, "a read from Kafka failed and is tried again");
                    }
                    break;
                }
            }
            wait = Duration::ZERO;
            room -= 1;
            if self.queues.gather.is_full() {
                break;
            }
        }
    }

    /// Gathers a polled record, unless its partition is held back or the record comes again.
    fn take_record(&mut self, message: BorrowedMessage<'_>, stopping: bool) {
        let topic = match self.polling.topic_names.get(message.topic()) {
            Some(topic) => Arc::clone(topic),
            None => message.topic().into(),
        };
        let place = (Arc::clone(&topic), message.partition());
        let admitted = self.consumer.context().ownership.lock().admit_record(&place, message.offset());
        match admitted {
            // While a rewind is due the record comes again.
            PollOutcome::Take { epoch } if !self.rewinding && !stopping => {
                self.polling.topic_names.insert(Arc::clone(&topic));
                let record = Record::from_message(&message, topic);
                drop(message);
                if !self.held_back(&place, &record) {
                    self.queues.gather.push(GatheredRecord { record, epoch });
                    if self.queues.slot.is_preparing() {
                        self.processor.on_records_queued(true);
                    }
                }
            }
            PollOutcome::Take { .. } | PollOutcome::Pass => {}
            PollOutcome::Missed { due } => {
                let (topic, partition) = (&*place.0, place.1);
                tracing::error!(topic, partition, "the record at {due} did not come again: going back");
                self.rewinding = true;
            }
        }
    }

    fn poll_wait(&self) -> Duration {
        let wait = self.longest_wait();
        let due = self.next_due().map_or(wait, |at| at.saturating_duration_since(Instant::now()));
        whole_milliseconds(wait.min(due))
    }

    fn longest_wait(&self) -> Duration {
        match &self.queues.slot {
            BatchSlot::Preparing { .. } => return Duration::ZERO,
            BatchSlot::Marking { .. } => return PREPARATION_WAIT_TIMEOUT,
            BatchSlot::Waiting { .. } if self.producing => return BUSY_POLL_INTERVAL,
            _ => {}
        }
        if !self.producing {
            return Duration::ZERO;
        }
        if self.notes_under_way() {
            return PREPARATION_WAIT_TIMEOUT;
        }
        if let Some(ready) = self.queues.ready.front() {
            let left = ready.not_before.map(|at| at.saturating_duration_since(Instant::now()));
            return left.unwrap_or(Duration::ZERO).min(BUSY_POLL_INTERVAL);
        }
        match self.queues.gather.time_left(self.idle_time()) {
            // It is due, and may not begin.
            Some(Duration::ZERO) => PREPARATION_WAIT_TIMEOUT,
            Some(left) => left.min(PREPARATION_WAIT_TIMEOUT),
            None if self.rewinding => BUSY_POLL_INTERVAL,
            None => IDLE_POLL_INTERVAL,
        }
    }

    /// Returns true while the coordinator has not answered a commit of attempts. Until it has, no transaction
    /// may commit offsets: the answer's commit could come later and set them back.
    pub(super) fn notes_under_way(&self) -> bool {
        self.consumer.context().ownership.lock().unanswered > 0
    }

    /// Stops fetching while enough is here, and takes it up again.
    pub(super) fn control_flow(&mut self) {
        let stop = self.queues.gather.is_overfull() || self.pause.is_on();
        let resume = !self.queues.gather.is_full() && !self.pause.is_on();
        if (stop && !self.polling.fetching_paused) || (resume && self.polling.fetching_paused) {
            let _call = self.control.watch.enter_call("pause or resume");
            let mut ownership = self.consumer.context().ownership.lock();
            // Held partitions stay paused until their record is due.
            let held = |gate| matches!(gate, Gate::Held { .. });
            let which = ownership.owned.iter().filter(|(_, owned)| stop || !held(owned.gate));
            let list = list_partitions(which.map(|(place, _)| place));
            let changed = if stop { self.consumer.pause(&list) } else { self.consumer.resume(&list) };
            match changed {
                Ok(()) => {
                    ownership.paused = stop;
                    self.polling.fetching_paused = stop;
                }
                Err(e) => tracing::warn!(error = %e, "fetching could not be paused or resumed"),
            }
        }
    }
}

/// Rounds a wait up to whole milliseconds, since the client waits for those and spins for the rest.
fn whole_milliseconds(wait: Duration) -> Duration {
    Duration::from_micros(1_000 * u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX / 1_000))
}
