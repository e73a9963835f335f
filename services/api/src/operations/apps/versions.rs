//! `GET /v1/apps/{app}/versions`.

use super::MissingImage;
use crate::operations::prelude::*;
use time::Date;
use unslide_store::queries::versions;

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
    #[schema(max_items = 100)]
    pub missing: Vec<MissingImage>,
}

impl From<versions::VersionSummary> for Version {
    fn from(version: versions::VersionSummary) -> Version {
        Version {
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
        }
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// List an app's versions
///
/// Reports, affected devices, how much is symbolicated, and which debug ids are missing. The version of
/// the newest report first.
#[utoipa::path(get, path = "/v1/apps/{app}/versions", tag = "apps", operation_id = "list_versions",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), PageQuery),
    responses((status = 200, description = "A page of versions.", body = Page<Version>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_versions(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Version>>, Problem> {
    let list = List::of(access.tenant(), "list_versions", &app);
    let after = page.after(list, super::seen_after)?;
    let after = after.as_ref().map(|(day, version)| (*day, version.as_str()));
    let limit = page.limit()?;
    let found = if access.sees(&app) {
        let mut tx = api.tenant(access.tenant()).await?;
        let found = versions::list(&mut tx, &app, after, limit + 1).await?;
        tx.rollback().await?;
        found
    } else {
        Vec::new()
    };
    if found.is_empty() && after.is_none() {
        return Err(Problem::new(Kind::NotFound, "no reports came from this app"));
    }
    Ok(Json(Page::of(found, limit, list, |last| super::seen(last.last_day, &last.version))))
}
