//! The failure of one tenant or row among many.

use crate::{Result, StoreError};
use std::fmt::Display;
use unslide_model::format_causes;

/// The first failure among several owners, so that the others are processed all the same.
#[derive(Default)]
pub(crate) struct FirstFailure(Option<StoreError>);

impl FirstFailure {
    /// Logs a failure of one owner, or of a row of it, and keeps the first one. The deletion of a tenant is
    /// no failure: it waits for nothing any more. Neither is its move to another cell, which does the work later.
    ///
    /// # Errors
    /// An outage of the database, because it concerns every owner.
    pub(crate) fn record_failure(&mut self, owner: &impl Display, error: StoreError) -> Result<()> {
        match error {
            StoreError::TenantDeleted | StoreError::TenantMoving => {}
            error if error.is_outage() => return Err(error),
            error => {
                tracing::error!(tenant = %owner, error = format_causes(&error), "one tenant's reports could not be requested; those of other tenants are");
                self.0.get_or_insert(error);
            }
        }
        Ok(())
    }

    /// Returns `done` if no owner failed.
    ///
    /// # Errors
    /// Returns the first failure that was recorded.
    pub(crate) fn into_result<T>(self, done: T) -> Result<T> {
        self.0.map_or(Ok(done), Err)
    }
}
