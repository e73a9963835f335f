//! `POST /v1/names-keys`: makes a names key.

use super::super::key::{check_new, create_audited};
use super::super::store::{MAX_KEYS, NamesKey, NamesKeyText, NewNamesKey};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_model::Scope;
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
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewNamesKey>,
) -> Result<(StatusCode, Json<CreatedNamesKey>), Problem> {
    let row = check_new(&new, storage.clock.now()).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let refuse = |detail: String| Err(Problem::new(Kind::InsufficientScope, detail));
    if !access.principal.has_scope(Scope::SymbolsRead) {
        return refuse("the key lacks the scope symbols:read, so it cannot make a names key".to_owned());
    }
    if let Some(own) = access.only_app()
        && row.app != Some(own)
    {
        return refuse(format!("the key speaks for {own} alone, so it makes names keys for {own} only"));
    }
    if access.principal.expires_at.is_some_and(|end| row.expires_at > end) {
        return refuse("the names key would outlive the key that makes it; set expires_at".to_owned());
    }
    let text = NamesKeyText::generate().map_err(Problem::internal)?;
    let actor = access.principal.key_id.to_string();
    let mut tx = storage.tenant(access.tenant()).await?;
    let Some(key) = create_audited(&mut tx, &actor, row, &text).await? else {
        let detail = format!("a tenant has at most {MAX_KEYS} names keys that have not expired; delete one");
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedNamesKey { key, text: text.reveal().to_owned() })))
}
