//! `GET /v1/apps/{app}/keys`: the keys that an app sets.

use super::{AskedScope, OwnKeysQuery, no_reports, share_of};
use crate::store::count_keys;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, Query, ReportsRead, problems};
use utoipa::ToSchema;

/// The keys in the newest reports of an app.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppOwnKeys {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The number of reports that were looked at: the newest, at most 10,000.
    pub sample: i64,
    /// The keys in the most reports, these first.
    #[schema(max_items = 50)]
    pub items: Vec<OwnKeyUse>,
    /// The number of other keys, if there are more than 50.
    pub other_keys: i64,
}

/// The reports that have a key, counted.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OwnKeyUse {
    /// The name of the key; `object.member` for a member of an object.
    #[schema(example = "plan")]
    pub name: String,
    /// The number of reports that have it.
    pub reports: i64,
    /// The same in per cent of the reports that were looked at.
    #[schema(example = 87.5)]
    pub share: f64,
    /// The number of its values in these.
    pub values: i64,
}

problems!(Failures: InvalidParameter, NotFound);

/// List an app's own keys
///
/// Counts the keys that the app has set (`user` of its reports) in its newest 10,000 reports, or in those of a version or of a
/// group: strings, numbers and booleans, and those of objects directly in `user` as `object.member`. The 50 keys in the most
/// reports are listed, and `other_keys` counts the rest. A crash that two reports tell of counts once. Ids of users are no keys.
#[utoipa::path(get, path = "/v1/apps/{app}/keys", tag = "own-keys", operation_id = "list_own_keys",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), OwnKeysQuery),
    responses((status = 200, description = "The keys.", body = AppOwnKeys), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_own_keys(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(query): Query<OwnKeysQuery>,
) -> Result<Json<AppOwnKeys>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let asked = AskedScope::read_scope(&mut tx, &access, app, query).await?;
    let counts = count_keys(&mut tx, asked.as_scope(), None).await?;
    if counts.sample == 0 {
        return Err(no_reports());
    }
    let items = counts.listed.into_iter().map(|key| OwnKeyUse {
        share: share_of(key.reports, counts.sample),
        name: key.name,
        reports: key.reports,
        values: key.values,
    });
    Ok(Json(AppOwnKeys {
        app: asked.app,
        sample: counts.sample,
        items: items.collect(),
        other_keys: counts.others,
    }))
}
