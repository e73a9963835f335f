//! The operations of erasures, for a tenant's administrators.

pub mod create;
mod get;
pub mod list;

use unslide_api::feature::operation::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The path of the operations.
pub const PATH: &str = "/v1/person-erasures";
/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a person's data may be of several apps";

/// Returns the routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(create::erase_person, list::list_person_erasures))
        .routes(routes!(get::get_person_erasure))
}
