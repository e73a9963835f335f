//! `/console/groups`: the bugs that match the filters.

use crate::bar::{BarSelect, FilterBar, SEARCH_LABEL, app_and_version, period_or_all};
use crate::components::chart::GroupTrends;
use crate::components::rows::{self, GroupHead, group_heads};
use crate::pages::lists::{self, ListLink};
use crate::pages::search::{find_by_id, read_id};
use crate::prelude::*;
use time::OffsetDateTime;
use unslide_api::feature::site::{GROWING, GroupQuery, list_groups};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::trends;

const GROUPS_PAGE: &str = "/console/groups";
const GROUP_FILTERS: [&str; 10] =
    ["app", "version", "days", "q", "kind", "symbols", "status", "assignee", "new_in", "sort"];
/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED_GROUP_FILTERS: [&str; 2] = ["assignee", "new_in"];
/// The statuses that are listed by default: groups that need attention.
const USUAL_STATUS: &str = "open,regressed";

#[derive(Template)]
#[template(path = "console/pages/group_pages/groups.html", askama = escaping)]
struct GroupsPage {
    shell: Shell,
    groups: Vec<ListedGroup>,
    trends: GroupTrends,
    heads: Vec<GroupHead>,
    next: Option<String>,
    links: Vec<ListLink>,
    filtered: bool,
    /// True if the search text is an id that was not found.
    is_unknown_id: bool,
    caption: &'static str,
    days: i64,
}

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    if let Some(path) = find_by_id(&api, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let Json(found) =
        list_groups(State(api.clone()), access.clone(), Query(build_query(&state, now))).await?;
    let ids: Vec<_> = found.items.iter().map(|group| group.id).collect();
    let first = state.first_day(now);
    let mut tx = api.tenant(access.tenant()).await?;
    let trends = GroupTrends::from_rows(
        &trends::read_group_trends(&mut tx, &ids, state.get("version"), first).await?,
        (first, now.date()),
    );
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    selects.extend([
        status_select(&state),
        kind_select(&state),
        symbols_select(&state),
        order_select(&state),
        period_or_all(&state),
    ]);
    let bar = FilterBar {
        action: GROUPS_PAGE.to_owned(),
        selects,
        search: Some(state.get_text("q").unwrap_or_default()),
        search_label: SEARCH_LABEL,
        chips: LINKED_GROUP_FILTERS.iter().filter_map(|name| build_chip(&state, name)).collect(),
        hidden: LINKED_GROUP_FILTERS.iter().filter_map(|name| Some((*name, state.get_text(name)?))).collect(),
    };
    let sorted = |sort: &'static str| {
        let others =
            GROUP_FILTERS.iter().filter(|name| **name != "sort").map(|name| (*name, state.get(name)));
        Some(build_link(GROUPS_PAGE, &others.chain([("sort", Some(sort))]).collect::<Vec<_>>()))
    };
    render_html(&GroupsPage {
        heads: group_heads(Some(state.get("sort").unwrap_or("last_seen")), sorted),
        shell: Shell::for_viewer(signed.viewer, "groups", "Groups")
            .with_about(state.get("app").unwrap_or_default())
            .with_bar(bar),
        groups: found.items,
        trends,
        next: found.next_cursor.map(|cursor| state.at_cursor(GROUPS_PAGE, &GROUP_FILTERS, &cursor)),
        links: lists::list_links(&api, "groups", &state.parameter_pairs(&GROUP_FILTERS)),
        caption: match state.get("sort") {
            Some(GROWING) => "Reports of the last 7 days, and how many more than in the 7 days before",
            _ if state.get("version").is_some() || state.get("days").is_some() => {
                "Reports of the version and the period that were chosen, of all reports of each bug"
            }
            _ => "Groups of reports, one for each bug",
        },
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        filtered: GROUP_FILTERS.iter().any(|name| state.get(name).is_some()),
        days: state.chart_days(),
    })
}

/// Returns the query in the page's address.
pub(crate) fn build_query(state: &PageState, now: OffsetDateTime) -> GroupQuery {
    // Growing groups have their own period.
    let has_period = state.get("days").is_some() && state.get("sort") != Some(GROWING);
    GroupQuery {
        app: state.get_text("app"),
        version: state.get_text("version"),
        first_version: state.get_text("new_in"),
        from_day: has_period.then(|| state.first_day(now).to_string()),
        kind: state.get_text("kind"),
        q: state.get_text("q"),
        provisional: state.get("symbols").map(|symbols| symbols == "missing"),
        status: Some(state.get("status").unwrap_or(USUAL_STATUS).to_owned()).filter(|status| status != "all"),
        assignee: state.get_text("assignee"),
        sort: state.get_text("sort"),
        cursor: state.get_text("cursor"),
        ..GroupQuery::default()
    }
}

/// Returns a filter that a link has set, and the address without it.
fn build_chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others: Vec<_> = GROUP_FILTERS
        .iter()
        .filter(|other| **other != name)
        .map(|other| (*other, state.get(other)))
        .collect();
    let label = if name == "new_in" { format!("new in {value}") } else { format!("assigned to {value}") };
    Some((label, build_link(GROUPS_PAGE, &others)))
}

fn status_select(state: &PageState) -> BarSelect {
    let choices = [
        ("", "open and regressed"),
        ("regressed", "regressed"),
        ("resolved", "resolved"),
        ("ignored", "ignored"),
        ("all", "all"),
    ];
    BarSelect::from_words("status", "State", &choices, state)
}

fn kind_select(state: &PageState) -> BarSelect {
    let kinds = [
        ("", "all"),
        ("crash", "crash"),
        ("exception", "exception"),
        ("stack_overflow", "stack overflow"),
        ("hang", "hang"),
        ("cpu", "CPU use"),
        ("disk_write", "disk writes"),
        ("launch", "slow launch"),
        ("profile", "profile"),
        ("out_of_memory", "out of memory"),
        ("termination", "termination"),
        ("memory_warning", "memory warning"),
        ("user", "reported by the app"),
        ("javascript", "JavaScript"),
    ];
    BarSelect::from_words("kind", "Kind", &kinds, state)
}

fn symbols_select(state: &PageState) -> BarSelect {
    let choices = [("", "all"), ("missing", "missing"), ("there", "there")];
    BarSelect::from_words("symbols", "Symbols", &choices, state)
}

fn order_select(state: &PageState) -> BarSelect {
    let choices =
        [("", "last seen"), ("first_seen", "first seen"), ("reports", "reports"), (GROWING, "growing")];
    BarSelect::from_words("sort", "Order", &choices, state)
}
