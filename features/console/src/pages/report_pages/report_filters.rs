//! The filters of a list of reports: the parameters of its address, its fields and its chips.

use crate::prelude::*;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::site::ReportQuery;
use unslide_site::{BarSelect, period_or_any};

pub(crate) const REPORTS_PAGE: &str = "/console/reports";
/// All parameters of the address.
pub(crate) const REPORT_FILTERS: [&str; 18] = [
    "app",
    "version",
    "q",
    "symbols_missing",
    "status",
    "kind",
    "group",
    "model",
    "os_version",
    "debug_id",
    "days",
    "fatal",
    "counted",
    "from",
    "to",
    "without",
    "same_crash_as",
    "key",
];
/// Filters without a field: a link sets them, and each is shown with a link that removes it.
const LINKED_REPORT_FILTERS: [&str; 9] =
    ["status", "group", "debug_id", "fatal", "counted", "from", "to", "without", "same_crash_as"];
/// Frequent types of reports. A gateway may send others.
const REPORT_TYPES: [&str; 13] = [
    "mach",
    "signal",
    "nsexception",
    "cpp_exception",
    "user",
    "hang",
    "cpu",
    "disk_write",
    "launch",
    "profile",
    "out_of_memory",
    "memory_warning",
    "termination",
];

/// Returns when the last 24 hours of a page begin: with an hour, as figures by hour do.
pub(crate) fn day_begin(now: OffsetDateTime) -> OffsetDateTime {
    now.truncate_to_hour() - Duration::hours(23)
}

/// Returns the query in the page's address.
pub(crate) fn build_query(state: &PageState, now: OffsetDateTime) -> ReportQuery {
    let without = |name: &str| state.get("without") == Some(name);
    // An empty value is a value of the query: the reports that name none.
    let text_of = |name: &'static str| if without(name) { Some(String::new()) } else { state.get_text(name) };
    let begin = match state.get("days") {
        None => None,
        Some(_) if state.is_hourly() => Some(day_begin(now)),
        Some(_) => Some(state.first_day(now).midnight().assume_utc()),
    };
    let begin = begin.and_then(|begin| begin.format(&Rfc3339).ok());
    ReportQuery {
        app: state.get_text("app"),
        version: text_of("version"),
        from: state.get_text("from").or(begin),
        to: state.get_text("to"),
        kind: state.get_text("kind"),
        status: state.get_text("status"),
        symbols_missing: state.get("symbols_missing").and_then(|missing| missing.parse().ok()),
        fatal: state.get("fatal").map(|value| value == "true"),
        counted: state.get("counted").map(|value| value == "true"),
        model: text_of("model"),
        os_version: text_of("os_version"),
        debug_id: state.get_text("debug_id"),
        group: state.get_text("group"),
        same_crash_as: state.get_text("same_crash_as"),
        key: state.get_text("key"),
        q: state.get_text("q"),
        cursor: state.get_text("cursor"),
        ..ReportQuery::default()
    }
}

/// Returns the fields of the bar after those for app and version.
pub(crate) fn list_fields(state: &PageState) -> Vec<BarSelect> {
    let symbols = [("", "all"), ("true", "missing"), ("false", "not missing")];
    vec![
        period_or_any(state),
        BarSelect::from_words("symbols_missing", "App symbols", &symbols, state),
        BarSelect::as_text("kind", "Type", &REPORT_TYPES, state),
        BarSelect::as_text("model", "Device", &[], state),
        BarSelect::as_text("os_version", "System", &[], state),
        BarSelect::as_text("key", "Key=value", &[], state),
    ]
}

/// Returns the filters that a link has set, each with the address without it.
pub(crate) fn list_chips(state: &PageState) -> Vec<(String, String)> {
    LINKED_REPORT_FILTERS.iter().filter_map(|name| build_chip(state, name)).collect()
}

/// Returns the parameters that the form of the bar sends unchanged.
pub(crate) fn list_hidden(state: &PageState) -> Vec<(&'static str, String)> {
    LINKED_REPORT_FILTERS.iter().filter_map(|name| Some((*name, state.get_text(name)?))).collect()
}

fn build_chip(state: &PageState, name: &str) -> Option<(String, String)> {
    let value = state.get(name)?;
    let others = REPORT_FILTERS.iter().filter(|other| **other != name);
    let pairs: Vec<_> = others.map(|other| (*other, state.get(other))).collect();
    let label = match (name, value) {
        ("fatal", "true") => "crashes".to_owned(),
        ("fatal", _) => "no crashes".to_owned(),
        ("counted", "true") => "each crash once".to_owned(),
        ("counted", _) => "told twice".to_owned(),
        ("without", "model") => "without a device".to_owned(),
        ("without", "os_version") => "without a system".to_owned(),
        ("without", other) => format!("without a {other}"),
        ("debug_id", value) => format!("debug id {value}"),
        ("same_crash_as", value) => format!("same crash as {value}"),
        ("status", value) => format!("all frames {value}"),
        (name, value) => format!("{name} {value}"),
    };
    Some((label, build_link(REPORTS_PAGE, &pairs)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn query(parameters: &[(&str, &str)]) -> ReportQuery {
        let state = parameters
            .iter()
            .fold(PageState::default(), |state, (name, value)| state.with_parameter(name, value));
        build_query(&state, datetime!(2026-11-20 10:31 UTC))
    }

    #[test]
    fn a_period_begins_with_a_day_or_an_hour() {
        assert_eq!(query(&[]).from, None);
        assert_eq!(query(&[("days", "7")]).from.as_deref(), Some("2026-11-14T00:00:00Z"));
        assert_eq!(query(&[("days", "1")]).from.as_deref(), Some("2026-11-19T11:00:00Z"));
        let exact = query(&[("days", "7"), ("from", "2026-11-20T09:00:00Z")]);
        assert_eq!(exact.from.as_deref(), Some("2026-11-20T09:00:00Z"));
    }

    #[test]
    fn reports_without_a_value_are_a_filter_of_their_own() {
        let without = query(&[("without", "version")]);
        assert_eq!((without.version.as_deref(), without.model), (Some(""), None));
        let fatal = query(&[("fatal", "true"), ("counted", "true")]);
        assert_eq!((fatal.fatal, fatal.counted), (Some(true), Some(true)));
    }
}
