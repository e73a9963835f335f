//! `DELETE /v1/owners/{id}`.

use crate::store::{self, OwnersFileId};
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, parse_parameter, problems};
use unslide_api::feature::upload::SymbolsWrite;
use unslide_store::audit;

problems!(Failures: InvalidParameter, NotFound);

/// Delete a CODEOWNERS file
///
/// The owners of the app's groups are then looked for again, in its other files.
#[utoipa::path(delete, path = "/v1/owners/{id}", tag = "owners", operation_id = "delete_owners",
    params(("id" = Uuid, Path, description = "The file's id.")),
    responses((status = 204, description = "The file is deleted."), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn delete_owners(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let id: OwnersFileId = parse_parameter("id", &id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let deleted = store::delete_file(&mut tx, id, access.only_app()).await?;
    let Some((app, version)) = deleted else {
        return Err(Problem::new(Kind::NotFound, "there is no such file of owners"));
    };
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"app": app, "version": version});
    audit::append_entry(&mut tx, &actor, "owners.delete", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
