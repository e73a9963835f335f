//! `PATCH /v1/group-views/{id}`.

use super::{Reader, check_filter, check_may_change, check_name, check_outcome, no_such_view};
use crate::operations::prelude::*;
use crate::requests::input;
use unslide_store::groups::views::{self, GroupView, GroupViewFilter};
use unslide_store::{GroupViewId, audit};

/// Changes of a view. Absent fields do not change.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupViewPatch {
    /// Its new name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// The groups that it is to list, instead of those before.
    pub filter: Option<GroupViewFilter>,
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, Conflict);

/// Change a saved view
///
/// Renames a view, or gives it another filter. A view of the whole tenant needs the scope `groups:write`.
#[utoipa::path(patch, path = "/v1/group-views/{id}", tag = "groups", operation_id = "change_group_view",
    params(("id" = Uuid, Path, description = "The view's id.")),
    request_body = GroupViewPatch,
    responses((status = 200, description = "The view after the change.", body = GroupView), Failures),
    security(("key" = ["reports:read"])))]
pub async fn change_group_view(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupViewId>,
    input::Json(patch): input::Json<GroupViewPatch>,
) -> Result<Json<GroupView>, Problem> {
    check_may_change(&access, false)?;
    patch.name.as_deref().map_or(Ok(()), check_name)?;
    let filter = patch.filter.map(|filter| check_filter(&access, filter)).transpose()?;
    let reader = Reader::from_access(&access);
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = views::find_view(&mut tx, reader.as_view_reader(), id).await?.ok_or_else(no_such_view)?;
    check_may_change(&access, found.shared)?;
    let name = patch.name.as_deref();
    let changed = views::change_view(&mut tx, reader.as_view_reader(), id, name, filter.as_ref()).await?;
    let view = check_outcome(changed)?;
    if view.shared {
        let detail = serde_json::json!({"name": view.name});
        audit::append_entry(&mut tx, &reader.key, "group_view.change", &id.to_string(), &detail).await?;
    }
    tx.commit().await?;
    Ok(Json(view))
}
