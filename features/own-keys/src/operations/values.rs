//! `GET /v1/apps/{app}/keys/{key}`: the values of a key that an app sets.

use super::{AskedScope, NAME_BYTES, OwnKeysQuery, no_reports, share_of};
use crate::store::count_keys;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, Path, Problem, Query, ReportsRead, check_texts, problems,
};
use utoipa::ToSchema;

/// The values of a key in the newest reports of an app.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OwnKeyValues {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The name of the key.
    #[schema(example = "plan")]
    pub key: String,
    /// The number of reports that were looked at: the newest, at most 10,000.
    pub sample: i64,
    /// The number of these that have the key.
    pub reports: i64,
    /// The values in the most reports, these first.
    #[schema(max_items = 200)]
    pub items: Vec<OwnKeyValueUse>,
    /// The other values together, if there are more than 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<OtherValues>,
}

/// Reports with a value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OwnKeyValueUse {
    /// The value of the key, as a text.
    #[schema(example = "pro")]
    pub value: String,
    /// The number of reports that have it.
    pub reports: i64,
    /// The same in per cent of the reports with the key.
    #[schema(example = 12.5)]
    pub share: f64,
}

/// Reports with a value that is not listed.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OtherValues {
    /// The number of these values.
    pub values: i64,
    /// The number of reports that have one.
    pub reports: i64,
    /// The same in per cent of the reports with the key.
    #[schema(example = 2.5)]
    pub share: f64,
}

problems!(Failures: InvalidParameter, NotFound);

/// List the values of an app's own key
///
/// Counts the values of a key that the app has set, in the reports that `list_own_keys` looks at. The 200 values in the most
/// reports are listed, and `other` counts the rest. `GET /v1/reports?key=plan=pro` lists the reports with a value.
#[utoipa::path(get, path = "/v1/apps/{app}/keys/{key}", tag = "own-keys", operation_id = "list_own_key_values",
    params(
        ("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"),
        ("key" = String, Path, description = "The name of the key.", example = "plan"),
        OwnKeysQuery),
    responses((status = 200, description = "The values.", body = OwnKeyValues), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_own_key_values(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path((app, key)): Path<(String, String)>,
    Query(query): Query<OwnKeysQuery>,
) -> Result<Json<OwnKeyValues>, Problem> {
    check_texts(Kind::InvalidParameter, NAME_BYTES, [("key", Some(key.as_str()))])?;
    let key = key.replace('\0', "");
    let mut tx = storage.tenant(access.tenant()).await?;
    let asked = AskedScope::read_scope(&mut tx, &access, app, query).await?;
    let counts = count_keys(&mut tx, asked.as_scope(), Some(&key)).await?;
    if counts.listed.is_empty() {
        return Err(no_reports());
    }
    let reports = counts.listed.iter().map(|value| value.reports).sum::<i64>() + counts.other_reports;
    let share = |part: i64| share_of(part, reports);
    let items = counts.listed.into_iter().map(|value| OwnKeyValueUse {
        share: share(value.reports),
        value: value.name,
        reports: value.reports,
    });
    let items = items.collect();
    let other = (counts.others > 0).then(|| OtherValues {
        values: counts.others,
        reports: counts.other_reports,
        share: share(counts.other_reports),
    });
    Ok(Json(OwnKeyValues { app: asked.app, key, sample: counts.sample, reports, items, other }))
}
