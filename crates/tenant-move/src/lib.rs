//! Moves a tenant from one cell to another: `unslide tenant move`.
//!
//! The rows and objects are copied while the old cell serves the tenant. Triggers note which rows change. Then no row may change for
//! a moment: the jobs, the last changes and the last objects are copied, the numbers of rows are compared, and the new cell serves the
//! tenant. At the end the old cell erases what it has.
//!
//! Copied rows that are due cause nothing in the new cell before the switch: the tenant is suspended there, and no process
//! may take such a row to work on it.
//!
//! Each step can be repeated. If the process ends at any of them, the next call continues.

#![warn(missing_docs)]

mod aborting;
mod before_copy;
mod catalog;
mod copying;
mod error;
mod examination;
mod freeze;
mod history;
mod leaving;
mod notes;
mod objects;
mod observer;
mod partitions;
mod piping;
mod places;
mod sessions;
mod steps;
mod transactions;
mod triggers;

pub use error::TenantMoveError;
pub use examination::{Examination, Obstacles, TableSize};
pub use observer::{MoveObserver, Reached, Step};

use std::time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_model::TenantId;
use unslide_store::Store;

/// A cell, as its owner reaches it.
pub struct CellServers {
    /// Its name in the directory.
    pub name: String,
    /// Its database. The login is that of the tables' owner. With the history of its settings, from which rows come back.
    pub store: Store,
    /// Its objects.
    pub objects: ObjectStore,
    /// The prefix of its topics.
    pub topic_prefix: String,
}

/// Limits of a move. Tests choose others than the default.
#[derive(Clone, Copy, Debug)]
pub struct MoveLimits {
    /// Rows that one transaction copies.
    pub piece_rows: u64,
    /// Time for which no row may change.
    pub freeze: Duration,
    /// How often the rows are frozen before the move is given up.
    pub freezes: u32,
    /// How long the last records and messages of the old cell are waited for, and the erasure.
    pub ending: Duration,
    /// An object that was written at most this long before its copy is copied again: the clocks of two object stores may differ.
    pub clock_margin: Duration,
}

impl Default for MoveLimits {
    fn default() -> MoveLimits {
        MoveLimits {
            piece_rows: 20_000,
            freeze: Duration::from_secs(10),
            freezes: 5,
            ending: Duration::from_secs(3600),
            clock_margin: Duration::from_secs(60),
        }
    }
}

/// The move of one tenant.
pub struct Move<'m> {
    /// The tenant.
    pub tenant: TenantId,
    /// The cell that has it.
    pub from: &'m CellServers,
    /// The cell that gets it.
    pub to: &'m CellServers,
    /// The database with the directory of cells. The login is that of the tables' owner.
    pub directory: &'m Store,
    /// Limits of time and size.
    pub limits: MoveLimits,
    /// Hears about each step.
    pub observer: &'m dyn MoveObserver,
}

impl Move<'_> {
    fn say(&self, line: &str) {
        self.observer.say(line);
    }

    async fn reach(&self, step: Step) {
        self.observer.reach(step).await;
    }
}

/// Moves the tenant, or continues a move that was interrupted. Ends when the old cell has erased the tenant's rows and objects.
///
/// # Errors
/// Returns the reason why the tenant cannot be moved, or what failed. Unless [`TenantMoveError::is_switched`] says otherwise, the old cell
/// still serves the tenant.
pub async fn move_tenant(job: &Move<'_>) -> Result<(), TenantMoveError> {
    steps::run_steps(job).await
}

/// Finds what is in the way of a move, as far as the databases say.
///
/// # Errors
/// A server fails.
pub async fn find_obstacles(job: &Move<'_>) -> Result<Obstacles, TenantMoveError> {
    examination::find_obstacles(job).await
}

/// Counts what a move would copy, and changes nothing. It reads all rows of the tenant.
///
/// # Errors
/// A server fails.
pub async fn examine_move(job: &Move<'_>) -> Result<Examination, TenantMoveError> {
    examination::examine_move(job).await
}

/// Ends a move before the switch: the old cell serves the tenant as before, and the new one has nothing of it.
///
/// # Errors
/// [`TenantMoveError::Switched`] if the new cell serves the tenant already, or a server fails.
pub async fn abort_move(job: &Move<'_>) -> Result<(), TenantMoveError> {
    aborting::abort_move(job).await
}
