//! `GET /v1/apps/{app}/versions`.

use crate::operations::prelude::*;
use unslide_store::queries::versions::{self, VersionSummary};

problems!(Failures: InvalidParameter, NotFound);

/// List an app's versions
///
/// Lists the versions with their reports, affected devices, the symbolicated share and the missing debug ids.
/// The version with the newest report is first.
#[utoipa::path(get, path = "/v1/apps/{app}/versions", tag = "apps", operation_id = "list_versions",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"), PageQuery),
    responses((status = 200, description = "A page of versions.", body = Page<VersionSummary>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_versions(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<VersionSummary>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_versions", &app);
    let after = page.read_cursor(list, super::seen_after)?;
    let after = after.as_ref().map(|(day, version)| (*day, version.as_str()));
    let limit = page.check_limit()?;
    let found = if access.can_see(&app) {
        let mut tx = storage.tenant(access.tenant()).await?;
        versions::list_versions(&mut tx, &app, after, limit + 1).await?
    } else {
        Vec::new()
    };
    if found.is_empty() && after.is_none() {
        return Err(Problem::new(Kind::NotFound, "this app has no reports; check its bundle identifier"));
    }
    Ok(Json(Page::from_rows(found, limit, list, |last| super::encode_position(last.last_day, &last.version))))
}
