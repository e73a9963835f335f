//! The failure of one tenant or row among many.

use crate::{Result, StoreError};
use std::fmt::Display;

/// The first failure while owners are gone through, so that the others' turn comes all the same.
#[derive(Default)]
pub(crate) struct FirstFailure(Option<StoreError>);

impl FirstFailure {
    /// Logs a failure of one owner, or of a row of it, and keeps the first one. A deleted tenant waits for nothing any
    /// more, which is no failure.
    ///
    /// # Errors
    /// A failure of the connection: it would be everybody's.
    pub(crate) fn note(&mut self, owner: &impl Display, error: StoreError) -> Result<()> {
        match error {
            StoreError::TenantDeleted => {}
            error if error.is_connection() => return Err(error),
            error => {
                tracing::error!(tenant = %owner, ?error, "one tenant's reports could not be asked for; the others' are");
                self.0.get_or_insert(error);
            }
        }
        Ok(())
    }

    /// Returns `done` if nothing failed.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn unless_failed<T>(self, done: T) -> Result<T> {
        self.0.map_or(Ok(done), Err)
    }
}
