//! The API of changed functions.

mod builds_diff;
mod group_changes;
mod set_commit;

use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(builds_diff::diff_two_builds))
        .routes(routes!(group_changes::get_group_changes))
        .routes(routes!(set_commit::set_build_commit))
}
