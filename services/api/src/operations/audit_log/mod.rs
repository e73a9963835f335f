//! The audit log: who did what.

mod list;

pub use list::list_audit_log;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn audit_log_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(list::list_audit_log))
}
