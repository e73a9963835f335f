//! Saved views: names of filters, above the list of groups.

use super::group_filters::{ASSIGNED_TO_ME, GROUP_FILTERS, GROUPS_PAGE, UNASSIGNED, USUAL_STATUS};
use crate::prelude::*;
use unslide_api::feature::operation::JsonBody;
use unslide_api::feature::site::{
    GroupViewPatch, NewGroupView, change_group_view, create_group_view, delete_group_view, list_group_views,
};
use unslide_model::Scope;
use unslide_site::SentForm;
use unslide_store::GroupViewId;
use unslide_store::groups::views::{GroupView, GroupViewFilter};

/// The value of `status` in an address that lists groups of every status.
const EVERY_STATUS: &str = "all";

/// The saved views of a page.
pub struct SavedViews {
    pub lines: Vec<ViewLine>,
    /// The parameters that make the page's filter, for the form that saves it.
    pub filter: Vec<(&'static str, String)>,
    /// True if the key may save views of the whole tenant.
    pub may_share: bool,
}

/// A view as a line of the page.
pub struct ViewLine {
    pub id: GroupViewId,
    pub name: String,
    pub shared: bool,
    pub address: String,
    /// True if the page shows it.
    pub current: bool,
    /// True if the key may rename and delete it.
    pub may_change: bool,
}

impl SavedViews {
    /// Reads the views of a key and of its tenant.
    ///
    /// # Errors
    /// The database fails.
    pub async fn load_for_page(
        storage: &Arc<Storage>,
        access: &Access<ReportsRead>,
        state: &PageState,
    ) -> Result<SavedViews, Problem> {
        let Json(found) = list_group_views(State(storage.clone()), access.clone()).await?;
        let shown = to_filter(state);
        let may_share = access.principal.has_scope(Scope::GroupsWrite);
        let to_line = |view: GroupView| ViewLine {
            id: view.id,
            address: view_address(&view.filter),
            current: view.filter == shown,
            may_change: may_share || !view.shared,
            name: view.name,
            shared: view.shared,
        };
        let filter = GROUP_FILTERS.iter().filter_map(|name| Some((*name, state.get_text(name)?)));
        Ok(SavedViews {
            lines: found.items.into_iter().map(to_line).collect(),
            filter: filter.collect(),
            may_share,
        })
    }
}

/// `POST /console/groups/views`: saves the filter of a page under a name.
pub async fn save_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    form: SentForm,
) -> Result<Response, Problem> {
    let fields = GROUP_FILTERS.iter().filter_map(|name| Some((*name, form.get(name)?)));
    let state = fields.fold(PageState::default(), |state, (name, value)| state.with_parameter(name, value));
    let new = NewGroupView {
        name: form.field_text("name"),
        shared: form.get("shared").is_some(),
        filter: to_filter(&state),
    };
    let (_, Json(view)) = create_group_view(State(storage), signed.access, JsonBody(new)).await?;
    Ok(Redirect::to(&view_address(&view.filter)).into_response())
}

/// `POST /console/groups/views/{id}`: renames a view.
pub async fn rename_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<GroupViewId>,
    form: SentForm,
) -> Result<Response, Problem> {
    let patch = GroupViewPatch { name: Some(form.field_text("name")), filter: None };
    let Json(view) = change_group_view(State(storage), signed.access, Path(id), JsonBody(patch)).await?;
    Ok(Redirect::to(&view_address(&view.filter)).into_response())
}

/// `POST /console/groups/views/{id}/delete`: deletes a view.
pub async fn delete_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<GroupViewId>,
) -> Result<Response, Problem> {
    delete_group_view(State(storage), signed.access, Path(id)).await?;
    Ok(Redirect::to(GROUPS_PAGE).into_response())
}

/// Returns the filter of a page.
fn to_filter(state: &PageState) -> GroupViewFilter {
    let status = state.get("status").unwrap_or(USUAL_STATUS);
    let assigned = state.get("assigned");
    GroupViewFilter {
        app: state.get_text("app"),
        version: state.get_text("version"),
        new_in: state.get_text("new_in"),
        new_days: state.get("new_days").and_then(|days| days.parse().ok()),
        days: state.get("days").and_then(|days| days.parse().ok()),
        kind: state.get_text("kind"),
        q: state.get_text("q"),
        provisional: state.get("symbols").map(|symbols| symbols == "missing"),
        status: Some(status.to_owned()).filter(|status| status != EVERY_STATUS),
        assignee: match assigned {
            Some(ASSIGNED_TO_ME) => None,
            Some(UNASSIGNED) => Some(String::new()),
            _ => state.get_text("assignee"),
        },
        assigned_to_me: assigned == Some(ASSIGNED_TO_ME),
        label: state.get_text("label"),
        sort: state.get_text("sort"),
    }
}

/// Returns the address of the page that shows a filter.
fn view_address(filter: &GroupViewFilter) -> String {
    let in_days = |days: Option<u16>| days.map(|days| days.to_string());
    let (days, new_days) = (in_days(filter.days), in_days(filter.new_days));
    let status = filter.status.as_deref().unwrap_or(EVERY_STATUS);
    let is_unassigned = filter.assignee.as_deref() == Some("");
    let assigned = match (filter.assigned_to_me, is_unassigned) {
        (true, _) => Some(ASSIGNED_TO_ME),
        (false, true) => Some(UNASSIGNED),
        (false, false) => None,
    };
    let symbols = filter.provisional.map(|missing| if missing { "missing" } else { "there" });
    let pairs = [
        ("app", filter.app.as_deref()),
        ("version", filter.version.as_deref()),
        ("days", days.as_deref()),
        ("q", filter.q.as_deref()),
        ("kind", filter.kind.as_deref()),
        ("symbols", symbols),
        ("status", Some(status).filter(|status| *status != USUAL_STATUS)),
        ("assignee", filter.assignee.as_deref()),
        ("assigned", assigned),
        ("new_in", filter.new_in.as_deref()),
        ("new_days", new_days.as_deref()),
        ("label", filter.label.as_deref()),
        ("sort", filter.sort.as_deref()),
    ];
    build_link(GROUPS_PAGE, &pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pairs: &[(&str, &str)]) -> PageState {
        pairs.iter().fold(PageState::default(), |state, (name, value)| state.with_parameter(name, value))
    }

    #[test]
    fn the_address_of_a_view_shows_its_filter_again() {
        for pairs in [
            &[][..],
            &[("status", "all"), ("assigned", "none")],
            &[("app", "a b"), ("days", "7"), ("assigned", "me"), ("symbols", "there"), ("sort", "reports")],
            &[("status", "regressed"), ("assignee", "Kim"), ("new_in", "2.0"), ("q", "Cart")],
            &[("label", "owner:@example/cart"), ("sort", "reports")],
            &[("new_in", "2.0"), ("new_days", "14"), ("status", "all"), ("sort", "first_seen")],
        ] {
            let filter = to_filter(&state(pairs));
            let address = view_address(&filter);
            let query = address.split_once('?').map_or("", |(_, query)| query);
            let read: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            let read: Vec<(&str, &str)> =
                read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(to_filter(&state(&read)), filter, "{address}");
        }
        assert_eq!(view_address(&to_filter(&state(&[]))), "/console/groups");
    }
}
