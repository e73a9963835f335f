//! The API of a tenant's caps, for its administrators.

pub mod get;
pub mod set;

use crate::store::AppCap;
use serde::Serialize;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "the caps of bodies are for all apps of a tenant";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get::get_body_cap, set::set_body_cap))
}

/// The caps of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BodyCaps {
    /// The caps by app. None: the bodies of all reports are kept.
    #[schema(max_items = 51)]
    pub items: Vec<AppCap>,
}
