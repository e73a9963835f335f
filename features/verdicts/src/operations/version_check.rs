//! `GET /v1/apps/{app}/versions/{version}/check`.

use crate::release::{ReleaseCheck, check_release};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, Path, Problem, Query, ReportsRead, check_texts, problems,
};
use unslide_store::queries::versions::find_version;
use utoipa::IntoParams;

/// The most bytes of the name of an app or a version.
const NAME_BYTES: usize = 1_024;

/// The version to compare with.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VersionCheckQuery {
    /// The version to compare with. If absent, the older one with the most sessions on the same days.
    #[param(example = "2.4.1", max_length = 1024)]
    pub against: Option<String>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Check whether a version may go on to more people
///
/// Compares a version with an older one on the days on which both have sessions, by five measures: sessions that crashed, sessions
/// that ended out of memory, crashes of bugs that are new in the version, hangs and slow launches. The test may be read on any day,
/// and is wrong with a chance of 1 % at most over all readings.
#[utoipa::path(get, path = "/v1/apps/{app}/versions/{version}/check", tag = "verdicts", operation_id = "check_version",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"),
        ("version" = String, Path, description = "The version.", example = "2.5.0"), VersionCheckQuery),
    responses((status = 200, description = "The verdict and its reasons.", body = ReleaseCheck), Failures),
    security(("key" = ["reports:read"])))]
pub async fn check_version(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path((app, version)): Path<(String, String)>,
    Query(query): Query<VersionCheckQuery>,
) -> Result<Json<ReleaseCheck>, Problem> {
    let texts = [("app", Some(&*app)), ("version", Some(&*version)), ("against", query.against.as_deref())];
    check_texts(Kind::InvalidParameter, NAME_BYTES, texts)?;
    if query.against.as_deref() == Some(&*version) {
        let detail = "against: must be another version than the one to check";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let none = || {
        let detail =
            "this app has no sessions and no reports of this version; send sessions with POST /v1/sessions";
        Problem::new(Kind::NotFound, detail)
    };
    if !access.can_see(&app) {
        return Err(none());
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let reports = find_version(&mut tx, &app, &version).await?;
    let today = storage.clock.now().date();
    let check = check_release(&mut tx, &app, &version, query.against.as_deref(), today).await?;
    if !check.has_sessions && reports.is_none() {
        return Err(none());
    }
    Ok(Json(check))
}
