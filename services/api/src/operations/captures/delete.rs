//! `DELETE /v1/captures/{id}`.

use super::no_capture;
use crate::operations::prelude::*;
use http::StatusCode;
use unslide_artifacts::keys;
use unslide_store::{Uuid, audit, captures, segments};

problems!(Failures: InvalidParameter, NotFound);

/// Delete a capture
///
/// With its analysis. Its bytes leave object storage within a day.
#[utoipa::path(delete, path = "/v1/captures/{id}", tag = "captures", operation_id = "delete_capture",
    params(("id" = Uuid, Path, description = "The capture's id.")),
    responses((status = 204, description = "The capture is deleted."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_capture(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let id: Uuid = parameter("id", &id)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let deleted = captures::delete(&mut tx, id, access.only_app()).await?.ok_or_else(no_capture)?;
    let keys = keys::capture(access.tenant(), id).all(&deleted.form, deleted.runs());
    segments::condemn(&mut tx, &keys).await?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"app": deleted.app, "kind": deleted.kind});
    audit::append(&mut tx, &actor, "capture.delete", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
