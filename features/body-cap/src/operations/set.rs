//! `PUT /v1/body-cap`: sets the cap of an app.

use super::{BodyCaps, EVERY_APP};
use crate::store::{self, MAX_BODIES};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, check_texts, problems};
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// The most bytes of the name of an app.
const APP_BYTES: usize = 255;

/// The cap of an app to be set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBodyCap {
    /// Bundle identifier of the app. Empty or absent: the apps without a cap of their own.
    #[serde(default)]
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// Bodies that are kept of a group and day. Absent or null: the cap is removed, and the app has that of the apps without one of
    /// their own.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000, example = 200)]
    pub bodies: Option<u32>,
}

/// Set the cap of bodies
///
/// Of a group at most this many bodies of reports are kept a day: the first, the newest, one for each version, model and system, then
/// the oldest. All reports are stored and counted. A body that waits for symbols is kept until they have come, or for 30 days. The cap
/// holds for reports that arrive from now on; a change of it does not bring back bodies.
#[utoipa::path(put, path = "/v1/body-cap", tag = "body-cap", operation_id = "set_body_cap",
    request_body = NewBodyCap,
    responses((status = 200, description = "The cap is set.", body = BodyCaps), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_body_cap(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewBodyCap>,
) -> Result<Json<BodyCaps>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_texts(Kind::InvalidBody, APP_BYTES, [("app", Some(new.app.as_str()))])?;
    if new.bodies.is_some_and(|bodies| !(1..=MAX_BODIES).contains(&bodies)) {
        return Err(Problem::new(Kind::InvalidBody, format!("bodies: must be between 1 and {MAX_BODIES}")));
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::set_cap(&mut tx, &new.app, new.bodies).await? {
        return Err(Problem::new(Kind::LimitReached, store::describe_limit()));
    }
    let actor = access.principal.key_id.to_string();
    let detail = json!({"app": new.app, "bodies": new.bodies});
    audit::append_entry(&mut tx, &actor, "body_cap.set", &new.app, &detail).await?;
    let items = store::list_caps(&mut tx).await?;
    tx.commit().await?;
    Ok(Json(BodyCaps { items }))
}
