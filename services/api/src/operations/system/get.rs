//! `GET /v1/system/symbols/{debug_id}`.

use crate::access::{Access, Operator};
use crate::input::Path;
use crate::operations::symbols::get::{Symbols, look};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound);

/// Look at the system symbols of a debug id
#[utoipa::path(get, path = "/v1/system/symbols/{debug_id}", tag = "system", operation_id = "get_system_symbols",
    params(("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case.")),
    responses((status = 200, description = "The objects, and which of them answers.", body = Symbols), Failures),
    security(("key" = ["operator"])))]
pub async fn get_system_symbols(
    State(api): State<Api>,
    _: Access<Operator>,
    Path(debug_id): Path<String>,
) -> Result<Json<Symbols>, Problem> {
    look(&api, &Owner::System, None, &debug_id).await
}
