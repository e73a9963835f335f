//! Symbols of operating systems: operators load them once, and every tenant's reports are answered
//! by them. The same as a tenant's own in all but who may touch them.

mod begin_upload;
mod complete_upload;
mod delete;
mod find_upload;
mod get;
mod list;
mod upload;
mod upload_part;
mod upload_status;

use crate::state::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of this folder that answer at once.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_system_symbols))
        .routes(routes!(begin_upload::begin_system_upload))
        .routes(routes!(find_upload::find_system_upload))
        .routes(routes!(get::get_system_symbols, delete::delete_system_symbols))
}

/// The routes that take files, for as long as they need.
pub fn upload_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(upload::upload_system_symbols))
        .routes(routes!(upload_part::upload_system_part))
        .routes(routes!(complete_upload::complete_system_upload))
}

/// The route that waits by wish of the client.
pub fn waiting_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(upload_status::get_system_upload))
}
