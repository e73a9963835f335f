//! `POST /v1/group-views`.

use super::{Reader, check_filter, check_may_change, check_name, check_outcome};
use crate::operations::prelude::*;
use crate::requests::input;
use http::StatusCode;
use unslide_store::audit;
use unslide_store::groups::views::{self, GroupView, GroupViewFilter};

/// A view to save.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroupView {
    /// Its name: 1 to 100 bytes, and no other view of the same owner has it.
    #[schema(min_length = 1, max_length = 100, example = "Mine this week")]
    pub name: String,
    /// True for a view of the whole tenant, which needs the scope `groups:write`; false for one of the key.
    #[serde(default)]
    pub shared: bool,
    /// The groups that it lists.
    #[serde(default)]
    pub filter: GroupViewFilter,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, Conflict, LimitReached);

/// Save a view
///
/// Gives a filter of groups a name. A key may have 50 views, and so may the whole tenant.
#[utoipa::path(post, path = "/v1/group-views", tag = "groups", operation_id = "create_group_view",
    request_body = NewGroupView,
    responses((status = 201, description = "The view was saved.", body = GroupView), Failures),
    security(("key" = ["reports:read"])))]
pub async fn create_group_view(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    input::Json(new): input::Json<NewGroupView>,
) -> Result<(StatusCode, Json<GroupView>), Problem> {
    check_may_change(&access, new.shared)?;
    check_name(&new.name)?;
    let filter = check_filter(&access, new.filter)?;
    let reader = Reader::from_access(&access);
    let mut tx = storage.tenant(access.tenant()).await?;
    let saved = views::save_view(&mut tx, reader.as_view_reader(), new.shared, &new.name, &filter).await?;
    let view = check_outcome(saved)?;
    if view.shared {
        let detail = serde_json::json!({"name": view.name});
        audit::append_entry(&mut tx, &reader.key, "group_view.create", &view.id.to_string(), &detail).await?;
    }
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(view)))
}
