//! Attempts of jobs whose leases this process lost without having died.
//!
//! An attempt is counted when a job is leased, so that a builder that dies leaves its count behind. A builder that lives
//! and cannot reach the database loses the lease as well: it takes the attempt back once the database answers. So only
//! deaths add up, however many outages there are.

use parking_lot::Mutex;
use std::sync::Arc;
use unslide_store::jobs::{self, JobLease};
use unslide_store::{Store, StoreError};

/// The attempts that this process has to take back.
#[derive(Clone, Default)]
pub(crate) struct LostAttempts(Arc<Mutex<Vec<JobLease>>>);

/// One counted attempt. Dropped before its end was recorded, it is to be taken back, unless the job panicked.
pub(crate) struct CountedAttempt {
    lost: LostAttempts,
    job: Option<JobLease>,
}

impl LostAttempts {
    /// Returns the attempt of a job that was leased.
    pub(crate) fn begin_attempt(&self, job: &JobLease) -> CountedAttempt {
        CountedAttempt { lost: self.clone(), job: Some(job.clone()) }
    }

    /// Takes the attempts back.
    ///
    /// # Errors
    /// The database fails; the attempts stay for the next call.
    pub(crate) async fn take_back(&self, store: &Store) -> Result<(), StoreError> {
        loop {
            // No lock is held while the database is asked.
            let Some(job) = self.0.lock().pop() else { return Ok(()) };
            if let Err(error) = jobs::take_attempt_back(store, &job).await {
                self.0.lock().push(job);
                return Err(error);
            }
            tracing::info!(job.id = %job.id, "a lost lease was no death: its attempt does not count");
        }
    }
}

impl CountedAttempt {
    /// Notes that the end of the attempt is in the database, or that it was taken back there.
    pub(crate) fn settle(&mut self) {
        self.job = None;
    }

    /// Notes that the attempt counts again.
    pub(crate) fn count_again(&mut self, job: &JobLease) {
        self.job = Some(job.clone());
    }
}

impl Drop for CountedAttempt {
    fn drop(&mut self) {
        if let Some(job) = self.job.take().filter(|_| !std::thread::panicking()) {
            self.lost.0.lock().push(job);
        }
    }
}
