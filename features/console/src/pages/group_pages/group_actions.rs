//! Actions of the forms on a group's page. Each returns to the page.

use crate::prelude::*;
use unslide_api::feature::site::Author;
use unslide_api::feature::site::GroupsWrite;
use unslide_api::feature::site::{GroupPatch, change_as_author};
use unslide_api::feature::site::{comment, edit_comment, merge, split};
use unslide_model::GroupRef;
use unslide_site::SentForm;
use unslide_store::groups::GroupStatus;
use unslide_store::{GroupActivityId, GroupId};

pub(super) fn to_author(signed: &SignedIn<GroupsWrite>) -> Author<'_> {
    Author { access: &signed.access, name: signed.viewer.name.as_deref() }
}

/// Redirects to a part of the group's page.
fn redirect_to_group(id: GroupId, part: &str) -> Response {
    Redirect::to(&format!("/console/groups/{id}#{part}")).into_response()
}

/// `POST /console/groups/{id}/update`: changes the status or the assignee.
pub async fn update_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let patch = read_patch(&form)?;
    change_as_author(&storage, &to_author(&signed), &id.into(), patch).await?;
    Ok(redirect_to_group(id, "state"))
}

/// Returns the change in a form. Of its fields, those count that belong to the button that sent it.
pub(super) fn read_patch(form: &SentForm) -> Result<GroupPatch, Problem> {
    if form.get("undo").is_some() {
        return Ok(GroupPatch { undo: true, ..GroupPatch::default() });
    }
    let resolved_in_next = form.get("resolved_in_next").is_some();
    let ignored_until_next = form.get("ignored_until_next").is_some();
    let status = form.get("status").map(|word| {
        GroupStatus::parse(word)
            .ok_or_else(|| Problem::new(Kind::InvalidBody, "status: open, resolved or ignored"))
    });
    let status = match (resolved_in_next, ignored_until_next) {
        (true, _) => Some(GroupStatus::Resolved),
        (false, true) => Some(GroupStatus::Ignored),
        _ => status.transpose()?,
    };
    let is_resolved = status == Some(GroupStatus::Resolved) && !resolved_in_next;
    let is_ignored = status == Some(GroupStatus::Ignored) && !ignored_until_next;
    let number = |name: &str| if is_ignored { form.parse_number(name) } else { Ok(None) };
    Ok(GroupPatch {
        status,
        resolved_in: form.get("resolved_in").filter(|_| is_resolved).map(str::to_owned),
        resolved_in_next,
        ignore_until: if is_ignored { form.parse_day("until")? } else { None },
        ignore_more_reports: number("more_reports")?,
        ignore_more_devices: number("more_devices")?,
        ignore_until_next_version: ignored_until_next,
        undo: false,
        // An empty field removes the assignee.
        assignee: (status.is_none() && form.has_field("assignee")).then(|| form.field_text("assignee")),
        ticket_url: (status.is_none() && form.has_field("ticket_url")).then(|| form.field_text("ticket_url")),
    })
}

pub async fn add_comment(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupId>,
    form: SentForm,
) -> Result<Response, Problem> {
    comment::comment_as_author(
        &storage,
        &to_author(&signed),
        &id.into(),
        form.get("text").unwrap_or_default(),
    )
    .await?;
    Ok(redirect_to_group(id, "activity"))
}

/// `POST /console/groups/{id}/comments/{comment}/change`: changes a comment of the session.
pub async fn change_comment(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path((id, comment)): Path<(GroupId, GroupActivityId)>,
    form: SentForm,
) -> Result<Response, Problem> {
    let text = form.get("text").unwrap_or_default();
    edit_comment::edit_as_author(&storage, &to_author(&signed), &id.into(), comment, Some(text)).await?;
    Ok(redirect_to_group(id, "activity"))
}

/// `POST /console/groups/{id}/comments/{comment}/delete`: deletes a comment of the session.
pub async fn delete_comment(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path((id, comment)): Path<(GroupId, GroupActivityId)>,
) -> Result<Response, Problem> {
    edit_comment::edit_as_author(&storage, &to_author(&signed), &id.into(), comment, None).await?;
    Ok(redirect_to_group(id, "activity"))
}

/// `POST /console/groups/{id}/merge`: merges the groups that were chosen, or pasted as ids, short ids or addresses of pages.
pub async fn merge_into(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let words =
        form.field_texts("group").flat_map(|text| text.split(|c: char| c.is_whitespace() || c == ','));
    let groups = words.filter(|word| !word.is_empty()).map(parse_group);
    let groups: Vec<GroupRef> = groups.collect::<Result<_, _>>()?;
    merge::merge_as_author(&storage, &to_author(&signed), &id.into(), &groups).await?;
    Ok(redirect_to_group(id, "activity"))
}

pub async fn split_off(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupId>,
    form: SentForm,
) -> Result<Response, Problem> {
    split::split_as_author(
        &storage,
        &to_author(&signed),
        &id.into(),
        &parse_group(form.get("group").unwrap_or_default())?,
    )
    .await?;
    Ok(redirect_to_group(id, "activity"))
}

fn parse_group(text: &str) -> Result<GroupRef, Problem> {
    text.parse().map_err(|error| Problem::new(Kind::InvalidBody, format!("group: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::OffsetDateTime;

    fn form(pairs: &[(&str, &str)]) -> SentForm {
        SentForm::from_fields(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    #[test]
    fn the_button_decides_which_fields_count() {
        let fields =
            [("resolved_in", "2.0"), ("more_reports", "5"), ("until", "2026-12-01"), ("assignee", "Kim")];
        let with = |button: (&str, &str)| read_patch(&form(&[&[button][..], &fields].concat())).unwrap();
        let resolved = with(("status", "resolved"));
        assert_eq!(
            (resolved.resolved_in.as_deref(), resolved.assignee, resolved.ignore_more_reports),
            (Some("2.0"), None, None)
        );
        let next = with(("resolved_in_next", "1"));
        assert_eq!(
            (next.status, next.resolved_in, next.resolved_in_next),
            (Some(GroupStatus::Resolved), None, true)
        );
        let until_next = with(("ignored_until_next", "1"));
        assert_eq!(
            (until_next.status, until_next.ignore_until_next_version, until_next.ignore_more_reports),
            (Some(GroupStatus::Ignored), true, None)
        );
        let undo = with(("undo", "1"));
        assert_eq!((undo.undo, undo.status, undo.assignee), (true, None, None));
        let ignored = with(("status", "ignored"));
        assert_eq!((ignored.ignore_more_reports, ignored.resolved_in), (Some(5), None));
        assert_eq!(ignored.ignore_until.map(OffsetDateTime::unix_timestamp), Some(1_796_083_200));
        let assigned = with(("assign", "1"));
        assert_eq!((assigned.status, assigned.assignee.as_deref()), (None, Some("Kim")));
        assert!(read_patch(&form(&[("status", "ignored"), ("until", "soon")])).is_err());
    }
}
