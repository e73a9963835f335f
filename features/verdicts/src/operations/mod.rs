//! The API of verdicts.

mod group_commonalities;
mod group_verdict;
mod regression_rule;
mod version_check;

use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(group_verdict::get_group_verdict))
        .routes(routes!(group_commonalities::get_group_commonalities))
        .routes(routes!(version_check::check_version))
        .routes(routes!(regression_rule::get_regression_rule, regression_rule::set_regression_rule))
}
