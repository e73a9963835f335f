//! The loop of a lane's thread: polls, prepares batches, commits them, and reports its status.

use super::{Control, LaneConfig, LaneError, LaneStatus, Observer, Processor};
use crate::error::StreamError;
use crate::lane::assignment::context::LaneContext;
use crate::lane::assignment::expulsion::{self, Expulsion};
use crate::lane::assignment::membership;
use crate::lane::batch::queues::BatchQueues;
use crate::lane::fatal_records::suspects::Trial;
use crate::lane::progress::{AssignmentChecks, BUSY_POLL_INTERVAL, LanePause, LaneProgress, PollState};
use crate::lane::transactions::transaction::TxProducer;
use crate::read::waking::WakingConsumer;
use crate::settings::Settings;
use crate::write::byte_bound::ByteBound;
use rdkafka::consumer::Consumer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the coordinator may take to store an attempt.
pub(super) const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Engine<P> {
    pub(super) lane: LaneConfig,
    pub(super) settings: Settings,
    pub(super) processor: Arc<P>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) control: Arc<Control>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) consumer: WakingConsumer<LaneContext>,
    pub(super) producer: TxProducer,
    /// The producer has fenced its predecessors off and may be used.
    pub(super) producing: bool,
    /// Partitions have to be set back to their committed offsets before anything else.
    pub(super) rewinding: bool,
    pub(super) queues: BatchQueues,
    /// Held while a record is tried that may kill the process.
    pub(super) trial: Option<Trial>,
    pub(super) pause: LanePause,
    pub(super) bound: ByteBound,
    pub(super) progress: LaneProgress,
    pub(super) polling: PollState,
    pub(super) checks: AssignmentChecks,
    /// Set while the group refuses this lane's consumer.
    pub(super) expulsion: Option<Expulsion>,
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
        let consumer = expulsion::make_consumer(settings, &lane, &control, &observer)
            .map_err(|e| failed(StreamError::from_kafka("making the lane's consumer", e)))?;
        consumer
            .subscribe(&lane.list_subscriptions())
            .map_err(|e| failed(StreamError::from_kafka("joining the group", e)))?;
        let member = lane.member_name(settings);
        let producer = TxProducer::new(settings, &member, lane.timings.transaction, &control, &observer)
            .map_err(failed)?;
        Ok(Engine {
            queues: BatchQueues::new(lane.batch),
            settings: settings.clone(),
            trial: None,
            producing: false,
            rewinding: false,
            pause: LanePause::default(),
            bound: ByteBound::unbounded(),
            progress: LaneProgress::new(status),
            polling: PollState::new(),
            checks: AssignmentChecks::default(),
            expulsion: None,
            #[cfg(test)]
            faults: super::tests::Faults::default(),
            lane,
            processor,
            observer,
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
                self.queues.drop_waiting();
                if !self.queues.is_begun() || self.rewinding || self.control.is_expired() {
                    break;
                }
            }
            if self.expulsion.is_some() {
                self.try_rejoin()?;
                self.report_status();
                std::thread::sleep(BUSY_POLL_INTERVAL);
                continue;
            }
            self.release_due();
            self.poll(stopping);
            if self.expulsion.is_some() {
                continue;
            }
            self.let_go_of_lost();
            self.end_trial();
            self.tell_shares();
            if !stopping {
                self.check_for_unassigned();
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
            if !stopping {
                self.commit_past_markers()?;
            }
            if self.queues.is_idle() {
                // Nothing else would end a pause of work that was taken away: nothing is fetched during a pause.
                self.pause.end_pause();
            }
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
        tracing::info!(
            commits = self.progress.commits,
            records = self.progress.records,
            "the lane has stopped"
        );
    }

    pub(super) fn client_error(&self, source: StreamError) -> LaneError {
        LaneError::Client { lane: self.lane.name.clone(), source: Box::new(source) }
    }

    /// Returns true while there is work and no pause.
    fn is_busy(&self) -> bool {
        let waiting = self.consumer.context().ownership.lock().waiting > 0;
        // Before a rewind it is unknown whether there is work.
        let has_work = waiting || self.rewinding || !self.queues.gather.is_empty() || !self.queues.is_idle();
        !self.pause.is_on() && has_work
    }

    fn report_status(&mut self) {
        let busy = self.is_busy();
        if !busy {
            self.progress.advanced = Instant::now();
        }
        self.observer.in_flight(self.queues.total_bytes());
        let partitions = self.consumer.context().ownership.lock().owned.len();
        let stalled = busy && self.progress.advanced.elapsed() >= self.lane.timings.stall;
        let has_joined = || partitions > 0 || membership::has_joined(&self.consumer);
        self.progress.send_status(partitions, self.pause.reason(), stalled, has_joined);
    }
}
