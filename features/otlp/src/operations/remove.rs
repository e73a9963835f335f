//! `DELETE /v1/otlp`: removes the settings of OTLP.

use super::{EVERY_APP, OtlpState, read_state};
use crate::{Otlp, store};
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Remove the settings of OTLP
///
/// Crashes are no longer sent to a collector, and those that wait are dropped. Other records are accepted again. Does nothing if
/// there are no settings.
#[utoipa::path(delete, path = "/v1/otlp", tag = "otlp", operation_id = "remove_otlp",
    responses((status = 200, description = "There are no settings.", body = OtlpState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_otlp(
    State(storage): State<Arc<Storage>>,
    Extension(otlp): Extension<Arc<Otlp>>,
    access: Access<TenantAdmin>,
) -> Result<Json<OtlpState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if store::remove_settings(&mut tx).await? {
        let actor = access.principal.key_id.to_string();
        audit::append_entry(&mut tx, &actor, "otlp.remove", "otlp", &serde_json::json!({})).await?;
    }
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    otlp.policies.forget_tenant(access.tenant());
    Ok(Json(state))
}
