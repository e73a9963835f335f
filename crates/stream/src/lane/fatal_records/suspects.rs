//! Suspect records, of which one may have killed the process, and the trial of one of them by a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the lanes of one process share. While one tries a record that may kill the process, the others
/// try none of theirs: each death would be counted as an attempt of all of them.
#[derive(Clone, Debug, Default)]
pub struct Suspects(Arc<AtomicBool>);

/// The only trial of its process; it ends when it is dropped.
#[derive(Debug)]
pub(in crate::lane) struct Trial(Suspects);

impl Suspects {
    /// Begins a trial, unless another lane's is under way.
    pub(in crate::lane) fn try_one(&self) -> Option<Trial> {
        let free = self.0.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        free.ok().map(|_| Trial(self.clone()))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_tried_at_a_time() {
        let suspects = Suspects::default();
        let other = suspects.clone();
        let trial = suspects.try_one();
        assert!(trial.is_some() && other.try_one().is_none());
        drop(trial);
        assert!(other.try_one().is_some());
    }
}
