//! The API of owners.

pub mod delete;
pub mod get;
pub mod group;
pub mod paths;
pub mod upload;

use crate::store::APPS_LIMIT;
use axum::middleware::from_fn;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::lift_time_bound;
use unslide_api::feature::operation::{Access, Kind, Problem, check_texts};
use unslide_api::routes;

/// The most bytes of the name of an app or a version.
const NAME_BYTES: usize = 255;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .merge(OperationRouter::new().routes(routes!(upload::upload_owners)).layer(from_fn(lift_time_bound)))
        .routes(routes!(get::get_owners))
        .routes(routes!(paths::set_owner_paths))
        .routes(routes!(delete::delete_owners))
        .routes(routes!(group::get_group_owners))
}

/// Refuses one app too many.
fn refuse_app(app: &str) -> Problem {
    let detail = format!(
        "{app}: {APPS_LIMIT} apps of the tenant have owners, which is the limit; name one of them, or ask the operator"
    );
    Problem::new(Kind::LimitReached, detail)
}

/// Returns the app that a request names, or the only one of its key.
///
/// # Errors
/// [`Kind::InsufficientScope`] for another app, [`Kind::InvalidParameter`] without one.
fn require_app<P>(access: &Access<P>, app: Option<String>) -> Result<String, Problem> {
    let app = access.restrict_app(app)?.filter(|app| !app.is_empty());
    check_texts(Kind::InvalidParameter, NAME_BYTES, [("app", app.as_deref())])?;
    app.ok_or_else(|| {
        Problem::new(
            Kind::InvalidParameter,
            "app: name the bundle identifier of the app whose owners these are",
        )
    })
}
