//! The lane's thread: poll, gather, have prepared, commit.

use super::{Control, LaneConfig, LaneError, LaneStatus, Observer, Processor};
use crate::error::StreamError;
use crate::lane::assignment::context::{Gate, LaneContext, PollOutcome, list_partitions};
use crate::lane::assignment::{membership, rewind};
use crate::lane::batch::gather::{Gather, GatheredRecord};
use crate::lane::batch::slots::{Batch, BatchSlot, Ready};
use crate::lane::fatal_records::suspects::Trial;
use crate::lane::transactions::transaction::TxProducer;
use crate::read::waking::WakingConsumer;
use crate::record::Record;
use crate::settings::Settings;
use crate::write::byte_bound::ByteBound;
use rdkafka::Message;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The longest time between two polls while something is under way.
pub(super) const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time between two polls while no work is under way: the client reports when there is something
/// to poll.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two polls while a whole batch waits: each may bring another record, and a rebalance
/// waits for the next.
const FULL_POLL: Duration = Duration::from_millis(500);
/// How long one wait for a preparation lasts, between polls.
const PREPARATION_WAIT_TIMEOUT: Duration = Duration::from_millis(5);
/// How long the coordinator may take to store an attempt.
pub(super) const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Engine<P> {
    pub(super) lane: LaneConfig,
    pub(super) settings: Settings,
    pub(super) processor: Arc<P>,
    pub(super) observer: Arc<dyn Observer>,
    status: watch::Sender<LaneStatus>,
    pub(super) control: Arc<Control>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) consumer: WakingConsumer<LaneContext>,
    pub(super) producer: TxProducer,
    /// The producer has fenced its predecessors off and may be used.
    pub(super) producing: bool,
    /// Partitions have to be set back to their committed offsets before anything else.
    pub(super) rewinding: bool,
    /// Names of topics that records came from, so that all share one text.
    pub(super) topics: BTreeSet<Arc<str>>,
    pub(super) gather: Gather,
    /// Batches that were cut up. They go before the gathered records.
    pub(super) backlog: VecDeque<Batch>,
    pub(super) slot: BatchSlot,
    pub(super) ready: VecDeque<Ready>,
    /// Held while a record is tried that may kill the process.
    pub(super) trial: Option<Trial>,
    /// The reason why no batch is prepared or written for now.
    pub(super) paused: Option<String>,
    /// The pause is for a topic that is missing: it ends with the next commit, and not when something is
    /// prepared.
    pub(super) unwritten: bool,
    fetching_paused: bool,
    /// Fenced off so often since the last commit.
    pub(super) fenced: u32,
    pub(super) bound: ByteBound,
    pub(super) commits: u64,
    pub(super) records: u64,
    polled: Instant,
    /// When a transaction was last committed, a batch was last cut, or the lane last had no work.
    pub(super) progress: Instant,
    /// When a transaction last ended.
    pub(super) written: Instant,
    /// When Kafka is asked again for the number of partitions after it did not tell.
    pub(super) shares_not_before: Option<Instant>,
    /// When the lane next looks for unassigned partitions of its group.
    pub(super) unassigned_check_at: Option<Instant>,
    #[cfg(test)]
    pub(super) faults: super::tests::Faults,
}

