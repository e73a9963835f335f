//! `GET /v1/owners`: the files and rewrites of an app, and how many crashes have an owner.

use super::require_app;
use crate::store::{self, OwnerCount, OwnerShares, StoredOwnersFile};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Problem, Query, ReportsRead, problems};
use unslide_owners_formats::PathRewrite;
use utoipa::{IntoParams, ToSchema};

/// Days that are counted if a request names none, and at most.
const USUAL_DAYS: u32 = 30;
const DAYS_LIMIT: u32 = 365;
/// Owners that are listed.
const OWNERS_LIMIT: u32 = 200;

/// The app and the period.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OwnersQuery {
    /// Bundle identifier of the app. A key for one app may leave it out.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
    /// Days whose crashes are counted, with today (UTC), 1 to 365; 30 if absent.
    #[param(minimum = 1, maximum = 365)]
    pub days: Option<u32>,
}

/// The owners of an app's code.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppOwners {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The files: that of all versions first, then those of the newest uploads.
    #[schema(max_items = 31)]
    pub files: Vec<StoredOwnersFile>,
    /// Which paths of the repository paths of build machines are.
    #[schema(max_items = 100)]
    pub paths: Vec<PathRewrite>,
    /// How many crashes of the period have an owner.
    pub shares: OwnerShares,
    /// The owners, those with the most crashes in the period first.
    #[schema(max_items = 200)]
    pub owners: Vec<OwnerCount>,
}

problems!(Failures: InvalidParameter);

/// Get the owners of an app's code
///
/// The CODEOWNERS files and path rewrites of an app, the share of its crashes without an owner, and the groups and crashes of
/// each owner. An app without a file has empty lists.
#[utoipa::path(get, path = "/v1/owners", tag = "owners", operation_id = "get_owners",
    params(OwnersQuery),
    responses((status = 200, description = "The owners.", body = AppOwners), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_owners(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<OwnersQuery>,
) -> Result<Json<AppOwners>, Problem> {
    let app = require_app(&access, query.app)?;
    let days = query.days.unwrap_or(USUAL_DAYS);
    if !(1..=DAYS_LIMIT).contains(&days) {
        return Err(Problem::new(Kind::InvalidParameter, format!("days: 1 to {DAYS_LIMIT}")));
    }
    let from = storage.clock.now().date().saturating_sub(Duration::days(i64::from(days) - 1));
    let mut tx = storage.tenant(access.tenant()).await?;
    let paths = store::get_app(&mut tx, &app).await?.map(|found| found.paths).unwrap_or_default();
    let files = store::list_files(&mut tx, &app).await?;
    let shares = store::measure_shares(&mut tx, &app, from).await?;
    let owners = store::count_owners(&mut tx, &app, from, OWNERS_LIMIT).await?;
    Ok(Json(AppOwners { app, files, paths, shares, owners }))
}
