//! `DELETE /v1/group-views/{id}`.

use super::{Reader, no_such_view};
use crate::operations::prelude::*;
use http::StatusCode;
use unslide_model::Scope;
use unslide_store::groups::views;
use unslide_store::{GroupViewId, audit};

problems!(Failures: InvalidParameter, NotFound);

/// Delete a saved view
///
/// A view of the whole tenant needs the scope `groups:write`.
#[utoipa::path(delete, path = "/v1/group-views/{id}", tag = "groups", operation_id = "delete_group_view",
    params(("id" = Uuid, Path, description = "The view's id.")),
    responses((status = 204, description = "The view is gone."), Failures),
    security(("key" = ["reports:read"])))]
pub async fn delete_group_view(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupViewId>,
) -> Result<StatusCode, Problem> {
    let reader = Reader::from_access(&access);
    let mut tx = storage.tenant(access.tenant()).await?;
    let view = views::find_view(&mut tx, reader.as_view_reader(), id).await?.ok_or_else(no_such_view)?;
    if view.shared && !access.principal.has_scope(Scope::GroupsWrite) {
        let detail = "a view of the whole tenant is deleted with the scope groups:write";
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    views::delete_view(&mut tx, id).await?;
    if view.shared {
        let detail = serde_json::json!({"name": view.name});
        audit::append_entry(&mut tx, &reader.key, "group_view.delete", &id.to_string(), &detail).await?;
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
