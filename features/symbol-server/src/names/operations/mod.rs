//! The operations of names keys, for a tenant's administrators.

mod create;
mod delete;
mod list;

use unslide_api::feature::ListTable;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// The list of names keys as a table.
pub const NAMES_KEY_TABLES: &[ListTable] = &[ListTable {
    path: "/v1/names-keys",
    name: "names-keys",
    has_pages: true,
    columns: "id name app created_at expires_at",
}];

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(create::create_names_key, list::list_names_keys))
        .routes(routes!(delete::delete_names_key))
}
