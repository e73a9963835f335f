//! The operations of erasures, for a tenant's administrators.

pub mod create;
mod get;
pub mod list;

use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// The path of the operations.
pub const PATH: &str = "/v1/person-erasures";
/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a person's data may be of several apps";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::erase_person, list::list_person_erasures))
        .routes(routes!(get::get_person_erasure))
}
