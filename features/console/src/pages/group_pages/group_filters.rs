//! The filters of the list of groups, as the address of its page has them.

use crate::pages::report_pages::report_filters::day_begin;
use crate::prelude::*;
use std::ops::RangeInclusive;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::site::{GROWING, GroupQuery};

/// The path of the list.
pub(super) const GROUPS_PAGE: &str = "/console/groups";
/// Parameters of the page's address that make its filter.
pub(super) const GROUP_FILTERS: [&str; 13] = [
    "app", "version", "days", "q", "kind", "symbols", "status", "assignee", "assigned", "new_in", "new_days",
    "label", "sort",
];
/// Periods of new groups, in days.
const NEW_DAYS: RangeInclusive<i64> = 1..=365;
/// An assignee that no group has, for a session without a name.
const NO_NAME: &str = "\u{1}";
/// Values of the parameter `assigned`: the groups of the person who looks, and those of no person.
pub(super) const ASSIGNED_TO_ME: &str = "me";
pub(super) const UNASSIGNED: &str = "none";
/// The statuses that are listed by default: groups that need attention.
pub(super) const USUAL_STATUS: &str = "open,regressed";

/// Returns the query in the page's address. `me` is the name of the person who looks at it.
pub(crate) fn build_query(state: &PageState, now: OffsetDateTime, me: Option<&str>) -> GroupQuery {
    // Growing groups have their own period.
    let has_period = state.get("days").is_some() && state.get("sort") != Some(GROWING);
    GroupQuery {
        app: state.get_text("app"),
        version: state.get_text("version"),
        new_in: state.get_text("new_in"),
        new_from: state.get("new_days").and_then(|days| new_from(days, now)),
        from_day: has_period.then(|| state.first_day(now).to_string()),
        kind: state.get_text("kind"),
        q: state.get_text("q"),
        provisional: state.get("symbols").map(|symbols| symbols == "missing"),
        status: Some(state.get("status").unwrap_or(USUAL_STATUS).to_owned()).filter(|status| status != "all"),
        assignee: match state.get("assigned") {
            Some(ASSIGNED_TO_ME) => Some(me.unwrap_or(NO_NAME).to_owned()),
            Some(UNASSIGNED) => Some(String::new()),
            _ => state.get_text("assignee"),
        },
        label: state.get_text("label"),
        sort: state.get_text("sort"),
        cursor: state.get_text("cursor"),
        ..GroupQuery::default()
    }
}

/// Returns when the period of new groups begins, as the overview counts them.
fn new_from(days: &str, now: OffsetDateTime) -> Option<String> {
    let days: i64 = days.parse().ok().filter(|days| NEW_DAYS.contains(days))?;
    let begin = match days {
        1 => day_begin(now),
        _ => (now.date() - Duration::days(days - 1)).midnight().assume_utc(),
    };
    begin.format(&Rfc3339).ok()
}
