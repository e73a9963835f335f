//! Having batches prepared: attempts noted, the processor asked, its answer taken.

use crate::lane::assignment::context::{LaneContext, Mark, TopicPartition, list_offsets, list_partitions};
use crate::lane::batch::gather::GatheredRecord;
use crate::lane::batch::slots::{Batch, BatchSlot, Prepared, Ready};
use crate::lane::engine::{Engine, STORE_ATTEMPT_TIMEOUT};
use crate::lane::fatal_records::attempts::{Attempts, GIVE_UP};
use crate::lane::{LaneError, Pause, Processor, Refusal};
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::time::Instant;

impl<P: Processor> Engine<P> {
    pub(in crate::lane) fn prepare_next(&mut self) {
        match std::mem::replace(&mut self.slot, BatchSlot::Empty) {
            BatchSlot::Waiting { batch, until }
                if Instant::now() >= until && self.may_begin(&batch.list_partitions()) =>
            {
                self.begin_batch(batch);
            }
            BatchSlot::Marking { batch, until } => {
                let unanswered = self.consumer.context().ownership.lock().unanswered;
                // Without an answer the batch goes on: a lost note costs at most one more try.
                if unanswered == 0 || Instant::now() >= until {
                    self.spawn_preparation(batch);
                } else {
                    self.slot = BatchSlot::Marking { batch, until };
                }
            }
            BatchSlot::Empty => {
                if let Some(batch) = self.next_batch() {
                    self.begin_batch(batch);
                }
            }
            other => self.slot = other,
        }
    }

    fn next_batch(&mut self) -> Option<Batch> {
        if self.backlog.is_empty() && !self.gather.is_due(self.idle_time()) {
            return None;
        }
        self.read_marks();
        let next = match self.backlog.front() {
            Some(batch) => batch.list_partitions(),
            // A record that goes alone is a batch if it is the first, and else in none with others.
            None => self.gather.first_partition().into_iter().collect(),
        };
        if !self.may_begin(&next) {
            return None;
        }
        if let Some(batch) = self.backlog.pop_front() {
            return Some(batch);
        }
        let ownership = self.consumer.context().ownership.lock();
        let limit = self.lane.batch.records;
        let held = self
            .gather
            .take_batch(|place| ownership.owned.get(place).is_some_and(|o| o.mark.is_alone(limit)));
        (!held.is_empty()).then_some(Batch { held })
    }

    /// Returns how long the lane has written nothing; zero while a batch is ready. A transaction that begins
    /// right after another meets its markers, and the client tries again only after 20 ms.
    pub(in crate::lane) fn idle_time(&self) -> Duration {
        if self.ready.is_empty() { self.written.elapsed() } else { Duration::ZERO }
    }

    /// Returns true if records of these partitions may be begun. If a partition is limited to one record per
    /// transaction, no other work may be under way: neither a write, nor another lane's work. A record that
    /// kills the process would be counted as an attempt of the others as well, time after time, until all
    /// were given up.
    fn may_begin(&mut self, next: &BTreeSet<TopicPartition>) -> bool {
        let limit = self.lane.batch.records;
        let alone: BTreeSet<TopicPartition> = {
            let ownership = self.consumer.context().ownership.lock();
            let alone = ownership.owned.iter().filter(|(_, owned)| owned.mark.is_alone(limit));
            alone.map(|(place, _)| place.clone()).collect()
        };
        // Partitions without a record here block no other, however long none comes.
        let written = || self.ready.iter().any(|ready| !alone.is_disjoint(&ready.list_partitions()));
        if alone.is_disjoint(next) && (alone.is_empty() || !written()) {
            return true;
        }
        if !self.ready.is_empty() {
            return false;
        }
        if self.trial.is_none() {
            self.trial = self.lane.suspects.try_one();
        }
        self.trial.is_some()
    }

    /// Allows other lanes to try their records once this lane has no work under way.
    pub(in crate::lane) fn end_trial(&mut self) {
        if matches!(self.slot, BatchSlot::Empty | BatchSlot::Waiting { .. }) && self.ready.is_empty() {
            self.trial = None;
        }
    }

