//! Actions of the forms on a group's page. Each returns to the page.

use crate::form::SentForm;
use crate::prelude::*;
use unslide_api::feature::site::Author;
use unslide_api::feature::site::GroupsWrite;
use unslide_api::feature::site::{GroupPatch, change_as_author};
use unslide_api::feature::site::{comment, merge, split};
use unslide_store::Uuid;
use unslide_store::groups::GroupStatus;

fn to_author(signed: &SignedIn<GroupsWrite>) -> Author<'_> {
    Author { access: &signed.access, name: signed.viewer.name.as_deref() }
}

fn redirect_to_group(id: Uuid) -> Response {
    Redirect::to(&format!("/console/groups/{id}")).into_response()
}

/// `POST /console/groups/{id}/update`: changes the status or the assignee.
pub async fn update_from_form(
    State(api): State<Api>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    let status = form.get("status").map(|word| {
        GroupStatus::parse(word)
            .ok_or_else(|| Problem::new(Kind::InvalidParameter, "status: open, resolved or ignored"))
    });
    let patch = GroupPatch {
        status: status.transpose()?,
        resolved_in: form.get("resolved_in").map(str::to_owned),
        // An empty field removes the assignee.
        assignee: form.has_field("assignee").then(|| form.field_text("assignee")),
    };
    change_as_author(&api, &to_author(&signed), id, patch).await?;
    Ok(redirect_to_group(id))
}

pub async fn add_comment(
    State(api): State<Api>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    comment::comment_as_author(&api, &to_author(&signed), id, form.get("text").unwrap_or_default()).await?;
    Ok(redirect_to_group(id))
}

/// `POST /console/groups/{id}/merge`: merges the groups that were chosen or pasted as ids.
pub async fn merge_into(
    State(api): State<Api>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    let words =
        form.field_texts("group").flat_map(|text| text.split(|c: char| c.is_whitespace() || c == ','));
    // Addresses of pages are accepted, too: they end in the id.
    let ids = words
        .filter(|word| !word.is_empty())
        .map(|word| parse_group_id(word.rsplit('/').next().unwrap_or(word)));
    let ids: Vec<Uuid> = ids.collect::<Result<_, _>>()?;
    merge::merge_as_author(&api, &to_author(&signed), id, &ids).await?;
    Ok(redirect_to_group(id))
}

pub async fn split_off(
    State(api): State<Api>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<Uuid>,
    form: SentForm,
) -> Result<Response, Problem> {
    split::split_as_author(
        &api,
        &to_author(&signed),
        id,
        parse_group_id(form.get("group").unwrap_or_default())?,
    )
    .await?;
    Ok(redirect_to_group(id))
}

fn parse_group_id(id: &str) -> Result<Uuid, Problem> {
    id.parse().map_err(|_| Problem::new(Kind::InvalidBody, format!("group: {id:?} is not the id of a group")))
}
