//! Stored reports symbolicated again on demand.

mod create;
mod get;

pub use create::{BegunReprocess, NewReprocess, begin_reprocess};
pub use get::get_reprocess;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn reprocess_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(create::create_reprocess)).routes(routes!(get::get_reprocess))
}
