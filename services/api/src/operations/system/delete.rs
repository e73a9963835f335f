//! `DELETE /v1/system/symbols/{debug_id}`.

use crate::access::{Access, Operator};
use crate::input::Path;
use crate::operations::symbols::delete::delete;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::extract::State;
use http::StatusCode;
use unslide_model::Owner;

problems!(Failures: InvalidParameter, NotFound);

/// Delete the system symbols of a debug id
///
/// All its objects go, and the workers forget them. Reports keep the answers that they have.
#[utoipa::path(delete, path = "/v1/system/symbols/{debug_id}", tag = "system", operation_id = "delete_system_symbols",
    params(("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case.")),
    responses((status = 204, description = "The symbols are deleted."), Failures),
    security(("key" = ["operator"])))]
pub async fn delete_system_symbols(
    State(api): State<Api>,
    access: Access<Operator>,
    Path(debug_id): Path<String>,
) -> Result<StatusCode, Problem> {
    delete(&api, &access.principal, &Owner::System, &debug_id).await
}