    /// Reads the committed offsets' metadata of partitions that have received their first records.
    fn read_marks(&mut self) {
        let unread: Vec<TopicPartition> = {
            let ownership = self.consumer.context().ownership.lock();
            let unread = |mark: &Mark| matches!(mark, Mark::Unread);
            let places = ownership.owned.iter().filter(|(_, o)| o.touched && unread(&o.mark));
            places.map(|(place, _)| place.clone()).collect()
        };
        if unread.is_empty() {
            return;
        }
        // The first records have come, so the coordinator knows these offsets and answers at once.
        let asked = {
            let _call = self.control.watch.enter_call("read attempts");
            self.consumer.committed_offsets(list_partitions(&unread), STORE_ATTEMPT_TIMEOUT)
        };
        let list = match asked {
            Ok(list) => list,
            Err(e) => {
                tracing::debug!(error = %e, "the attempts could not be read");
                return;
            }
        };
        let mut ownership = self.consumer.context().ownership.lock();
        for element in list.elements() {
            let place: TopicPartition = (element.topic().into(), element.partition());
            let offset = match element.offset() {
                Offset::Offset(offset) if element.error().is_ok() => Some(offset),
                _ => None,
            };
            let attempts = Attempts::parse(element.metadata());
            if attempts.attempt > 1 {
                tracing::warn!(
                    topic = &*place.0,
                    partition = place.1,
                    attempts = attempts.attempt,
                    "earlier workers died at the first record of this partition"
                );
            }
            if let Some(owned) = ownership.owned.get_mut(&place) {
                owned.mark = Mark::Known { offset, attempts };
            }
        }
    }

    /// Writes an attempt for partitions that have none yet, and then starts to prepare the batch. Records
    /// that were taken from this lane while they were prepared before are dropped.
    fn begin_batch(&mut self, mut batch: Batch) {
        let limit = self.lane.batch.records;
        let mut notes = Vec::new();
        {
            let mut ownership = self.consumer.context().ownership.lock();
            batch.held.retain(|held| held.is_current(&ownership));
            if batch.held.is_empty() {
                return;
            }
            for held in &batch.held {
                let place = held.topic_partition();
                let Some(owned) = ownership.owned.get_mut(&place) else { continue };
                if let Mark::Known { offset, attempts } = owned.mark {
                    // Nothing committed yet: the first record's own offset.
                    let offset = offset.unwrap_or(held.record.at.offset);
                    // After a rewind it may be there already.
                    let noted = owned.noted == Some((offset, attempts));
                    let attempts = if noted { attempts } else { attempts.add_attempt(limit) };
                    owned.mark = Mark::Written { offset, attempts };
                    if !noted {
                        owned.noted = Some((offset, attempts));
                        notes.push((place, offset, attempts));
                    }
                }
            }
        }
        if let [(_, _, attempts)] = notes[..]
            && attempts.attempt >= GIVE_UP
            && batch.held.len() == 1
        {
            return self.refuse_batch(batch, &Refusal::KillsWorker { attempts: attempts.attempt });
        }
        if notes.is_empty() {
            return self.spawn_preparation(batch);
        }
        let entries = notes.iter().map(|(place, offset, attempts)| (place, *offset, *attempts));
        match list_offsets(entries) {
            Ok(list) => LaneContext::commit_attempts(&self.consumer, list),
            Err(e) => tracing::warn!(error = %e, "an attempt could not be noted"),
        }
        self.slot = BatchSlot::Marking { batch, until: Instant::now() + STORE_ATTEMPT_TIMEOUT };
    }

    fn refuse_batch(&mut self, batch: Batch, why: &Refusal) {
        let done = batch.held.iter().map(|held| self.processor.refuse_record(&held.record, why)).collect();
        self.ready.push_back(Ready::new(batch.held, done));
    }

