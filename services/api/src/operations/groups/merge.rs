//! `POST /v1/groups/{id}/merge`.

use super::reference::{resolve_group, resolve_sent};
use super::{Author, check_merged, no_such_group, respond_with_group};
use crate::operations::prelude::*;
use crate::requests::input;
use axum::response::Response;
use unslide_model::GroupRef;
use unslide_store::groups;
use unslide_store::queries::groups::{GroupCounts, get};

/// Maximum number of groups in one request.
const MERGED_GROUPS_LIMIT: usize = 50;

/// Groups to be merged into another one.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupMerge {
    /// Ids or short ids of the groups to merge into this one, 1 to 50.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 50, example = json!(["SHOP-1A2B"]))]
    pub groups: Vec<GroupRef>,
}

problems!(
    Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged, LimitReached
);

/// Merge groups
///
/// Present and future reports of these groups count for the group of the path, which is listed in their place. All
/// groups must be of one app. `POST /v1/groups/{id}/split` takes one out again.
#[utoipa::path(post, path = "/v1/groups/{id}/merge", tag = "groups", operation_id = "merge_groups",
    params(("id" = String, Path, description = "The id or short id of the group that stays.", max_length = 64)),
    request_body = GroupMerge,
    responses((status = 200, description = "The group after the merge.", body = GroupCounts),
        (status = 204, description = "It is done, and the key has no scope `reports:read` to see the group."), Failures),
    security(("key" = ["groups:write"])))]
pub async fn merge_groups(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    input::Json(wish): input::Json<GroupMerge>,
) -> Result<Response, Problem> {
    let group = merge_as_author(&storage, &Author { access: &access, name: None }, &id, &wish.groups).await?;
    Ok(respond_with_group(&access, group))
}

/// Merges groups in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn merge_as_author(
    storage: &Storage,
    author: &Author<'_>,
    id: &GroupRef,
    groups: &[GroupRef],
) -> Result<GroupCounts, Problem> {
    if groups.is_empty() || groups.len() > MERGED_GROUPS_LIMIT {
        let detail = format!("groups: 1 to {MERGED_GROUPS_LIMIT} ids or short ids");
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    let key = author.key_id();
    let mut tx = storage.tenant(author.access.tenant()).await?;
    let id = resolve_group(&mut tx, id).await?;
    let ids = resolve_sent(&mut tx, groups).await?;
    check_merged(
        groups::merge_groups(&mut tx, id, &ids, author.only_app(), author.as_actor(&key)).await?,
        id,
    )?;
    let group = get(&mut tx, id, author.only_app()).await?.ok_or_else(no_such_group)?;
    tx.commit().await?;
    Ok(group)
}
