//! Live events: what happens to a tenant's reports, groups and symbols, as it happens.

mod follow;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(follow::follow_events))
}
