//! Skips records that cannot be stored for their own reasons, and limits how many are skipped.
//!
//! A record that makes the indexer panic, or that the database refuses or takes too long for, must not block
//! the others. It becomes a dead letter only after it has failed three times on its own while others succeed.
//! If many fail, or records of several tenants fail for one reason, the cause is not in the records. Then the
//! reader stops and an operator decides.

use crate::failure::Failure;
use crate::failure::IndexerError;
use crate::metrics::{Metrics, ReaderLabel};
use crate::records::Item;
use crate::topics::Positions;
use parking_lot::Mutex;
use std::sync::Arc;
use time::Duration;
use unslide_model::TenantId;
use unslide_store::{Store, dead_letters};
use unslide_stream::RecordRef;

/// Period for the limit below.
const SKIP_WINDOW: Duration = Duration::minutes(10);
/// Number of records that all indexers together may skip in that period.
const SKIP_LIMIT: u64 = 20;

/// The record at which a reader stopped.
#[derive(Clone, Debug)]
struct Stopped {
    at: RecordRef,
    /// Set if the record may not be skipped, however often it is tried: only its success ends the stop.
    latched: Option<String>,
}

/// Decides which records of one reader are skipped. Cheap to clone.
#[derive(Clone)]
pub struct SkipLimit {
    store: Store,
    metrics: Metrics,
    reader: ReaderLabel,
    stopped: Arc<Mutex<Option<Stopped>>>,
}

impl SkipLimit {
    /// Creates the limit of one reader, which is not stopped.
    pub fn new(store: Store, metrics: Metrics, reader: &ReaderLabel) -> SkipLimit {
        metrics.set_stopped(reader, false);
        SkipLimit { store, metrics, reader: reader.clone(), stopped: Arc::default() }
    }

    /// Allows a failed record to be skipped.
    ///
    /// # Errors
    /// Returns [`IndexerError::NotSkipped`] if too many records were skipped in the last ten minutes, or
    /// one of another tenant for the same reason.
    pub async fn admit_record(&self, item: &Item, failure: &Failure) -> Result<(), IndexerError> {
        let latched = {
            let stopped = self.stopped.lock();
            stopped
                .as_ref()
                .filter(|stopped| stopped.at == item.at)
                .and_then(|stopped| stopped.latched.clone())
        };
        if let Some(why) = latched {
            return Err(self.refuse_record(&item.at, failure, why, true));
        }
        let since = self.store.clock().now() - SKIP_WINDOW;
        let seen = dead_letters::store_failures(&self.store, since, failure.reason).await?;
        let other = |tenant: &TenantId| seen.tenants.iter().any(|seen| seen != tenant.as_str());
        let why = if seen.recent >= SKIP_LIMIT {
            format!("{SKIP_LIMIT} records were skipped in the last ten minutes")
        } else if item.tenant.as_ref().is_some_and(other) {
            "a record of another tenant failed for the same reason in the last ten minutes".to_owned()
        } else {
            tracing::error!(
                kafka.topic = &*item.at.topic,
                kafka.partition = item.at.partition,
                kafka.offset = item.at.offset,
                reason = failure.reason,
                error = failure.detail,
                "a record can't be stored and becomes a dead letter"
            );
            return Ok(());
        };
        Err(self.refuse_record(&item.at, failure, why, true))
    }

    /// Returns the error for a record that is not skipped because no other record succeeds.
    pub fn refuse_alone(&self, at: &RecordRef, failure: &Failure) -> IndexerError {
        let why = "no other record that was read with it could be stored either".to_owned();
        self.refuse_record(at, failure, why, false)
    }

    fn refuse_record(&self, at: &RecordRef, failure: &Failure, why: String, latched: bool) -> IndexerError {
        tracing::error!(
            kafka.topic = &*at.topic,
            kafka.partition = at.partition,
            kafka.offset = at.offset,
            reason = failure.reason,
            error = failure.detail,
            "a record can't be stored and is not skipped"
        );
        let latched = latched.then(|| why.clone());
        *self.stopped.lock() = Some(Stopped { at: at.clone(), latched });
        self.metrics.set_stopped(&self.reader, true);
        IndexerError::NotSkipped { reason: failure.reason, why }
    }

    /// Ends the stop once the record that caused it is stored, or another indexer reads it.
    pub fn review_stop(&self, positions: &Positions) {
        let mut stopped = self.stopped.lock();
        let waits = stopped.as_ref().is_some_and(|stopped| {
            let place = (stopped.at.topic.clone(), stopped.at.partition);
            positions.get(&place).is_some_and(|position| position.next_offset <= stopped.at.offset)
        });
        if !waits && stopped.take().is_some() {
            self.metrics.set_stopped(&self.reader, false);
        }
    }
}
