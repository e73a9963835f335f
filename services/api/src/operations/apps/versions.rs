//! `GET /v1/apps/{app}/versions`.

use super::MissingImage;
use crate::access::{Access, ReportsRead};
use crate::input::Path;
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use time::Date;
use unslide_store::queries::versions;
use utoipa::ToSchema;

/// The versions of an app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Versions {
    /// The versions, that of the newest report first.
    pub items: Vec<Version>,
}

/// How a version does.
#[derive(Debug, Serialize, ToSchema)]
pub struct Version {
    /// The version; empty for reports that name none.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// Reports.
    pub reports: i64,
    /// Devices that crashed, counted once each.
    pub devices: i64,
    /// The share of frames that symbols answered, 0 to 1; absent where there are no frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_symbolicated: Option<f64>,
    /// Frames in all reports.
    pub frames: i64,
    /// Reports in which every frame has its answer.
    pub complete: i64,
    /// Reports in which some frames have theirs.
    pub partial: i64,
    /// Reports in which none has.
    pub none: i64,
    /// The day of the first report (UTC).
    #[serde(with = "super::day")]
    pub first_day: Date,
    /// The day of the last report (UTC).
    #[serde(with = "super::day")]
    pub last_day: Date,
    /// The app's own images that symbols are missing for, the most wanted first, at most 100.
    pub missing: Vec<MissingImage>,
}

problems!(Failures: InvalidParameter, NotFound);

/// List an app's versions
///
/// Reports, affected devices, how much is symbolicated, and which debug ids are missing.
#[utoipa::path(get, path = "/v1/apps/{app}/versions", tag = "apps", operation_id = "list_versions",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop")),
    responses((status = 200, description = "The versions.", body = Versions), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_versions(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
) -> Result<Json<Versions>, Problem> {
    let found = if access.sees(&app) {
        let mut tx = api.tenant(access.tenant()).await?;
        let found = versions::list(&mut tx, &app).await?;
        tx.rollback().await?;
        found
    } else {
        Vec::new()
    };
    if found.is_empty() {
        return Err(Problem::new(Kind::NotFound, "no reports came from this app"));
    }
    let items = found.into_iter().map(|version| Version {
        share_symbolicated: version.share_symbolicated(),
        version: version.version,
        reports: version.reports,
        devices: version.devices,
        frames: version.frames_total,
        complete: version.complete,
        partial: version.partial,
        none: version.none,
        first_day: version.first_day,
        last_day: version.last_day,
        missing: version.missing.into_iter().map(MissingImage::from).collect(),
    });
    Ok(Json(Versions { items: items.collect() }))
}
