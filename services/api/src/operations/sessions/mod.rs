//! Sessions of apps, from which shares without a crash are counted.

mod send;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send::send_sessions))
}
