//! `GET /v1/sign-in`: the settings of the tenant's identity provider.

use super::{EVERY_APP, SignInState};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the identity provider
///
/// Without its client secret, and with the sign-ins that failed lately.
#[utoipa::path(get, path = "/v1/sign-in", tag = "people", operation_id = "get_sign_in",
    responses((status = 200, description = "The provider.", body = SignInState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_sign_in(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<SignInState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let provider = store::get_provider(&mut tx).await?;
    let failures = store::list_failures(&mut tx).await?;
    Ok(Json(SignInState { failures, ..SignInState::from_provider(provider, access.tenant()) }))
}
