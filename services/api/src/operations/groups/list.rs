//! `GET /v1/groups`.

use crate::operations::prelude::*;
use crate::requests::input::{check_texts, parse_day, parse_time, search_text};
use crate::requests::page::{number_and_id, position_by_number};
use time::Duration;
use unslide_store::groups::GroupStatus;
use unslide_store::groups::views::GroupViewFilter;
use unslide_store::queries::groups::growing;
use unslide_store::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};

/// The value of `sort` for groups that grow.
pub const GROWING: &str = "growing";
/// Days of growth, which are compared with as many days before them.
pub const GROWING_DAYS: i64 = 7;

/// Longer filters match nothing that is stored.
const FILTER_BYTES: usize = 1_024;

/// Which groups to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupQuery {
    /// The only app (bundle identifier) to list; all apps if absent.
    #[param(example = "com.example.shop")]
    pub app: Option<String>,
    /// It has reports of this version: `reports`, `affected_devices` and the order by reports are of it.
    pub version: Option<String>,
    /// New in this version: its first report was of it, or a report of it brought it back after it was resolved.
    pub new_in: Option<String>,
    /// It has reports that arrived on this day (UTC) or later: `reports`, `affected_devices` and the order by reports are of
    /// them. Not with `growing`, which has a period of its own.
    #[param(format = Date, example = "2026-11-20")]
    pub from_day: Option<String>,
    /// The same of reports that arrived on this day (UTC) or earlier.
    #[param(format = Date)]
    pub to_day: Option<String>,
    /// Kind of the failure, such as `crash`.
    pub kind: Option<String>,
    /// A report of it has this text in its title, its reason, or the name of a function or source file of its crash, in
    /// any case; `Cart.total`, `Cart::total` and `Cart total` are one name. Or the text is its id or short id.
    #[param(min_length = 3, max_length = 100)]
    pub q: Option<String>,
    /// True lists only groups with missing symbols, false only the others; all if absent.
    pub provisional: Option<bool>,
    /// The last report arrived at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub seen_from: Option<String>,
    /// The first report arrived at this time or later (RFC 3339): lists new groups, not those that came back.
    #[param(format = DateTime)]
    pub new_from: Option<String>,
    /// `open`, `regressed`, `resolved` or `ignored`; several with commas between. All if absent.
    #[param(max_length = 1024, example = "open,regressed")]
    pub status: Option<String>,
    /// The group is assigned to this name; empty lists groups without an assignee.
    #[param(max_length = 1024)]
    pub assignee: Option<String>,
    /// The group has this label, such as `owner:@example/cart` for the owner of its code.
    #[param(max_length = 1024, example = "owner:@example/cart")]
    pub label: Option<String>,
    /// `last_seen`, `first_seen` or `reports`, the largest first; `last_seen` if absent. The times are those of the group's last
    /// and first report of any version. By `reports` of a version or period, of more than 1,000 groups that match those with the
    /// most reports of all are ranked. With `growing` the groups with more reports in the last 7 days (UTC) than in the 7 before,
    /// the one with the most more first. If more than 500 groups match, only those that were seen last are ranked. `growth` has
    /// the numbers.
    pub sort: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List groups
///
/// Lists the groups of reports: each is one bug.
#[utoipa::path(get, path = "/v1/groups", tag = "groups", operation_id = "list_groups",
    params(GroupQuery),
    responses((status = 200, description = "A page of groups.", body = Page<ListedGroup>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_groups(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<GroupQuery>,
) -> Result<Json<Page<ListedGroup>>, Problem> {
    let page = PageQuery { limit: query.limit, cursor: query.cursor.clone() };
    if query.sort.as_deref() == Some(GROWING) {
        return list_growing(&storage, &access, query, page).await;
    }
    let order = parse_order(query.sort.as_deref())?;
    let filter = build_filter(&access, query)?;
    let list = List::for_operation(access.tenant(), "list_groups", &(&filter, order));
    let after =
        page.read_cursor(list, |text| number_and_id(text).filter(|(value, _)| order.can_have_value(*value)))?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = groups::list_groups(&mut tx, &filter, order, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| {
        let (value, id) = order.position(last);
        position_by_number(value, id)
    })))
}

/// Counts the groups of a list, at most `limit`, for its page.
///
/// # Errors
/// As [`list_groups`].
pub async fn count_groups(
    storage: &Storage,
    access: &Access<ReportsRead>,
    query: GroupQuery,
    limit: u32,
) -> Result<i64, Problem> {
    let filter = build_filter(access, query)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(groups::count_groups(&mut tx, &filter, limit).await?)
}

