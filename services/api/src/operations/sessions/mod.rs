//! Sessions of apps, from which crash-free shares are computed.

pub mod get;
mod send;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send::send_sessions)).routes(routes!(get::get_session))
}
