//! `GET /v1/apps`.

use crate::operations::prelude::*;
use unslide_store::queries::apps::{self, AppSummary};

problems!(Failures: InvalidParameter);

/// List apps
///
/// Lists the apps, the one with the newest report first.
#[utoipa::path(get, path = "/v1/apps", tag = "apps", operation_id = "list_apps",
    params(PageQuery),
    responses((status = 200, description = "A page of the apps with reports.", body = Page<AppSummary>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_apps(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AppSummary>>, Problem> {
    let only = access.principal.app.as_deref();
    let list = List::for_operation(access.tenant(), "list_apps", &only);
    let after = page.read_cursor(list, super::seen_after)?;
    let after = after.as_ref().map(|(day, app)| (*day, app.as_str()));
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = apps::list_apps(&mut tx, only, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| super::encode_position(last.last_day, &last.app))))
}
