//! Groups: the reports of one bug.

pub mod activity;
pub mod bulk;
pub mod change;
pub mod comment;
pub mod context;
pub mod edit_comment;
pub mod findings;
pub mod get;
pub mod list;
pub mod markdown;
pub mod merge;
pub mod reference;
pub mod representative;
pub mod split;

use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use unslide_model::{GroupRef, Scope};
use unslide_store::groups::{self, GroupActor, GroupUpdate, MAX_MERGED, MergeOutcome, UpdateOutcome};
use unslide_store::{GroupId, TenantTx};

/// The routes of this folder.
pub fn group_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_groups))
        .routes(routes!(bulk::change_groups))
        .routes(routes!(get::get_group, change::change_group))
        .routes(routes!(activity::list_group_activity))
        .routes(routes!(context::get_group_context))
        .routes(routes!(comment::comment_on_group))
        .routes(routes!(edit_comment::change_group_comment, edit_comment::delete_group_comment))
        .routes(routes!(merge::merge_groups))
        .routes(routes!(split::split_group))
}

/// The author of a change to a group: a key, possibly through a console session with a name.
pub struct Author<'a> {
    /// The access of the key.
    pub access: &'a Access<GroupsWrite>,
    pub name: Option<&'a str>,
}

impl Author<'_> {
    pub fn key_id(&self) -> String {
        self.access.principal.key_id.to_string()
    }

    /// Returns the actor for the group's activity, with the key's id `key`.
    pub fn as_actor<'k>(&'k self, key: &'k str) -> GroupActor<'k> {
        GroupActor { actor: key, name: self.name }
    }

    /// Returns the only app with groups that the author may see.
    pub fn only_app(&self) -> Option<&str> {
        self.access.only_app()
    }
}

/// Responds with a group, or with no content if the key may change groups but not read them.
fn respond_with_group<T: Serialize>(access: &Access<GroupsWrite>, group: T) -> Response {
    if access.principal.has_scope(Scope::ReportsRead) {
        Json(group).into_response()
    } else {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// Returns the address of a group's page, if the address of the console is known.
#[must_use]
pub fn group_link(public_url: &str, group: GroupId) -> Option<String> {
    (!public_url.is_empty()).then(|| format!("{public_url}/console/groups/{group}"))
}

/// Returns the problem for a group that does not exist.
pub fn no_such_group() -> Problem {
    Problem::new(Kind::NotFound, "there is no such group")
}

fn is_merged(group: GroupId, into: GroupId) -> Problem {
    Problem::new(Kind::GroupMerged, format!("group {group} is merged into group {into}"))
}

/// Returns the id of the changed group: `id`, or the group that replaced it.
///
/// # Errors
/// The reason why it was not changed.
pub fn check_updated(outcome: UpdateOutcome, id: GroupId) -> Result<GroupId, Problem> {
    match outcome {
        UpdateOutcome::Done(id) => Ok(id),
        UpdateOutcome::NotFound => Err(no_such_group()),
        UpdateOutcome::Merged(into) => Err(is_merged(id, into)),
        UpdateOutcome::NoVersion => {
            let detail = "no report of the app names a version, so there is no next one";
            Err(Problem::new(Kind::InvalidBody, detail))
        }
    }
}

/// Changes a group in the name of this author. Returns its id, or that of the group that replaced it.
///
/// # Errors
/// [`Kind::NotFound`], or the reason why it was not changed.
async fn update_as_author(
    tx: &mut TenantTx,
    author: &Author<'_>,
    group: &GroupRef,
    update: &GroupUpdate,
) -> Result<GroupId, Problem> {
    let id = reference::resolve_group(tx, group).await?;
    let key = author.key_id();
    check_updated(groups::update_group(tx, id, author.only_app(), author.as_actor(&key), update).await?, id)
}

/// Converts the outcome of a merge or a split of `target`.
///
/// # Errors
/// The reason why it was not done.
pub fn check_merged(outcome: MergeOutcome, target: GroupId) -> Result<(), Problem> {
    match outcome {
        MergeOutcome::Done => Ok(()),
        MergeOutcome::NotFound(id) if id == target => Err(no_such_group()),
        MergeOutcome::NotFound(id) => Err(Problem::new(Kind::InvalidBody, format!("there is no group {id}"))),
        MergeOutcome::OtherApp(id) => {
            Err(Problem::new(Kind::InvalidBody, format!("group {id} is of another app")))
        }
        MergeOutcome::NotMerged(id) => {
            Err(Problem::new(Kind::InvalidBody, format!("group {id} is not merged into group {target}")))
        }
        MergeOutcome::Merged { group, into } => Err(is_merged(group, into)),
        MergeOutcome::TooMany => {
            let detail = format!("a group can have {MAX_MERGED} groups merged into it");
            Err(Problem::new(Kind::LimitReached, detail))
        }
    }
}
