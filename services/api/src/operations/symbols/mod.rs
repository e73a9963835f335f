//! Symbols: uploads and their objects.

pub mod begin_upload;
mod check;
mod complete_upload;
pub mod delete;
mod find_upload;
mod get;
pub mod list;
pub mod upload;
mod upload_part;
mod upload_status;

use crate::openapi::for_operators;
use crate::operations::prelude::*;
use crate::requests::access::Reach;
use unslide_model::DebugId;
use unslide_store::{OwnerTx, symbols};

/// Returns the routes that answer at once, for a tenant's symbols and for the system's symbols, which serve
/// every tenant's reports.
pub fn symbol_routes() -> OperationRouter {
    for_both_owners(|| {
        OperationRouter::new()
            .routes(routes!(list::list_symbols))
            .routes(routes!(begin_upload::begin_upload))
            .routes(routes!(find_upload::find_upload))
            .routes(routes!(get::get_symbols, delete::delete_symbols))
            .routes(routes!(check::check_symbols))
    })
}

/// Returns the routes that receive files; they have their own time limit.
pub fn upload_routes() -> OperationRouter {
    for_both_owners(|| {
        OperationRouter::new()
            .routes(routes!(upload::upload_symbols))
            .routes(routes!(upload_part::upload_part))
            .routes(routes!(complete_upload::complete_upload))
    })
}

/// Returns the route that waits if its client asks for it.
pub fn waiting_routes() -> OperationRouter {
    for_both_owners(|| OperationRouter::new().routes(routes!(upload_status::get_upload)))
}

/// Returns the same operations for a tenant's symbols, under `/v1`, and for the system's, under `/v1/system`.
pub fn for_both_owners(routes: impl Fn() -> OperationRouter) -> OperationRouter {
    OperationRouter::new().nest("/v1", routes()).merge(for_operators("/v1/system", Reach::System, routes()))
}

/// Returns true if a key for `app` may see a debug id's symbols: one of their uploads was for that app.
pub async fn sees_symbols(tx: &mut OwnerTx, app: Option<&str>, debug_id: &DebugId) -> Result<bool, Problem> {
    let Some(app) = app else { return Ok(true) };
    let apps = symbols::list_apps(tx, &[*debug_id]).await?;
    Ok(apps.contains(&(*debug_id, Some(app.to_owned()))))
}
