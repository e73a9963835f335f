//! Measurements that apps send.

mod send;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send::send_metrics))
}
