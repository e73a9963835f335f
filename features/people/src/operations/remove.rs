//! `DELETE /v1/sign-in`: removes the tenant's identity provider.

use super::{EVERY_APP, SignInState};
use crate::PeopleExtension;
use crate::store;
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Remove the identity provider
///
/// The sessions of its people end, and they cannot sign in any more. Keys that people made stay in force; the list of keys
/// has them. Does nothing if there is no provider.
#[utoipa::path(delete, path = "/v1/sign-in", tag = "people", operation_id = "remove_sign_in",
    responses((status = 200, description = "There is no provider.", body = SignInState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_sign_in(
    State(storage): State<Arc<Storage>>,
    Extension(people): PeopleExtension,
    access: Access<TenantAdmin>,
) -> Result<Json<SignInState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let Some(issuer) = store::remove_provider(&mut tx).await? else {
        return Ok(Json(SignInState::from_provider(None, access.tenant())));
    };
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "sign_in.remove", &issuer, &serde_json::json!({})).await?;
    tx.commit().await?;
    people.providers.forget_provider(access.tenant());
    Ok(Json(SignInState::from_provider(None, access.tenant())))
}
