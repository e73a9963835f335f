//! `/console/groups`: the bugs that match the filters.

use crate::components::chart::GroupTrends;
use crate::components::rows::{self, CountedScope, GroupHead, group_heads};
use crate::pages::group_pages::bulk::UNDO_FIELD;
use crate::pages::group_pages::group_filters::{
    ASSIGNED_TO_ME, GROUP_FILTERS, GROUPS_PAGE, UNASSIGNED, build_query,
};
use crate::pages::group_pages::saved_views::SavedViews;
use crate::pages::lists::{self, ListLink};
use crate::pages::search::find_page_by_id;
use crate::prelude::*;
use time::Duration;
use unslide_api::feature::lists::Lists;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::site::CHANGED_GROUPS_LIMIT;
use unslide_api::feature::site::{GROWING, GROWING_DAYS, GroupQuery, count_groups, list_groups, read_id};
use unslide_model::Scope;
use unslide_site::{BarSelect, FilterBar, app_and_version, period_or_all};
use unslide_store::GroupId;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::trends;

/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED_GROUP_FILTERS: [&str; 4] = ["assignee", "new_in", "new_days", "label"];
/// Maximum number of groups that the page counts.
const COUNTED_GROUPS_LIMIT: u32 = 1_000;
#[derive(Template)]
#[template(path = "console/pages/group_pages/groups.html", askama = escaping)]
struct GroupsPage {
    shell: Shell,
    groups: Vec<ListedGroup>,
    trends: GroupTrends,
    scope: CountedScope,
    /// The number of groups in the list; absent if it is empty, on further pages, and in a list of growing groups.
    total: Option<i64>,
    heads: Vec<GroupHead>,
    next: Option<String>,
    links: Vec<ListLink>,
    filtered: bool,
    /// True if the search text is an id that was not found.
    is_unknown_id: bool,
    caption: &'static str,
    days: i64,
    /// True if the groups cannot be listed because the session has no name.
    needs_name: bool,
    /// Says how many groups the form before has changed.
    changed: Option<String>,
    /// The groups of that form, if their change can be taken back.
    undo: Vec<GroupId>,
    bulk: BulkForm,
    views: SavedViews,
}

/// Data of the form that changes the groups that are ticked.
struct BulkForm {
    may_write: bool,
    /// The address of the list, for the way back.
    back: String,
    versions: Vec<String>,
    assignee: String,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    State(lists): State<Arc<Lists>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, storage.clock.now());
    if let Some(path) = find_page_by_id(&storage, &panels, access, state.get("q")).await? {
        return Ok(Redirect::to(&path).into_response());
    }
    let me = signed.viewer.name.clone();
    let query = build_query(&state, now, me.as_deref());
    let is_growing = state.get("sort") == Some(GROWING);
    let total = read_total(&storage, access, &state, &query).await?;
    let Json(found) = list_groups(State(storage.clone()), access.clone(), Query(query)).await?;
    let ids: Vec<_> = found.items.iter().map(|group| group.id).collect();
    let first = state.first_day(now);
    let mut tx = storage.tenant(access.tenant()).await?;
    let trends = GroupTrends::from_rows(
        &trends::read_group_trends(&mut tx, &ids, state.get("version"), first).await?,
        (first, now.date()),
    );
    let selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    let bulk = BulkForm {
        may_write: access.principal.has_scope(Scope::GroupsWrite),
        back: state.at_cursor(GROUPS_PAGE, &GROUP_FILTERS, state.get("cursor").unwrap_or_default()),
        versions: selects.get(1).map(BarSelect::values).unwrap_or_default(),
        assignee: me.clone().unwrap_or_default(),
    };
    let views = SavedViews::load_for_page(&storage, access, &state).await?;
    let sorted = |sort: &'static str| {
        let others =
            GROUP_FILTERS.iter().filter(|name| **name != "sort").map(|name| (*name, state.get(name)));
        Some(build_link(GROUPS_PAGE, &others.chain([("sort", Some(sort))]).collect::<Vec<_>>()))
    };
    render_html(&GroupsPage {
        heads: group_heads(Some(state.get("sort").unwrap_or("last_seen")), sorted),
        shell: Shell::for_viewer(signed.viewer, "groups", "Groups")
            .with_about(state.get("app").unwrap_or_default())
            .with_bar(build_bar(&state, selects, me.is_some())),
        groups: found.items,
        trends,
        scope: CountedScope {
            version: state.get_text("version"),
            days: state.get_text("days"),
            growth_from: is_growing.then(|| now.date() - Duration::days(GROWING_DAYS - 1)),
        },
        total,
        next: found.next_cursor.map(|cursor| state.at_cursor(GROUPS_PAGE, &GROUP_FILTERS, &cursor)),
        links: lists::list_links(&lists, "groups", &state.parameter_pairs(&GROUP_FILTERS)),
        caption: list_caption(&state),
        is_unknown_id: state.get("q").and_then(read_id).is_some(),
        filtered: GROUP_FILTERS.iter().any(|name| state.get(name).is_some()),
        days: state.chart_days(),
        needs_name: state.get("assigned") == Some(ASSIGNED_TO_ME) && me.is_none(),
        changed: state
            .parse_number::<u64>("changed")?
            .map(|number| counted(number, "group was", "groups were")),
        undo: read_undo(&state),
        bulk,
        views,
    })
}

