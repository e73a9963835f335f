//! What the retry lane of a test holds back, and whether it has anything left to do.

use super::worker_fixture::TestClock;
use crate::lanes::retry::Retry;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_stream::lane::{Done, Pause, Processor, Refusal, TopicShare};
use unslide_stream::{OutRecord, Record, RecordRef};

/// How soon a record that is held back is looked at again while the test's clock stands still. The lane waits by the
/// real clock, whose time says nothing then.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(300);

/// What the retry lanes of one test have done.
#[derive(Default)]
pub struct RetryProgress {
    due: Mutex<usize>,
    /// Due records that are not committed.
    uncommitted: Mutex<BTreeSet<RecordRef>>,
    /// How often each partition was held back.
    looks: Mutex<BTreeMap<(Arc<str>, i32), u32>>,
}

impl RetryProgress {
    /// Waits until every due record is committed, and the next records of this number of partitions are held back. Each
    /// is looked at twice, so that the second look begins after this call.
    pub async fn wait_until_held(&self, partitions: usize) {
        self.looks.lock().clear();
        self.wait_until(|| {
            let held = self.looks.lock().values().filter(|looks| **looks >= 2).count();
            held >= partitions && self.uncommitted.lock().is_empty()
        })
        .await;
    }

    /// Waits until this number of further records were due.
    pub async fn wait_for_due(&self, records: usize) {
        let wanted = *self.due.lock() + records;
        self.wait_until(|| *self.due.lock() >= wanted).await;
    }

    async fn wait_until(&self, is_reached: impl Fn() -> bool) {
        let reached = async {
            while !is_reached() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(PROGRESS_TIMEOUT, reached).await;
        assert!(
            reached.is_ok(),
            "{:?} are not committed, {:?} held",
            self.uncommitted.lock(),
            self.looks.lock()
        );
    }
}

/// The retry lane's processor, and a record of what it does.
pub struct WatchedRetry {
    pub retry: Arc<Retry>,
    pub clock: Arc<TestClock>,
    pub progress: Arc<RetryProgress>,
}

impl Processor for WatchedRetry {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        self.retry.clone().prepare_batch(batch)
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        let now = Instant::now();
        let Some(until) = self.retry.not_before(record).filter(|until| *until > now) else {
            *self.progress.due.lock() += 1;
            self.progress.uncommitted.lock().insert(record.at.clone());
            return None;
        };
        let partition = (record.at.topic.clone(), record.at.partition);
        *self.progress.looks.lock().entry(partition).or_default() += 1;
        Some(if self.clock.is_standing() { until.min(now + LOOK_INTERVAL) } else { until })
    }

    fn on_records_queued(&self, waits: bool) {
        self.retry.on_records_queued(waits);
    }

    fn on_assigned(&self, shares: &[TopicShare]) {
        self.retry.on_assigned(shares);
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        self.retry.refuse_record(record, why)
    }

    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord> {
        self.retry.account_records(done)
    }

    fn on_committed(&self, records: &[&Record], done: &[&Done]) {
        self.retry.on_committed(records, done);
        let mut uncommitted = self.progress.uncommitted.lock();
        for record in records {
            uncommitted.remove(&record.at);
        }
    }
}
