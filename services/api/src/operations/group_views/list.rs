//! `GET /v1/group-views`.

use super::Reader;
use crate::operations::prelude::*;
use unslide_store::groups::views::{self, GroupView};

problems!(Failures: InvalidParameter);

/// Saved views, all in one answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupViews {
    /// Views by name, at most 50 of the key and 50 of the tenant.
    #[schema(max_items = 100)]
    pub items: Vec<GroupView>,
}

/// List saved views
///
/// Lists the saved views of groups: the key's own, and those of the whole tenant. A key for one app sees views of that app.
#[utoipa::path(get, path = "/v1/group-views", tag = "groups", operation_id = "list_group_views",
    responses((status = 200, description = "The views.", body = GroupViews), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_group_views(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
) -> Result<Json<GroupViews>, Problem> {
    let reader = Reader::from_access(&access);
    let mut tx = storage.tenant(access.tenant()).await?;
    let items = views::list_views(&mut tx, reader.as_view_reader()).await?;
    Ok(Json(GroupViews { items }))
}
