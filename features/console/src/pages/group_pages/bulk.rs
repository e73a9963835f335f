//! The form of the list that changes the groups that are ticked.

use super::group_actions::{read_patch, to_author};
use super::group_filters::GROUPS_PAGE;
use crate::prelude::*;
use unslide_api::feature::site::{
    ChangedGroups, GroupChanges, GroupOutcome, GroupsWrite, change_all_as_author,
};
use unslide_model::GroupRef;
use unslide_site::{SentForm, is_local};

#[derive(Template)]
#[template(path = "console/pages/group_pages/bulk.html", askama = escaping)]
struct OutcomesPage {
    shell: Shell,
    changed: ChangedGroups,
    back: String,
}

/// The parameter with the groups that can take the change back.
pub const UNDO_FIELD: &str = "undo";

/// `POST /console/groups/changes`: returns to the list if every group was changed; else lists the outcomes.
pub async fn change_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    form: SentForm,
) -> Result<Response, Problem> {
    let groups: Vec<GroupRef> = form
        .field_texts("group")
        .map(|id| id.parse().map_err(|error| Problem::new(Kind::InvalidBody, format!("group: {error}"))))
        .collect::<Result<_, _>>()?;
    if groups.is_empty() {
        let detail =
            "group: no group was chosen. Tick the boxes of the groups in the list, and send the form again";
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    let merge = form.get("merge").is_some();
    let change = if merge { None } else { Some(read_patch(&form)?) };
    let changed =
        change_all_as_author(&storage, &to_author(&signed), GroupChanges { groups, change, merge }).await?;
    let back = list_address(form.get("back"));
    if changed.done == changed.outcomes.len() {
        let joint = if back.contains('?') { '&' } else { '?' };
        let ids: Vec<String> =
            changed.outcomes.iter().filter_map(|one| Some(one.group?.to_string())).collect();
        let undo = if merge { String::new() } else { format!("&{UNDO_FIELD}={}", ids.join(",")) };
        return Ok(Redirect::to(&format!("{back}{joint}changed={}{undo}", changed.done)).into_response());
    }
    let title =
        format!("{} of {} were changed", changed.done, counted(changed.outcomes.len(), "group", "groups"));
    let shell = Shell::for_viewer(signed.viewer, "groups", title);
    render_html(&OutcomesPage { shell, changed, back })
}

/// Returns the address of the list that the form was sent from.
fn list_address(sent: Option<&str>) -> String {
    let is_list = |address: &&str| {
        let rest = address.strip_prefix(GROUPS_PAGE);
        is_local(address) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('?'))
    };
    sent.filter(is_list).unwrap_or(GROUPS_PAGE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_a_list_of_groups() {
        assert_eq!(list_address(Some("/console/groups?app=a")), "/console/groups?app=a");
        for other in [None, Some("https://evil.example"), Some("/console/keys"), Some("/console/groupsx")] {
            assert_eq!(list_address(other), GROUPS_PAGE);
        }
    }
}