    fn spawn_preparation(&mut self, batch: Batch) {
        let (sender, result) = mpsc::channel();
        self.processor.on_records_queued(!self.gather.is_empty() || !self.backlog.is_empty());
        let work = Arc::clone(&self.processor).prepare_batch(batch.records());
        let task = self.runtime.spawn(work);
        self.runtime.spawn(async move {
            let prepared = match task.await {
                Ok(Ok(done)) => Prepared::Done(done),
                Ok(Err(pause)) => Prepared::Paused(pause),
                Err(e) => Prepared::Panicked(e.to_string()),
            };
            // The lane may have dropped the batch in between.
            let _ = sender.send(prepared);
        });
        self.slot = BatchSlot::Preparing { batch, result };
    }

    /// Takes the prepared batch, if the batch before it is committed.
    pub(in crate::lane) fn take_prepared(&mut self) -> Result<(), LaneError> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        let BatchSlot::Preparing { result, .. } = &self.slot else { return Ok(()) };
        let prepared = match result.try_recv() {
            Ok(prepared) => prepared,
            Err(mpsc::TryRecvError::Empty) => return Ok(()),
            Err(mpsc::TryRecvError::Disconnected) => Prepared::Panicked("the runtime has ended".to_owned()),
        };
        let BatchSlot::Preparing { mut batch, .. } = std::mem::replace(&mut self.slot, BatchSlot::Empty)
        else {
            return Ok(());
        };
        match prepared {
            Prepared::Done(done) if (1..=batch.held.len()).contains(&done.len()) => {
                if !self.unwritten {
                    self.paused = None;
                }
                let rest = batch.held.split_off(done.len());
                if !rest.is_empty() {
                    self.backlog.push_front(Batch { held: rest });
                }
                self.ready.push_back(Ready::new(batch.held, done));
            }
            Prepared::Done(done) => {
                let lane = self.lane.name.clone();
                return Err(LaneError::Miscount { lane, got: done.len(), asked: batch.held.len() });
            }
            Prepared::Paused(pause) => self.pause_lane(batch, pause),
            Prepared::Panicked(detail) if self.control.is_stop_requested() => {
                tracing::warn!("a batch was given up while stopping: {detail}");
            }
            Prepared::Panicked(detail) if batch.held.len() == 1 => {
                tracing::error!("preparing {:?} panicked: {detail}", batch.held[0].record.at);
                self.refuse_batch(batch, &Refusal::Panicked { detail });
            }
            Prepared::Panicked(detail) => {
                tracing::error!(records = batch.held.len(), "preparing a batch panicked: {detail}");
                // Goes before later records of the same partitions.
                for held in batch.held.into_iter().rev() {
                    self.backlog.push_front(Batch { held: vec![held] });
                }
            }
        }
        Ok(())
    }

    fn pause_lane(&mut self, batch: Batch, pause: Pause) {
        tracing::warn!(wait_seconds = pause.wait.as_secs_f64(), "the lane pauses: {}", pause.reason);
        self.paused = Some(pause.reason);
        // Waiting is no attempt: the process lives.
        let mut written = Vec::new();
        {
            let mut ownership = self.consumer.context().ownership.lock();
            let touched: BTreeSet<TopicPartition> =
                batch.held.iter().map(GatheredRecord::topic_partition).collect();
            for place in touched {
                if let Some(owned) = ownership.owned.get_mut(&place)
                    && let Mark::Written { offset, attempts } = owned.mark
                {
                    owned.mark = Mark::Known { offset: Some(offset), attempts: attempts.taken_back() };
                    written.push((place, offset, attempts));
                }
            }
        }
        let entries = written.iter().map(|(place, offset, attempts)| (place, *offset, attempts.taken_back()));
        match list_offsets(entries) {
            Ok(list) if list.count() > 0 => LaneContext::commit_attempts(&self.consumer, list),
            Ok(_) => {}
            Err(e) => tracing::warn!(error = %e, "an attempt could not be taken back"),
        }
        self.slot = BatchSlot::Waiting { batch, until: Instant::now() + pause.wait };
    }
}
