//! `GET /v1/apps`.

use crate::operations::prelude::*;
use time::Date;
use unslide_store::queries::apps;

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

impl From<apps::AppSummary> for App {
    fn from(app: apps::AppSummary) -> App {
        App {
            app: app.app,
            versions: app.versions,
            reports: app.reports,
            first_day: app.first_day,
            last_day: app.last_day,
        }
    }
}

problems!(Failures: InvalidParameter);

/// List apps
///
/// The app of the newest report first.
#[utoipa::path(get, path = "/v1/apps", tag = "apps", operation_id = "list_apps",
    params(PageQuery),
    responses((status = 200, description = "A page of the apps that reports came from.", body = Page<App>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_apps(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<App>>, Problem> {
    let only = access.principal.app.as_deref();
    let list = List::of(access.tenant(), "list_apps", &only);
    let after = page.after(list, super::seen_after)?;
    let after = after.as_ref().map(|(day, app)| (*day, app.as_str()));
    let limit = page.limit()?;
    let mut tx = api.tenant(access.tenant()).await?;
    let found = apps::list(&mut tx, only, after, limit + 1).await?;
    tx.rollback().await?;
    Ok(Json(Page::of(found, limit, list, |last| super::seen(last.last_day, &last.app))))
}
