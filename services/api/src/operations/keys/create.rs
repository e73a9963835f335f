//! `POST /v1/keys`.

use super::{CreatedKey, NewKeyBody, check_new_key, make_key};
use crate::operations::prelude::*;
use crate::requests::input::Json;
use http::StatusCode;
use unslide_model::Scope;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Create a key of the own tenant
///
/// The key's text is only in this answer. A key can grant only scopes that it has itself, and never
/// `operator`. A key for one app creates keys for that app only, and a key that expires creates keys that
/// expire no later. A preset names the scopes of a usual purpose. A tenant may have 1,000 valid keys.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", operation_id = "create_key",
    request_body = NewKeyBody,
    responses((status = 201, description = "The key was made.", body = CreatedKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_key(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    Json(new): Json<NewKeyBody>,
) -> Result<(StatusCode, axum::Json<CreatedKey>), Problem> {
    let new = new.into_new_key()?;
    check_new_key(&new, &access.principal, keys.storage.clock.now())?;
    if new.scopes.contains(&Scope::Operator) {
        return Err(Problem::new(
            Kind::InsufficientScope,
            "only an operator can create a key with the scope operator",
        ));
    }
    if let Some(scope) = new.scopes.iter().find(|scope| !access.principal.has_scope(**scope)) {
        let detail = format!("the key lacks the scope {scope}, so it cannot create a key with it");
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    if access.principal.app.is_some() && new.app != access.principal.app {
        return Err(Problem::new(
            Kind::InsufficientScope,
            "the key is valid for one app only, so the keys that it creates must be for that app",
        ));
    }
    let tx = keys.storage.tenant(access.tenant()).await?;
    let created = make_key(&keys, tx, &access.principal, new).await?;
    Ok((StatusCode::CREATED, axum::Json(created)))
}
