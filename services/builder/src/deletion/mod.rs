//! Deletes objects. An object that cannot be deleted does not block the others.

pub(crate) mod erase;
pub(crate) mod parts;
pub(crate) mod purge;

use crate::failure::JobFailure;
use crate::storage::JobStorage;
use unslide_artifacts::StorageError;
use unslide_artifacts::keys::ObjectKey;
use unslide_model::format_causes;

/// Number of consecutive transient failures after which object storage counts as unavailable.
const FAILURES_IN_A_ROW: u32 = 5;

/// Deletes objects and remembers the failures.
pub(crate) struct Deletion<'b> {
    storage: &'b JobStorage,
    in_a_row: u32,
    failed: u64,
    first: Option<String>,
}

impl<'b> Deletion<'b> {
    pub(crate) fn new(storage: &'b JobStorage) -> Deletion<'b> {
        Deletion { storage, in_a_row: 0, failed: 0, first: None }
    }

    /// Deletes an object. Returns false if it could not be deleted.
    pub(crate) async fn delete_object(&mut self, key: &ObjectKey) -> Result<bool, JobFailure> {
        let deleted = self.storage.objects.delete(key).await;
        self.record_result(deleted)
    }

    /// Records the result of a deletion. Returns false if it failed.
    pub(crate) fn record_result(&mut self, deleted: Result<(), StorageError>) -> Result<bool, JobFailure> {
        let Err(error) = deleted else {
            self.in_a_row = 0;
            return Ok(true);
        };
        let detail = format_causes(&error);
        tracing::warn!(detail, "an object could not be deleted");
        self.in_a_row += u32::from(error.is_transient());
        if self.in_a_row >= FAILURES_IN_A_ROW {
            return Err(error.into());
        }
        self.failed += 1;
        self.first.get_or_insert(detail);
        Ok(false)
    }

    /// Returns true if every object so far was deleted.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed == 0
    }

    /// Returns an error if an object could not be deleted.
    pub(crate) fn into_result(self) -> Result<(), JobFailure> {
        match self.first {
            None => Ok(()),
            Some(first) => {
                let failed = self.failed;
                Err(JobFailure::Object(format!("{failed} objects could not be deleted, the first: {first}")))
            }
        }
    }
}
