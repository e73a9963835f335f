//! `GET /v1/audit-log/receivers`.

use super::{AuditReceiverList, EVERY_APP, ShownReceiver};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit::last_position;

problems!(Failures: );

/// List the receivers of the audit log
///
/// All receivers of the tenant without their secrets: how many entries wait for each, when it took some last, and why the last attempt failed.
#[utoipa::path(get, path = "/v1/audit-log/receivers", tag = "audit-export", operation_id = "list_audit_receivers",
    responses((status = 200, description = "The receivers.", body = AuditReceiverList), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_audit_receivers(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<AuditReceiverList>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let (rows, last) = (store::list_receivers(&mut tx).await?, last_position(&mut tx).await?);
    let receivers = rows.into_iter().map(|row| ShownReceiver::from_row(row, last));
    Ok(Json(AuditReceiverList { receivers: receivers.collect() }))
}
