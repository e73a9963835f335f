//! States of batches between gathering and their commit.

use crate::lane::assignment::context::TopicPartition;
use crate::lane::batch::gather::GatheredRecord;
use crate::lane::{Done, Pause};
use crate::record::{OutRecord, Record};
use std::collections::BTreeSet;
use std::sync::mpsc;
use tokio::time::Instant;

/// Records that go through preparation and transaction together.
#[derive(Debug)]
pub(in crate::lane) struct Batch {
    pub held: Vec<GatheredRecord>,
}

impl Batch {
    pub(in crate::lane) fn records(&self) -> Vec<Record> {
        self.held.iter().map(|held| held.record.clone()).collect()
    }

    pub(in crate::lane) fn bytes(&self) -> usize {
        self.held.iter().map(|held| held.record.size()).sum()
    }

    /// Returns the partitions of its records.
    pub(in crate::lane) fn list_partitions(&self) -> BTreeSet<TopicPartition> {
        self.held.iter().map(GatheredRecord::topic_partition).collect()
    }
}

/// The result of preparing.
pub(in crate::lane) enum Prepared {
    Done(Vec<Done>),
    Paused(Pause),
    Panicked(String),
}

/// The batch with outputs that are being made.
pub(in crate::lane) enum BatchSlot {
    Empty,
    /// Its attempts are on their way to the group's coordinator.
    Marking {
        batch: Batch,
        until: Instant,
    },
    /// The processor is at work.
    Preparing {
        batch: Batch,
        result: mpsc::Receiver<Prepared>,
    },
    /// It could not be prepared and waits for its next try.
    Waiting {
        batch: Batch,
        until: Instant,
    },
}

impl BatchSlot {
    pub(in crate::lane) fn is_preparing(&self) -> bool {
        matches!(self, BatchSlot::Preparing { .. })
    }

    pub(in crate::lane) fn bytes(&self) -> usize {
        match self {
            BatchSlot::Empty => 0,
            BatchSlot::Marking { batch, .. }
            | BatchSlot::Preparing { batch, .. }
            | BatchSlot::Waiting { batch, .. } => batch.bytes(),
        }
    }
}

/// A batch with outputs that are ready to be written.
pub(in crate::lane) struct Ready {
    pub held: Vec<GatheredRecord>,
    /// One for each of `held`.
    pub done: Vec<Done>,
    /// Transactions that were aborted so far.
    pub aborted: u32,
    /// Its outputs were refused once and replaced already.
    pub replaced: bool,
    /// The replacement was refused as well and is written without its bytes now.
    pub bare: bool,
    /// When the next transaction may begin.
    pub not_before: Option<Instant>,
    /// Instead of that the records are prepared again.
    pub again: bool,
}

impl Ready {
    pub(in crate::lane) fn new(held: Vec<GatheredRecord>, done: Vec<Done>) -> Ready {
        Ready { held, done, aborted: 0, replaced: false, bare: false, not_before: None, again: false }
    }

    pub(in crate::lane) fn bytes(&self) -> usize {
        self.held.iter().map(|held| held.record.size()).sum()
    }

    /// Returns the partitions of its records.
    pub(in crate::lane) fn list_partitions(&self) -> BTreeSet<TopicPartition> {
        self.held.iter().map(GatheredRecord::topic_partition).collect()
    }

    /// Returns the bytes of its outputs.
    pub(in crate::lane) fn output_bytes(&self) -> usize {
        self.done.iter().map(output_bytes).sum()
    }

    /// Keeps as many of the first records as have at most `bytes` of outputs, at least one, and returns
    /// the others.
    pub(in crate::lane) fn cut_off(&mut self, bytes: usize) -> Option<Ready> {
        let mut sum = 0_usize;
        let fits = self.done.iter().take_while(|done| {
            sum = sum.saturating_add(output_bytes(done));
            sum <= bytes
        });
        let at = fits.count().max(1);
        (at < self.held.len()).then(|| Ready::new(self.held.split_off(at), self.done.split_off(at)))
    }

    /// Cuts the batch before its item `at`, which must be neither the first nor past the end.
    pub(in crate::lane) fn split_at(mut self, at: usize) -> (Ready, Ready) {
        let held = self.held.split_off(at);
        let done = self.done.split_off(at);
        (Ready::new(self.held, self.done), Ready::new(held, done))
    }
}

fn output_bytes(done: &Done) -> usize {
    done.outputs.iter().map(OutRecord::size).sum()
}
