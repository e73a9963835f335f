//! `GET /v1/system/symbols`.

use crate::access::{Access, Operator};
use crate::input::Query;
use crate::operations::symbols::ListedObject;
use crate::operations::symbols::list::{SymbolQuery, list};
use crate::page::Page;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::Owner;

problems!(Failures: InvalidParameter);

/// List system symbols
///
/// Every object that was found in an upload of system symbols, newest first.
#[utoipa::path(get, path = "/v1/system/symbols", tag = "system", operation_id = "list_system_symbols",
    params(SymbolQuery),
    responses((status = 200, description = "A page of objects.", body = Page<ListedObject>), Failures),
    security(("key" = ["operator"])))]
pub async fn list_system_symbols(
    State(api): State<Api>,
    _: Access<Operator>,
    Query(query): Query<SymbolQuery>,
) -> Result<Json<Page<ListedObject>>, Problem> {
    list(&api, &Owner::System, None, query).await
}
