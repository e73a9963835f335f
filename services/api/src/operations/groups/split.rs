//! `POST /v1/groups/{id}/split`.

use super::reference::{resolve_group, resolve_sent};
use super::{Author, check_merged, no_such_group, respond_with_group};
use crate::operations::prelude::*;
use crate::requests::input;
use axum::response::Response;
use unslide_model::GroupRef;
use unslide_store::groups;
use unslide_store::queries::groups::{ListedGroup, find_group};

/// A group to be taken out of another one.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSplit {
    /// Id or short id of the merged group to take out again.
    #[schema(value_type = String, example = "SHOP-1A2B")]
    pub group: GroupRef,
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged);

/// Split a group
///
/// Takes a merged group out again, with its own reports and its state from before the merge.
#[utoipa::path(post, path = "/v1/groups/{id}/split", tag = "groups", operation_id = "split_group",
    params(("id" = String, Path, description = "The id or short id of the group that it was merged into.", max_length = 64)),
    request_body = GroupSplit,
    responses((status = 200, description = "The group of the path after the split.", body = ListedGroup),
        (status = 204, description = "It is done, and the key has no scope `reports:read` to see the group."), Failures),
    security(("key" = ["groups:write"])))]
pub async fn split_group(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    input::Json(wish): input::Json<GroupSplit>,
) -> Result<Response, Problem> {
    let group = split_as_author(&storage, &Author { access: &access, name: None }, &id, &wish.group).await?;
    Ok(respond_with_group(&access, group))
}

/// Splits a group in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn split_as_author(
    storage: &Storage,
    author: &Author<'_>,
    id: &GroupRef,
    group: &GroupRef,
) -> Result<ListedGroup, Problem> {
    let key = author.key_id();
    let mut tx = storage.tenant(author.access.tenant()).await?;
    let id = resolve_group(&mut tx, id).await?;
    let group = resolve_sent(&mut tx, std::slice::from_ref(group)).await?.pop().unwrap_or_default();
    // The state before the split: afterwards the group may be empty and gone.
    let before = find_group(&mut tx, id, author.only_app()).await?.ok_or_else(no_such_group)?;
    check_merged(
        groups::split_group(&mut tx, id, group, author.only_app(), author.as_actor(&key)).await?,
        id,
    )?;
    let after = find_group(&mut tx, id, author.only_app()).await?;
    tx.commit().await?;
    Ok(after.unwrap_or(ListedGroup { reports: 0, ..before }))
}
