//! `GET /v1/apps`.

use crate::access::{Access, ReportsRead};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use time::Date;
use unslide_store::queries::apps;
use utoipa::ToSchema;

/// The apps of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct Apps {
    /// The apps, by name.
    pub items: Vec<App>,
}

/// An app that reports came from.
#[derive(Debug, Serialize, ToSchema)]
pub struct App {
    /// Bundle identifier; empty for reports that name none.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Versions that reports came from.
    pub versions: i64,
    /// Reports.
    pub reports: i64,
    /// The day of the first report (UTC).
    #[serde(with = "super::day")]
    pub first_day: Date,
    /// The day of the last report (UTC).
    #[serde(with = "super::day")]
    pub last_day: Date,
}

problems!(Failures:);

/// List apps
#[utoipa::path(get, path = "/v1/apps", tag = "apps", operation_id = "list_apps",
    responses((status = 200, description = "The apps that reports came from.", body = Apps), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_apps(State(api): State<Api>, access: Access<ReportsRead>) -> Result<Json<Apps>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = apps::list(&mut tx).await?;
    tx.rollback().await?;
    let seen = found.into_iter().filter(|app| access.sees(&app.app));
    let items = seen.map(|app| App {
        app: app.app,
        versions: app.versions,
        reports: app.reports,
        first_day: app.first_day,
        last_day: app.last_day,
    });
    Ok(Json(Apps { items: items.collect() }))
}
