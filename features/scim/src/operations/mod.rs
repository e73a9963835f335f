//! The directory and its tokens, for a tenant's administrators.

mod create;
mod delete;
mod get;
mod list;
mod token_form;

use unslide_api::feature::ListTable;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "people see every app that their scopes allow";

/// The list of tokens as a table.
pub const SCIM_TOKEN_TABLES: &[ListTable] = &[ListTable {
    path: "/v1/scim-tokens",
    name: "scim-tokens",
    has_pages: true,
    columns: "id name created_at expires_at last_used_at",
}];

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_scim))
        .routes(routes!(create::create_scim_token, list::list_scim_tokens))
        .routes(routes!(delete::delete_scim_token))
}
