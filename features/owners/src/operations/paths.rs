//! `PUT /v1/owners/paths`: which paths of the repository paths of build machines are.

use super::{refuse_app, require_app};
use crate::store;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, problems};
use unslide_api::feature::upload::SymbolsWrite;
use unslide_owners_formats::{PathRewrite, check_rewrites};
use unslide_store::audit;
use utoipa::ToSchema;

/// The rewrites of an app.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnerPaths {
    /// Bundle identifier of the app. A key for one app may leave it out.
    #[schema(max_length = 255, example = "com.example.shop")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The rewrites. Of those that fit a path, the one with the most folders counts.
    #[schema(max_items = 100)]
    pub paths: Vec<PathRewrite>,
}

problems!(Failures: InvalidBody, InvalidParameter, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Set the path rewrites of an app
///
/// Symbols name source files by their paths on the build machine. A rewrite replaces the folder of the build by a folder of the
/// repository. It fits whole folders, and regards case. A relative path that no rewrite fits is taken as one of the repository;
/// an absolute one has no owner. The rewrites replace the earlier ones, and the owners of the app's groups are looked for again.
#[utoipa::path(put, path = "/v1/owners/paths", tag = "owners", operation_id = "set_owner_paths",
    request_body = OwnerPaths,
    responses((status = 200, description = "The rewrites.", body = OwnerPaths), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn set_owner_paths(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    JsonBody(body): JsonBody<OwnerPaths>,
) -> Result<Json<OwnerPaths>, Problem> {
    let app = require_app(&access, body.app)?;
    check_rewrites(&body.paths)
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("paths: {error}")))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::set_paths(&mut tx, &app, &body.paths).await? {
        return Err(refuse_app(&app));
    }
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"paths": body.paths.len()});
    audit::append_entry(&mut tx, &actor, "owners.paths", &app, &detail).await?;
    tx.commit().await?;
    Ok(Json(OwnerPaths { app: Some(app), paths: body.paths }))
}
