//! The operations of public keys, for a tenant's administrators.

pub mod change;
pub mod create;
pub mod erase;
pub mod get;
pub mod list;

use crate::Ingest;
use axum::Extension;
use std::sync::Arc;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::{Kind, Problem, check_texts};
use unslide_api::routes;

/// The state of the feature, as operations and pages take it.
pub type IngestExtension = Extension<Arc<Ingest>>;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::create_public_key, list::list_public_keys))
        .routes(routes!(get::get_public_key, change::change_public_key))
        .routes(routes!(erase::erase_public_key_reports))
}

/// The most bytes of an id in a path; more can't match.
const MAX_ID_BYTES: usize = 64;

fn check_id(id: &str) -> Result<(), Problem> {
    check_texts(Kind::InvalidParameter, MAX_ID_BYTES, [("id", Some(id))])
}

/// Returns the problem that the tenant has no such key.
fn no_key() -> Problem {
    Problem::new(Kind::NotFound, "there is no such public key")
}
