//! `PATCH` and `DELETE /v1/groups/{id}/comments/{comment}`.

use super::comment::{NewGroupComment, check_comment};
use super::{Author, update_as_author};
use crate::operations::prelude::*;
use crate::requests::input;
use http::StatusCode;
use unslide_model::GroupRef;
use unslide_store::groups::{self, GroupUpdate};
use unslide_store::{GroupActivityId, audit};

problems!(
    ChangeFailures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged
);
problems!(DeleteFailures: InvalidParameter, NotFound, GroupMerged);

/// Change a comment
///
/// Changes a comment of a group. Only its author may: the same key, and in the console the same name. The audit log has the change.
#[utoipa::path(patch, path = "/v1/groups/{id}/comments/{comment}", tag = "groups", operation_id = "change_group_comment",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64),
        ("comment" = Uuid, Path, description = "The id of the comment's entry in the activity.")),
    request_body = NewGroupComment,
    responses((status = 204, description = "The comment is changed."), ChangeFailures),
    security(("key" = ["groups:write"])))]
pub async fn change_group_comment(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path((id, comment)): Path<(GroupRef, GroupActivityId)>,
    input::Json(new): input::Json<NewGroupComment>,
) -> Result<StatusCode, Problem> {
    let author = Author { access: &access, name: None };
    edit_as_author(&storage, &author, &id, comment, Some(&new.text)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete a comment
///
/// Deletes the text of a comment; the activity says that there was one. Only its author may, as for a change.
#[utoipa::path(delete, path = "/v1/groups/{id}/comments/{comment}", tag = "groups", operation_id = "delete_group_comment",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64),
        ("comment" = Uuid, Path, description = "The id of the comment's entry in the activity.")),
    responses((status = 204, description = "The comment is deleted."), DeleteFailures),
    security(("key" = ["groups:write"])))]
pub async fn delete_group_comment(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path((id, comment)): Path<(GroupRef, GroupActivityId)>,
) -> Result<StatusCode, Problem> {
    edit_as_author(&storage, &Author { access: &access, name: None }, &id, comment, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes a comment in the name of this author, or deletes it if there is no text.
///
/// # Errors
/// The failures that the operations document.
pub async fn edit_as_author(
    storage: &Storage,
    author: &Author<'_>,
    id: &GroupRef,
    comment: GroupActivityId,
    text: Option<&str>,
) -> Result<(), Problem> {
    let text = text.map(check_comment).transpose()?;
    let key = author.key_id();
    let actor = author.as_actor(&key);
    let mut tx = storage.tenant(author.access.tenant()).await?;
    // Only locks the group.
    let id = update_as_author(&mut tx, author, id, &GroupUpdate::default()).await?;
    if !groups::change_comment(&mut tx, actor, id, comment, text.as_deref()).await? {
        return Err(Problem::new(Kind::NotFound, "the group has no such comment of this author"));
    }
    let action = if text.is_some() { "group_comment.change" } else { "group_comment.delete" };
    let detail = serde_json::json!({"group": id});
    audit::append_entry(&mut tx, &key, action, &comment.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(())
}