/// Returns the groups that the form before has changed.
fn read_undo(state: &PageState) -> Vec<GroupId> {
    let ids = state.get(UNDO_FIELD).unwrap_or_default().split(',');
    ids.take(CHANGED_GROUPS_LIMIT).filter_map(|id| id.parse().ok()).collect()
}

/// Returns the bar of filters. `selects` are those of app and version.
fn build_bar(state: &PageState, mut selects: Vec<BarSelect>, has_name: bool) -> FilterBar {
    selects.extend([
        status_select(state),
        assigned_select(state, has_name),
        kind_select(state),
        symbols_select(state),
        order_select(state),
        period_or_all(state),
    ]);
    FilterBar {
        action: GROUPS_PAGE.to_owned(),
        selects,
        search: Some(state.get_text("q").unwrap_or_default()),
        chips: LINKED_GROUP_FILTERS.iter().filter_map(|name| build_chip(state, name)).collect(),
        hidden: LINKED_GROUP_FILTERS.iter().filter_map(|name| Some((*name, state.get_text(name)?))).collect(),
    }
}

fn list_caption(state: &PageState) -> &'static str {
    match state.get("sort") {
        Some(GROWING) => "Reports of the last 7 days, and how many more than in the 7 days before",
        _ if state.get("version").is_some() || state.get("days").is_some() => {
            "Reports of the version and the period that were chosen, of all reports of each bug"
        }
        _ => "Groups of reports, one for each bug",
    }
}

/// Counts the groups in the list, as [`GroupsPage::total`] has them.
async fn read_total(
    storage: &Storage,
    access: &Access<ReportsRead>,
    state: &PageState,
    query: &GroupQuery,
) -> Result<Option<i64>, Problem> {
    // A further page needs no total, and growing groups are few.
    if state.get("cursor").is_some() || state.get("sort") == Some(GROWING) {
        return Ok(None);
    }
    let total = count_groups(storage, access, query.clone(), COUNTED_GROUPS_LIMIT).await?;
    Ok((total > 0).then_some(total))
}

/// Returns a filter that a link has set, and the address without it.
fn build_chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others: Vec<_> = GROUP_FILTERS
        .iter()
        .filter(|other| **other != name)
        .map(|other| (*other, state.get(other)))
        .collect();
    let label = match (name, value) {
        ("new_in", version) => format!("new or back in {version}"),
        ("new_days", "1") => "new in the last 24 hours".to_owned(),
        ("new_days", days) => format!("new in the last {days} days"),
        ("label", label) => label.replacen(':', " ", 1),
        (_, name) => format!("assigned to {name}"),
    };
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

fn assigned_select(state: &PageState, has_name: bool) -> BarSelect {
    let choices = [("", "all"), (UNASSIGNED, "no one"), (ASSIGNED_TO_ME, "me")];
    let is_chosen = state.get("assigned") == Some(ASSIGNED_TO_ME);
    let offered = if has_name || is_chosen { &choices[..] } else { &choices[..2] };
    BarSelect::from_words("assigned", "Assigned to", offered, state)
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

/// Describes the number of groups in the list.
fn format_total(total: &i64) -> String {
    let groups = counted(*total, "group", "groups");
    if *total >= i64::from(COUNTED_GROUPS_LIMIT) { format!("at least {groups}") } else { groups }
}