impl<P: Processor> Engine<P> {
    pub(super) fn open(
        settings: &Settings,
        lane: LaneConfig,
        processor: Arc<P>,
        observer: Arc<dyn Observer>,
        status: watch::Sender<LaneStatus>,
        control: Arc<Control>,
        runtime: tokio::runtime::Handle,
    ) -> Result<Engine<P>, LaneError> {
        let failed = |source| LaneError::Client { lane: lane.name.clone(), source: Box::new(source) };
        let member = format!("{}unslide.{}.{}", settings.topic_prefix, lane.name, lane.worker);
        let config = lane.consumer_config(settings, &member);
        let context = LaneContext::new(Arc::clone(&observer));
        let consumer = WakingConsumer::new(&config, context, Arc::clone(&control.signal))
            .map_err(|e| failed(StreamError::from_kafka("making the lane's consumer", e)))?;
        consumer
            .subscribe(&lane.list_subscriptions())
            .map_err(|e| failed(StreamError::from_kafka("joining the group", e)))?;
        let producer = TxProducer::new(settings, &member, lane.timings.transaction, &control, &observer)
            .map_err(failed)?;
        Ok(Engine {
            topics: BTreeSet::new(),
            gather: Gather::new(lane.batch),
            settings: settings.clone(),
            backlog: VecDeque::new(),
            slot: BatchSlot::Empty,
            ready: VecDeque::new(),
            trial: None,
            producing: false,
            rewinding: false,
            paused: None,
            unwritten: false,
            fetching_paused: false,
            fenced: 0,
            bound: ByteBound::unbounded(),
            commits: 0,
            records: 0,
            polled: Instant::now(),
            progress: Instant::now(),
            written: Instant::now(),
            shares_not_before: None,
            unassigned_check_at: None,
            #[cfg(test)]
            faults: super::tests::Faults::default(),
            lane,
            processor,
            observer,
            status,
            control,
            runtime,
            consumer,
            producer,
        })
    }

