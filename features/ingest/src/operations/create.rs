//! `POST /v1/public-keys`: makes a public key.

use super::check_new;
use crate::key::KeyText;
use crate::store::{self, IngestKey, MAX_OPEN_KEYS, NewIngestKey};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Create a public key
///
/// An app sends its reports with it to `POST /i/{key}`, and can do nothing else with it: on every other path it is an
/// unknown key. It is no secret: `GET /v1/public-keys/{id}` has its text. A report of an app that the key does not cover becomes a
/// dead letter. A tenant may have 200 keys that are not closed. A key for one app makes public keys for that app only.
#[utoipa::path(post, path = "/v1/public-keys", tag = "ingest", operation_id = "create_public_key",
    request_body = NewIngestKey,
    responses((status = 201, description = "The key was made.", body = IngestKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_public_key(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewIngestKey>,
) -> Result<(StatusCode, Json<IngestKey>), Problem> {
    check_new(&new).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    if let Some(own) = access.only_app()
        && !new.apps.iter().all(|app| app.0 == own)
    {
        let detail = format!("the key speaks for {own} alone, so it makes public keys for {own} only");
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    let text = KeyText::generate().map_err(Problem::internal)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let Some(key) = store::create_key(&mut tx, &new, &text).await? else {
        let detail =
            format!("a tenant has at most {MAX_OPEN_KEYS} public keys that are not closed; close one");
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    let detail = serde_json::json!({"apps": key.apps});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "public_key.create", &key.id, &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(key)))
}
