//! `GET /v1/otlp`: the settings of OTLP.

use super::{EVERY_APP, OtlpState, read_state};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the settings of OTLP
///
/// How records that are no crash are answered, and the collector to which crashes are sent: how many wait for it, when it took
/// records last, why the last request failed, and how many crashes it did not take.
#[utoipa::path(get, path = "/v1/otlp", tag = "otlp", operation_id = "get_otlp",
    responses((status = 200, description = "The settings.", body = OtlpState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_otlp(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<OtlpState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(read_state(&mut tx).await?))
}