    pub(super) fn run(mut self) -> Result<(), LaneError> {
        let span = tracing::info_span!("lane", lane = self.lane.name, worker = self.lane.worker);
        let _entered = span.enter();
        let mut stopping = false;
        loop {
            if self.control.is_stop_requested() {
                if !std::mem::replace(&mut stopping, true) {
                    tracing::info!("the lane reads no more records and ends its current batch");
                }
                // Records that were polled and not begun come to the next owner.
                self.gather.clear();
                self.backlog.clear();
                let begun = self.slot.is_preparing() || !self.ready.is_empty();
                if !begun || self.rewinding || self.control.is_expired() {
                    break;
                }
            }
            self.release_due();
            self.poll(stopping)?;
            self.let_go_of_lost();
            self.end_trial();
            self.tell_shares();
            if !stopping {
                self.check_for_unassigned()?;
            }
            self.start_producer()?;
            if self.rewinding {
                self.try_rewind();
                self.report_status();
                continue;
            }
            self.take_prepared()?;
            if !stopping {
                self.prepare_next();
            }
            match self.commit_ready() {
                Ok(true) => {}
                // Only tests "kill" a lane: it gives up nothing in an orderly way.
                Ok(false) => {
                    self.trial = None;
                    std::mem::forget(self);
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
            self.end_idle_pause();
            self.control_flow();
            self.report_status();
        }
        self.close();
        Ok(())
    }

    fn close(self) {
        let control = Arc::clone(&self.control);
        let _call = control.watch.enter_call("leave the group");
        membership::leave_group(&self.consumer);
        drop(self.producer);
        // Dropping the consumer calls back for the partitions given up, and that callback takes attempts
        // back.
        drop(self.consumer);
        tracing::info!(commits = self.commits, records = self.records, "the lane has stopped");
    }

    pub(super) fn client_error(&self, source: StreamError) -> LaneError {
        LaneError::Client { lane: self.lane.name.clone(), source: Box::new(source) }
    }

    // ---- polling -------------------------------------------------------------------------------

    /// Waits for the first event, and gathers the records that have come.
    fn poll(&mut self, stopping: bool) -> Result<(), LaneError> {
        if self.slot.is_preparing() {
            self.wait_for_preparation();
        }
        let mut wait = self.poll_wait();
        let mut room = if stopping { 1 } else { 1_000 };
        if self.gather.is_full() && !self.fetching_paused {
            // Callbacks come by polling, and so may a record: now and then one too many.
            let pause = if self.notes_under_way() { BUSY_POLL_INTERVAL } else { FULL_POLL };
            if self.polled.elapsed() < pause {
                if !wait.is_zero() {
                    std::thread::sleep(PREPARATION_WAIT_TIMEOUT);
                }
                return Ok(());
            }
            room = 1;
        }
        self.polled = Instant::now();
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
                    return Err(self.client_error(StreamError::from_kafka("consuming", e)));
                }
                Some(Err(e)) => {
                    tracing::warn!(error = %e, "a read from Kafka failed and is tried again");
                    break;
                }
            }
            wait = Duration::ZERO;
            room -= 1;
            if self.gather.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Gathers a polled record, unless its partition is held back or the record comes again.
    fn take_record(&mut self, message: BorrowedMessage<'_>, stopping: bool) {
        let topic = match self.topics.get(message.topic()) {
            Some(topic) => Arc::clone(topic),
            None => message.topic().into(),
        };
        let place = (Arc::clone(&topic), message.partition());
        let admitted = self.consumer.context().ownership.lock().admit_record(&place, message.offset());
        match admitted {
            // While a rewind is due the record comes again.
            PollOutcome::Take { epoch } if !self.rewinding && !stopping => {
                self.topics.insert(Arc::clone(&topic));
                let record = Record::from_message(&message, topic);
                drop(message);
                if !self.held_back(&place, &record) {
                    self.gather.push(GatheredRecord { record, epoch });
                    if self.slot.is_preparing() {
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
        match &self.slot {
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
        if let Some(ready) = self.ready.front() {
            let left = ready.not_before.map(|at| at.saturating_duration_since(Instant::now()));
            return left.unwrap_or(Duration::ZERO).min(BUSY_POLL_INTERVAL);
        }
        match self.gather.time_left(self.idle_time()) {
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

    /// Waits for a moment whether the preparation ends.
    fn wait_for_preparation(&mut self) {
        if let BatchSlot::Preparing { batch, result } = &mut self.slot {
            match result.recv_timeout(PREPARATION_WAIT_TIMEOUT) {
                Ok(prepared) => {
                    let (sender, receiver) = mpsc::channel();
                    // The receiver is at hand: this cannot fail.
                    let _ = sender.send(prepared);
                    *result = receiver;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    tracing::debug!(records = batch.held.len(), "a preparation went away");
                }
            }
        }
    }

    fn let_go_of_lost(&mut self) {
        let mut ownership = self.consumer.context().ownership.lock();
        if std::mem::take(&mut ownership.returned) {
            tracing::warn!("this lane was out of its group: it goes back to what is committed");
            self.rewinding = true;
        }
        if std::mem::take(&mut ownership.changed) {
            self.gather.keep_owned(&ownership);
            for batch in &mut self.backlog {
                batch.held.retain(|held| held.is_current(&ownership));
            }
            if let BatchSlot::Waiting { batch, .. } | BatchSlot::Marking { batch, .. } = &mut self.slot {
                batch.held.retain(|held| held.is_current(&ownership));
            }
        }
        drop(ownership);
        self.backlog.retain(|batch| !batch.held.is_empty());
        if matches!(&self.slot, BatchSlot::Waiting { batch, .. } | BatchSlot::Marking { batch, .. } if batch.held.is_empty())
        {
            self.slot = BatchSlot::Empty;
        }
    }

    // ---- the producer's life -------------------------------------------------------------------

    fn start_producer(&mut self) -> Result<(), LaneError> {
        #[cfg(test)]
        if self.faults.no_producer.as_ref().is_some_and(|failpoint| failpoint()) {
            return Ok(());
        }
        if !self.producing {
            let _call = self.control.watch.enter_call("start the transactional producer");
            let begun = self.producer.init_transactions(Duration::from_millis(500));
            self.producing = begun.map_err(|e| self.client_error(e))?;
        }
        Ok(())
    }

    /// Begins again with a new producer, from the committed offsets, if the end of a transaction is
    /// unknown.
    pub(super) fn start_over(&mut self) -> Result<(), LaneError> {
        // The partitions may be given up before the committed offsets were read. An attempt that was taken
        // back then would set them back to before the transaction.
        self.consumer.context().ownership.lock().forget_marks();
        self.gather.clear();
        self.backlog.clear();
        self.ready.clear();
        self.slot = BatchSlot::Empty;
        self.rewinding = true;
        self.producing = false;
        let member = format!("{}unslide.{}.{}", self.settings.topic_prefix, self.lane.name, self.lane.worker);
        let _call = self.control.watch.enter_call("replace the transactional producer");
        let made = TxProducer::new(
            &self.settings,
            &member,
            self.lane.timings.transaction,
            &self.control,
            &self.observer,
        );
        #[cfg(test)]
        let before_commit = self.producer.before_commit.take();
        self.producer = made.map_err(|e| self.client_error(e))?;
        #[cfg(test)]
        {
            self.producer.before_commit = before_commit;
        }
        Ok(())
    }

    fn try_rewind(&mut self) {
        // The committed offsets are known only once the new producer has ended the old one's transaction.
        if !self.producing {
            return;
        }
        let _call = self.control.watch.enter_call("go back to the committed offsets");
        match rewind::rewind_to_committed(&self.consumer) {
            Ok(()) => self.rewinding = false,
            Err(e) => tracing::warn!(error = %e, "cannot go back to the committed offsets yet"),
        }
    }

    // ---- flow and figures ----------------------------------------------------------------------

    /// Ends a pause if its work was taken away: nothing else would end it, because nothing is fetched during
    /// a pause.
    fn end_idle_pause(&mut self) {
        if matches!(self.slot, BatchSlot::Empty) && self.ready.is_empty() && self.backlog.is_empty() {
            self.paused = None;
            self.unwritten = false;
        }
    }

    /// Stops fetching while enough is here, and takes it up again.
    fn control_flow(&mut self) {
        let stop = self.gather.is_overfull() || self.paused.is_some();
        let resume = !self.gather.is_full() && self.paused.is_none();
        if (stop && !self.fetching_paused) || (resume && self.fetching_paused) {
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
                    self.fetching_paused = stop;
                }
                Err(e) => tracing::warn!(error = %e, "fetching could not be paused or resumed"),
            }
        }
    }

    /// Returns true while there is work and no pause.
    fn is_busy(&self) -> bool {
        let waiting = self.consumer.context().ownership.lock().waiting > 0;
        let here = !self.gather.is_empty() || !self.backlog.is_empty() || !self.ready.is_empty();
        // Before a rewind it is unknown whether there is work.
        let begun = self.rewinding || !matches!(self.slot, BatchSlot::Empty);
        self.paused.is_none() && (waiting || here || begun)
    }

    fn report_status(&mut self) {
        let busy = self.is_busy();
        if !busy {
            self.progress = Instant::now();
        }
        let stalled = busy && self.progress.elapsed() >= self.lane.timings.stall;
        let ready: usize = self.ready.iter().map(Ready::bytes).sum();
        let backlog: usize = self.backlog.iter().map(Batch::bytes).sum();
        self.observer.in_flight(self.gather.bytes() + backlog + self.slot.bytes() + ready);
        let partitions = self.consumer.context().ownership.lock().owned.len();
        self.status.send_if_modified(|status| {
            let new = LaneStatus {
                joined: status.joined || partitions > 0 || membership::has_joined(&self.consumer),
                partitions,
                paused: self.paused.clone(),
                stalled,
                commits: self.commits,
                records: self.records,
                ended: false,
            };
            let changed = *status != new;
            *status = new;
            changed
        });
    }
}

/// Rounds a wait up to whole milliseconds, since the client waits for those and spins for the rest.
fn whole_milliseconds(wait: Duration) -> Duration {
    Duration::from_micros(1_000 * u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX / 1_000))
}
