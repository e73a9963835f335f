//! `POST /v1/public-keys`: makes a public key.

use crate::key::PUBLIC_KEYS;
use crate::store::{IngestKey, NewIngestKey};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_store::audit;
use unslide_store::keys::create_record;

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
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewIngestKey>,
) -> Result<(StatusCode, Json<IngestKey>), Problem> {
    let new = PUBLIC_KEYS.check_new(new.into(), keys.storage.clock.now());
    let new = new.map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    if let Some(own) = access.only_app()
        && !new.apps.iter().all(|app| app == own)
    {
        let detail = format!("the key speaks for {own} alone, so it makes public keys for {own} only");
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    let entropy = keys.entropy.generate_key().map_err(Problem::internal)?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let (key, _) = create_record(&mut tx, &PUBLIC_KEYS, &new, &entropy).await?;
    let key = IngestKey::from(key);
    let detail = serde_json::json!({"apps": key.apps});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "public_key.create", &key.id, &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(key)))
}
