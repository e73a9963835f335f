//! `PATCH /v1/groups/{id}`.

use super::{Author, check_updated, no_such_group, respond_with_group};
use crate::operations::prelude::*;
use crate::requests::input;
use axum::response::Response;
use unslide_store::Uuid;
use unslide_store::groups::{self, GroupStatus, GroupUpdate};
use unslide_store::queries::groups::{ListedGroup, find_group};

/// Maximum length of a version or a name, in bytes.
const CHANGE_TEXT_BYTES: usize = 200;

/// Changes of a group. Absent fields do not change.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupPatch {
    /// New status: `open`, `resolved` or `ignored`.
    #[schema(value_type = Option<String>, example = "resolved")]
    pub status: Option<GroupStatus>,
    /// With `resolved`: the version that fixes the bug. A new report of a later version opens the group
    /// again; if absent, any new report does.
    #[schema(max_length = 200, example = "3.2.0")]
    pub resolved_in: Option<String>,
    /// The name of the person who works on it; empty for none.
    #[schema(max_length = 200, example = "Kim")]
    pub assignee: Option<String>,
}

problems!(
    Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged
);

/// Change a group
///
/// Resolves, ignores, reopens or assigns the group. If it was replaced, the group that replaced it is
/// changed.
#[utoipa::path(patch, path = "/v1/groups/{id}", tag = "groups", operation_id = "change_group",
    params(("id" = Uuid, Path, description = "The group's id.")),
    request_body = GroupPatch,
    responses((status = 200, description = "The group after the change.", body = ListedGroup),
        (status = 204, description = "It is done, and the key has no scope `reports:read` to see the group."), Failures),
    security(("key" = ["groups:write"])))]
pub async fn change_group(
    State(api): State<Api>,
    access: Access<GroupsWrite>,
    Path(id): Path<Uuid>,
    input::Json(patch): input::Json<GroupPatch>,
) -> Result<Response, Problem> {
    let group = change_as_author(&api, &Author { access: &access, name: None }, id, patch).await?;
    Ok(respond_with_group(&access, group))
}

/// Changes a group in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn change_as_author(
    api: &Api,
    author: &Author<'_>,
    id: Uuid,
    patch: GroupPatch,
) -> Result<ListedGroup, Problem> {
    let update = check_patch(patch)?;
    let key = author.key_id();
    let mut tx = api.tenant(author.access.tenant()).await?;
    let id = check_updated(
        groups::update_group(&mut tx, id, author.only_app(), author.as_actor(&key), &update).await?,
        id,
    )?;
    let group = find_group(&mut tx, id, author.only_app()).await?.ok_or_else(no_such_group)?;
    tx.commit().await?;
    Ok(group)
}

fn check_patch(patch: GroupPatch) -> Result<GroupUpdate, Problem> {
    let wrong = |text: &Option<String>, least: usize| {
        let bad = |text: &String| {
            text.len() < least || !text.is_empty() && !input::is_text(text, CHANGE_TEXT_BYTES)
        };
        text.as_ref().is_some_and(bad)
    };
    let detail = if patch.status == Some(GroupStatus::Regressed) {
        "status: open, resolved or ignored"
    } else if patch.resolved_in.is_some() && patch.status != Some(GroupStatus::Resolved) {
        "resolved_in: only with the status resolved"
    } else if wrong(&patch.resolved_in, 1) {
        "resolved_in: 1 to 200 bytes, no control characters"
    } else if wrong(&patch.assignee, 0) {
        "assignee: at most 200 bytes, no control characters"
    } else {
        let GroupPatch { status, resolved_in, assignee } = patch;
        return Ok(GroupUpdate { status, resolved_in, assignee });
    };
    Err(Problem::new(Kind::InvalidBody, detail))
}
