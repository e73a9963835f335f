//! `DELETE /v1/audit-log/receivers/{name}`.

use super::{EVERY_APP, no_receiver};
use crate::store;
use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: InvalidParameter, NotFound);

/// Remove a receiver of the audit log
///
/// It gets no more entries, also not the one about its removal. The log itself stays.
#[utoipa::path(delete, path = "/v1/audit-log/receivers/{name}", tag = "audit-export", operation_id = "remove_audit_receiver",
    params(("name" = String, Path, description = "The receiver's name.", max_length = 40)),
    responses((status = 204, description = "The receiver is removed."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_audit_receiver(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::remove_receiver(&mut tx, &name).await? {
        return Err(no_receiver());
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "audit_receiver.remove", &name, &json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
