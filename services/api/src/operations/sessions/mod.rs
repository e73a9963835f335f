//! Sessions of apps.

pub mod get;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get::get_session))
}
