//! `POST /v1/groups/{id}/comments`.

use super::{Author, update_as_author};
use crate::operations::prelude::*;
use crate::requests::input;
use http::StatusCode;
use unslide_model::GroupRef;
use unslide_store::GroupActivityId;
use unslide_store::groups::{self, GroupUpdate};

/// Maximum length of a comment, in bytes.
const COMMENT_BYTES: usize = 4_000;

/// Something to say about a group.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroupComment {
    /// Plain text; lines end in a line feed.
    #[schema(min_length = 1, max_length = 4000)]
    pub text: String,
}

/// A comment that was added.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AddedGroupComment {
    /// The id of its entry in the group's activity.
    #[schema(value_type = Uuid)]
    pub id: GroupActivityId,
}

problems!(
    Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged
);

/// Comment on a group
///
/// Adds a comment to the group's activity. Its author can change and delete it. It moves with the group's reports if late symbols move
/// them.
#[utoipa::path(post, path = "/v1/groups/{id}/comments", tag = "groups", operation_id = "comment_on_group",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    request_body = NewGroupComment,
    responses((status = 201, description = "The comment is there.", body = AddedGroupComment), Failures),
    security(("key" = ["groups:write"])))]
pub async fn comment_on_group(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    input::Json(new): input::Json<NewGroupComment>,
) -> Result<(StatusCode, Json<AddedGroupComment>), Problem> {
    let id = comment_as_author(&storage, &Author { access: &access, name: None }, &id, &new.text).await?;
    Ok((StatusCode::CREATED, Json(AddedGroupComment { id })))
}

/// Adds a comment in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn comment_as_author(
    storage: &Storage,
    author: &Author<'_>,
    id: &GroupRef,
    text: &str,
) -> Result<GroupActivityId, Problem> {
    let text = check_comment(text)?;
    let key = author.key_id();
    let actor = author.as_actor(&key);
    let mut tx = storage.tenant(author.access.tenant()).await?;
    // Only locks the group.
    let id = update_as_author(&mut tx, author, id, &GroupUpdate::default()).await?;
    let comment = groups::add_comment(&mut tx, actor, id, &text).await?;
    tx.commit().await?;
    Ok(comment)
}

/// Returns the text of a comment with line feeds alone and without space around it.
///
/// # Errors
/// [`Kind::InvalidBody`] if it is empty, too long, or has control characters.
pub(super) fn check_comment(text: &str) -> Result<String, Problem> {
    let text = text.replace("\r\n", "\n").trim().to_owned();
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.is_empty() || text.len() > COMMENT_BYTES || text.chars().any(control) {
        let detail = "text: 1 to 4000 bytes, no control characters but line feeds and tabs";
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    Ok(text)
}
