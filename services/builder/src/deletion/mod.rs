//! Deleting objects: one that cannot be deleted keeps no other.

pub(crate) mod erase;
pub(crate) mod parts;
pub(crate) mod purge;

use crate::builder::Builder;
use crate::failure::JobFailure;
use unslide_artifacts::StorageError;
use unslide_artifacts::keys::ObjectKey;
use unslide_runtime::causes;

/// Deletions in a row that fail for now until object storage counts as unavailable.
const FAILURES_IN_A_ROW: u32 = 5;

/// Deletes objects and remembers which could not be.
pub(crate) struct Deletion<'b> {
    builder: &'b Builder,
    in_a_row: u32,
    failed: u64,
    first: Option<String>,
}

impl<'b> Deletion<'b> {
    pub(crate) fn new(builder: &'b Builder) -> Deletion<'b> {
        Deletion { builder, in_a_row: 0, failed: 0, first: None }
    }

    /// Deletes an object; false where it could not be deleted.
    pub(crate) async fn delete(&mut self, key: &ObjectKey) -> Result<bool, JobFailure> {
        let deleted = self.builder.objects.delete(key).await;
        self.note(deleted)
    }

    /// Notes how a deletion ended; false where it failed.
    pub(crate) fn note(&mut self, deleted: Result<(), StorageError>) -> Result<bool, JobFailure> {
        let Err(error) = deleted else {
            self.in_a_row = 0;
            return Ok(true);
        };
        let detail = causes(&error);
        tracing::warn!(detail, "an object could not be deleted");
        self.in_a_row += u32::from(error.is_transient());
        if self.in_a_row >= FAILURES_IN_A_ROW {
            return Err(error.into());
        }
        self.failed += 1;
        self.first.get_or_insert(detail);
        Ok(false)
    }

    /// True where all that it was asked for is deleted.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed == 0
    }

    /// Fails where an object is left.
    pub(crate) fn end(self) -> Result<(), JobFailure> {
        match self.first {
            None => Ok(()),
            Some(first) => {
                let failed = self.failed;
                Err(JobFailure::Object(format!("{failed} objects could not be deleted, the first: {first}")))
            }
        }
    }
}