async fn list_growing(
    storage: &Storage,
    access: &Access<ReportsRead>,
    query: GroupQuery,
    page: PageQuery,
) -> Result<Json<Page<ListedGroup>>, Problem> {
    let filter = build_filter(access, query)?;
    if filter.scope.from_day.is_some() || filter.scope.to_day.is_some() {
        let detail = "sort: growing has a period of its own, so it goes without from_day and to_day";
        return Err(Problem::new(Kind::InvalidParameter, detail));
    }
    let list = List::for_operation(access.tenant(), "list_groups", &(&filter, GROWING));
    let begin = page.read_cursor(list, |text| text.parse::<usize>().ok())?.unwrap_or(0);
    let limit = page.check_limit()? as usize;
    let now = storage.clock.now();
    let first = now.date().saturating_sub(Duration::days(GROWING_DAYS - 1));
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut items = growing::list_growing_groups(&mut tx, &filter, first, now).await?;
    items.drain(..begin.min(items.len()));
    let is_more = items.len() > limit;
    items.truncate(limit);
    groups::replace_counts(&mut tx, &filter, &mut items).await?;
    tx.rollback();
    let next_cursor = is_more.then(|| list.encode_cursor(&(begin + limit).to_string()));
    Ok(Json(Page { items, next_cursor }))
}

fn parse_order(sort: Option<&str>) -> Result<GroupOrder, Problem> {
    match sort {
        None | Some("last_seen") => Ok(GroupOrder::LastSeen),
        Some("first_seen") => Ok(GroupOrder::FirstSeen),
        Some("reports") => Ok(GroupOrder::Reports),
        Some(_) => {
            Err(Problem::new(Kind::InvalidParameter, "sort: last_seen, first_seen, reports or growing"))
        }
    }
}

fn parse_statuses(text: &str) -> Result<Vec<GroupStatus>, Problem> {
    // Each status at most once, so that the list is never longer than the number of statuses.
    let mut found: Vec<GroupStatus> = Vec::new();
    for word in text.split(',').take(GroupStatus::ALL.len() + 1) {
        let status = GroupStatus::parse(word.trim()).filter(|status| !found.contains(status));
        found.push(status.ok_or_else(|| {
            let detail = "status: open, regressed, resolved or ignored, each once, with commas between";
            Problem::new(Kind::InvalidParameter, detail)
        })?);
    }
    Ok(found)
}

fn build_filter(access: &Access<ReportsRead>, query: GroupQuery) -> Result<GroupFilter, Problem> {
    let filter = GroupFilter {
        app: access.restrict_app(query.app)?,
        scope: CountScope {
            version: query.version,
            from_day: parse_day("from_day", query.from_day.as_deref())?,
            to_day: parse_day("to_day", query.to_day.as_deref())?,
        },
        new_in: query.new_in,
        kind: query.kind,
        text: search_text(query.q)?,
        provisional: query.provisional,
        seen_from: parse_time("seen_from", query.seen_from.as_deref())?,
        new_from: parse_time("new_from", query.new_from.as_deref())?,
        status: query.status.as_deref().map(parse_statuses).transpose()?.unwrap_or_default(),
        assignee: query.assignee,
        culprit: None,
        label: query.label,
    };
    let texts = [
        ("app", &filter.app),
        ("version", &filter.scope.version),
        ("new_in", &filter.new_in),
        ("kind", &filter.kind),
        ("assignee", &filter.assignee),
        ("label", &filter.label),
    ];
    if let (Some(from), Some(to)) = (filter.scope.from_day, filter.scope.to_day)
        && from > to
    {
        return Err(Problem::new(Kind::InvalidParameter, "to_day: lies before from_day"));
    }
    check_texts(Kind::InvalidParameter, FILTER_BYTES, texts.map(|(name, text)| (name, text.as_deref())))?;
    Ok(filter)
}

/// Maximum number of days of a saved view.
const VIEW_DAYS_LIMIT: u16 = 365;

/// Checks the filter of a saved view as the parameters of a list are.
///
/// # Errors
/// [`Kind::InvalidBody`] with the field and what it takes.
pub fn check_view_filter(filter: &GroupViewFilter) -> Result<(), Problem> {
    let in_body = |problem: Problem| Problem::new(Kind::InvalidBody, problem.detail().unwrap_or_default());
    for (name, days) in [("days", filter.days), ("new_days", filter.new_days)] {
        if days.is_some_and(|days| !(1..=VIEW_DAYS_LIMIT).contains(&days)) {
            return Err(Problem::new(Kind::InvalidBody, format!("{name}: 1 to {VIEW_DAYS_LIMIT}")));
        }
    }
    if filter.assigned_to_me && filter.assignee.is_some() {
        return Err(Problem::new(Kind::InvalidBody, "assigned_to_me: not with assignee"));
    }
    if filter.sort.as_deref() != Some(GROWING) {
        parse_order(filter.sort.as_deref()).map_err(in_body)?;
    }
    filter.status.as_deref().map(parse_statuses).transpose().map_err(in_body)?;
    search_text(filter.q.clone()).map_err(in_body)?;
    let texts = [
        ("app", &filter.app),
        ("version", &filter.version),
        ("new_in", &filter.new_in),
        ("kind", &filter.kind),
        ("assignee", &filter.assignee),
        ("label", &filter.label),
    ];
    check_texts(Kind::InvalidBody, FILTER_BYTES, texts.map(|(name, text)| (name, text.as_deref())))
}
