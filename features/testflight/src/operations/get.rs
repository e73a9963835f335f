//! `GET /v1/testflight`: the TestFlight inbox.

use super::{EVERY_APP, TestFlightState, read_state};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the TestFlight inbox
///
/// The key of App Store Connect without its private key, when Apple was asked last and what came of it, and the newest
/// submissions of testers.
#[utoipa::path(get, path = "/v1/testflight", tag = "testflight", operation_id = "get_testflight",
    responses((status = 200, description = "The inbox.", body = TestFlightState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_testflight(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<TestFlightState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(read_state(&mut tx).await?))
}
