//! `DELETE /v1/testflight`: removes the key of App Store Connect.

use super::{EVERY_APP, TestFlightState, read_state};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Remove the key of App Store Connect
///
/// Apple is not asked any more. Reports that came stay, with the words of their testers. Does nothing if there is no key. To end
/// the key itself, revoke it in App Store Connect.
#[utoipa::path(delete, path = "/v1/testflight", tag = "testflight", operation_id = "remove_testflight",
    responses((status = 200, description = "There is no key.", body = TestFlightState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_testflight(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<TestFlightState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if let Some(key_id) = store::remove_key(&mut tx).await? {
        let actor = access.principal.key_id.to_string();
        audit::append_entry(&mut tx, &actor, "testflight.remove", &key_id, &serde_json::json!({})).await?;
    }
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    Ok(Json(state))
}
