//! Groups: the reports of one bug.

pub mod get;
pub mod list;

use crate::operations::prelude::*;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list::list_groups)).routes(routes!(get::get_group))
}
