//! The ways in which a move fails.

use unslide_artifacts::StorageError;
use unslide_model::TenantId;
use unslide_store::StoreError;

/// An error of a move.
#[derive(Debug, thiserror::Error)]
pub enum TenantMoveError {
    /// A database failed.
    #[error("PostgreSQL of the cell {cell} failed while {action}")]
    Database {
        /// The cell.
        cell: String,
        /// The work that failed.
        action: String,
        /// The failure.
        #[source]
        source: sqlx::Error,
    },
    /// A function of the store failed.
    #[error("PostgreSQL failed")]
    Store(#[from] StoreError),
    /// A bucket failed.
    #[error("object storage failed")]
    Storage(#[from] StorageError),
    /// The tenant cannot be moved.
    #[error("the tenant {tenant} cannot move to {cell}: {reason}")]
    Refused {
        /// The tenant.
        tenant: TenantId,
        /// The cell that would get it.
        cell: String,
        /// The reason.
        reason: String,
    },
    /// Another process moves the tenant.
    #[error("another process moves the tenant {tenant}: wait until it ends")]
    Busy {
        /// The tenant.
        tenant: TenantId,
    },
    /// A table has other rows in the new cell than in the old one.
    #[error(
        "the table {table} has {from} rows of the tenant in the old cell and {to} in the new one; the old cell serves the tenant as \
         before. Run the command again; if the numbers differ again, end the move with --abort"
    )]
    Unequal {
        /// The table.
        table: String,
        /// Rows in the old cell.
        from: i64,
        /// Rows in the new cell.
        to: i64,
    },
    /// The last step took longer than rows may be frozen.
    #[error("the last copy did not end in time: {detail}; the old cell serves the tenant as before")]
    Late {
        /// The part that took so long.
        detail: String,
    },
    /// The tenant was moved already.
    #[error(
        "the cell {cell} serves the tenant {tenant} already: the move cannot be aborted. Run it again without --abort to end it"
    )]
    Switched {
        /// The tenant.
        tenant: TenantId,
        /// The cell that has it.
        cell: String,
    },
    /// The new cell serves the tenant, and the old one is not done.
    #[error(
        "the cell {cell} serves the tenant, but the old cell {waits_for}. Look at its builder and indexer, and run the command again"
    )]
    Unfinished {
        /// The cell that has the tenant.
        cell: String,
        /// The work that is not done.
        waits_for: String,
    },
    /// A locked table or a value that no move can handle.
    #[error("{0}")]
    Other(String),
}

impl TenantMoveError {
    /// Returns true if the new cell serves the tenant.
    #[must_use]
    pub fn is_switched(&self) -> bool {
        matches!(self, TenantMoveError::Switched { .. } | TenantMoveError::Unfinished { .. })
    }

    fn code(&self) -> Option<String> {
        let (TenantMoveError::Database { source, .. } | TenantMoveError::Store(StoreError::Database(source))) =
            self
        else {
            return None;
        };
        source.as_database_error().and_then(sqlx::error::DatabaseError::code).map(|code| code.to_string())
    }

    /// Returns true if a row refers to one that is not copied yet, has a value of one that is gone in the old cell, or
    /// has no partition yet. After the noted changes it goes in.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.code().is_some_and(|code| matches!(code.as_str(), "23503" | "23505" | "23514"))
    }

    /// Returns true if a lock was not to be had in time, or a statement took too long.
    pub(crate) fn is_locked(&self) -> bool {
        self.code().is_some_and(|code| matches!(code.as_str(), "55P03" | "40P01" | "57014" | "40001"))
    }
}

/// Names the cell and the work of a failed statement.
pub(crate) trait During<T> {
    fn during(self, cell: &str, action: impl Into<String>) -> Result<T, TenantMoveError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, cell: &str, action: impl Into<String>) -> Result<T, TenantMoveError> {
        self.map_err(|source| TenantMoveError::Database {
            cell: cell.to_owned(),
            action: action.into(),
            source,
        })
    }
}
