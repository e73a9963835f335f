//! `POST /v1/names-keys`: makes a names key.

use super::super::key::NAMES_KEYS;
use super::super::store::{NamesKey, NewNamesKey};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_model::Scope;
use unslide_store::audit;
use unslide_store::keys::create_record;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// A names key that was made, with its text.
#[derive(Serialize, ToSchema)]
pub struct CreatedNamesKey {
    /// The key's record, as in the list of keys.
    #[serde(flatten)]
    pub key: NamesKey,
    /// The key's text, for the path of a URL. Shown this one time.
    #[schema(example = "usn_00000000000000000000000000")]
    pub text: String,
}

/// Create a names key
///
/// A profiler reads names of functions, files and lines with it, below `/symbols/{key}`, and can do nothing else with
/// it: on every other path it is an unknown key. It never gives a dSYM. The key that makes it also needs `symbols:read`,
/// and a key for one app makes names keys for that app only. A tenant may have 200 that have not expired.
#[utoipa::path(post, path = "/v1/names-keys", tag = "symbol-server", operation_id = "create_names_key",
    request_body = NewNamesKey,
    responses((status = 201, description = "The key was made.", body = CreatedNamesKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_names_key(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewNamesKey>,
) -> Result<(StatusCode, Json<CreatedNamesKey>), Problem> {
    let new = NAMES_KEYS.check_new(new.into(), keys.storage.clock.now());
    let new = new.map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let refuse = |detail: String| Err(Problem::new(Kind::InsufficientScope, detail));
    if !access.principal.has_scope(Scope::SymbolsRead) {
        return refuse("the key lacks the scope symbols:read, so it cannot make a names key".to_owned());
    }
    if let Some(own) = access.only_app()
        && new.apps != [own]
    {
        return refuse(format!("the key speaks for {own} alone, so it makes names keys for {own} only"));
    }
    if access.principal.expires_at.is_some_and(|end| new.expires_at > Some(end)) {
        return refuse("the names key would outlive the key that makes it; set expires_at".to_owned());
    }
    let entropy = keys.entropy.generate_key().map_err(Problem::internal)?;
    let actor = access.principal.key_id.to_string();
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let (key, text) = create_record(&mut tx, &NAMES_KEYS, &new, &entropy).await?;
    let key = NamesKey::from(key);
    let detail = serde_json::json!({"app": key.app, "name": key.name});
    audit::append_entry(&mut tx, &actor, "names_key.create", &key.id, &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedNamesKey { key, text: text.reveal().to_owned() })))
}
