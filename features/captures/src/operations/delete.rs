//! `DELETE /v1/captures/{id}`.

use super::no_capture;
use crate::operations::prelude::*;
use crate::store;
use crate::store::CaptureId;
use http::StatusCode;
use unslide_store::{audit, segments};

problems!(Failures: InvalidParameter, NotFound);

/// Delete a capture
///
/// With its analysis. Its bytes leave object storage within a day.
#[utoipa::path(delete, path = "/v1/captures/{id}", tag = "captures", operation_id = "delete_capture",
    params(("id" = Uuid, Path, description = "The capture's id.")),
    responses((status = 204, description = "The capture is deleted."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_capture(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let id: CaptureId = parse_parameter("id", &id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let deleted = store::delete(&mut tx, id, access.only_app()).await?.ok_or_else(no_capture)?;
    segments::condemn_objects(&mut tx, &deleted.object_keys(access.tenant())).await?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"app": deleted.app, "kind": deleted.kind});
    audit::append_entry(&mut tx, &actor, "capture.delete", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
