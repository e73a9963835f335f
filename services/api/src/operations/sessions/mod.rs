//! Sessions of apps.

pub mod get;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn session_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get::get_session))
}
