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

const PATH: &str = "/console/groups";
const FILTERS: [&str; 10] =
    ["app", "version", "days", "q", "kind", "symbols", "status", "assignee", "new_in", "sort"];
/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED: [&str; 2] = ["assignee", "new_in"];
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

/// `GET /console/groups`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, api.clock.now());
    if let Some(path) = find_by_id(&api, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let Json(found) = list_groups(State(api.clone()), access.clone(), Query(query(&state, now))).await?;
    let ids: Vec<_> = found.items.iter().map(|group| group.id).collect();
    let first = state.first_day(now);
    let mut tx = api.tenant(access.tenant()).await?;
    let trends = GroupTrends::of(
        &trends::of_groups(&mut tx, &ids, state.get("version"), first).await?,
        (first, now.date()),
    );
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    selects.extend([status(&state), kinds(&state), symbols(&state), order(&state), period_or_all(&state)]);
    let bar = FilterBar {
        action: PATH.to_owned(),
        selects,
        search: Some(state.text("q").unwrap_or_default()),
        search_label: SEARCH_LABEL,
        chips: LINKED.iter().filter_map(|name| chip(&state, name)).collect(),
        hidden: LINKED.iter().filter_map(|name| Some((*name, state.text(name)?))).collect(),
    };
    let sorted = |sort: &'static str| {
        let others = FILTERS.iter().filter(|name| **name != "sort").map(|name| (*name, state.get(name)));
        Some(link(PATH, &others.chain([("sort", Some(sort))]).collect::<Vec<_>>()))
    };
    html(&GroupsPage {
        heads: group_heads(Some(state.get("sort").unwrap_or("last_seen")), sorted),
        shell: Shell::of(signed.viewer, "groups", "Groups").with(bar),
        groups: found.items,
        trends,
        next: found.next_cursor.map(|cursor| state.at_cursor(PATH, &FILTERS, &cursor)),
        links: lists::links(&api, "groups", &state.pairs(&FILTERS)),
        caption: match state.get("sort") {
            Some(GROWING) => "Reports of the last 7 days, and how many more than in the 7 days before",
            _ if state.get("version").is_some() || state.get("days").is_some() => {
                "Reports of the version and the period that were chosen, of all reports of each bug"
            }
            _ => "Groups of reports, one for each bug",
        },
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        filtered: FILTERS.iter().any(|name| state.get(name).is_some()),
        days: state.days(),
    })
}

/// Returns the query in the page's address.
pub(crate) fn query(state: &PageState, now: OffsetDateTime) -> GroupQuery {
    // Growing groups have their own period.
    let has_period = state.get("days").is_some() && state.get("sort") != Some(GROWING);
    GroupQuery {
        app: state.text("app"),
        version: state.text("version"),
        first_version: state.text("new_in"),
        from_day: has_period.then(|| state.first_day(now).to_string()),
        kind: state.text("kind"),
        q: state.text("q"),
        provisional: state.get("symbols").map(|symbols| symbols == "missing"),
        status: Some(state.get("status").unwrap_or(USUAL_STATUS).to_owned()).filter(|status| status != "all"),
        assignee: state.text("assignee"),
        sort: state.text("sort"),
        cursor: state.text("cursor"),
        ..GroupQuery::default()
    }
}

/// Returns a filter that a link has set, and the address without it.
fn chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others: Vec<_> =
        FILTERS.iter().filter(|other| **other != name).map(|other| (*other, state.get(other))).collect();
    let label = if name == "new_in" { format!("new in {value}") } else { format!("assigned to {value}") };
    Some((label, link(PATH, &others)))
}

fn status(state: &PageState) -> BarSelect {
    let choices = [
        ("", "open and regressed"),
        ("regressed", "regressed"),
        ("resolved", "resolved"),
        ("ignored", "ignored"),
        ("all", "all"),
    ];
    BarSelect::of("status", "State", &choices, state)
}

fn kinds(state: &PageState) -> BarSelect {
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
    BarSelect::of("kind", "Kind", &kinds, state)
}

fn symbols(state: &PageState) -> BarSelect {
    let choices = [("", "all"), ("missing", "missing"), ("there", "there")];
    BarSelect::of("symbols", "Symbols", &choices, state)
}

fn order(state: &PageState) -> BarSelect {
    let choices =
        [("", "last seen"), ("first_seen", "first seen"), ("reports", "reports"), (GROWING, "growing")];
    BarSelect::of("sort", "Order", &choices, state)
}
