//! Groups: the reports of one bug.

pub mod activity;
pub mod change;
pub mod comment;
pub mod get;
pub mod list;
pub mod merge;
pub mod split;

use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use unslide_model::Scope;
use unslide_store::Uuid;
use unslide_store::groups::{GroupActor, MAX_MERGED, MergeOutcome, UpdateOutcome};

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_groups))
        .routes(routes!(get::get_group, change::change_group))
        .routes(routes!(activity::list_group_activity))
        .routes(routes!(comment::comment_on_group))
        .routes(routes!(merge::merge_groups))
        .routes(routes!(split::split_group))
}

/// Who changes a group: a key, perhaps through a session of the console with a name.
pub struct Author<'a> {
    /// The key, and what it may do.
    pub access: &'a Access<GroupsWrite>,
    /// The session's name.
    pub name: Option<&'a str>,
}

impl Author<'_> {
    /// The key's id.
    pub fn key(&self) -> String {
        self.access.principal.key_id.to_string()
    }

    /// What the group's activity says of the author with the key `key`.
    pub fn actor<'k>(&'k self, key: &'k str) -> GroupActor<'k> {
        GroupActor { actor: key, name: self.name }
    }

    /// The only app with groups that the author may see.
    pub fn app(&self) -> Option<&str> {
        self.access.only_app()
    }
}

/// Answers with a group, or with no content if the key may change groups and read none.
fn answer<T: Serialize>(access: &Access<GroupsWrite>, group: T) -> Response {
    if access.principal.may(Scope::ReportsRead) {
        Json(group).into_response()
    } else {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// What is said of a group that is not there.
pub fn no_such_group() -> Problem {
    Problem::new(Kind::NotFound, "there is no such group")
}

fn is_merged(group: Uuid, into: Uuid) -> Problem {
    Problem::new(Kind::GroupMerged, format!("group {group} is merged into group {into}"))
}

/// Returns the group that was changed: the one with this id, or the one that replaced it.
///
/// # Errors
/// If it was not changed: why.
pub fn updated(outcome: UpdateOutcome, id: Uuid) -> Result<Uuid, Problem> {
    match outcome {
        UpdateOutcome::Done(id) => Ok(id),
        UpdateOutcome::NotFound => Err(no_such_group()),
        UpdateOutcome::Merged(into) => Err(is_merged(id, into)),
    }
}

/// Why a merge or a split of `target` was not done.
///
/// # Errors
/// Where it was not.
pub fn merged(outcome: MergeOutcome, target: Uuid) -> Result<(), Problem> {
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
