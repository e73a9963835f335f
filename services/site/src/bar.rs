//! State of a page: the query of its address, and the bar that changes it.

use super::link::build_link;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::ParseIntError;
use std::str::FromStr;
use time::{Date, Duration, OffsetDateTime};
use unslide_api::feature::operation::parse_parameter;
use unslide_api::feature::operation::{Access, ReportsRead};
use unslide_api::feature::site::Tx;
use unslide_api::problem::Problem;
use unslide_store::TenantTx;
use unslide_store::queries::{apps, trends};

/// Maximum number of apps and versions in a list of the bar. If there are more, a field with suggestions takes its place.
const OFFERED_NAMES_LIMIT: u32 = 50;
/// The path that answers with suggestions.
const SUGGESTIONS_PATH: &str = "/console/suggestions";
const PERIOD_DAYS_CHOICES: [i64; 4] = [7, 14, 30, 90];
const DEFAULT_PERIOD_DAYS: i64 = 14;
/// The period of a page in hours.
const HOURLY: &str = "1";

/// The state of a page: the parameters of its address. An empty value counts as absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct PageState(BTreeMap<String, String>);

impl PageState {
    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Sets the value of a parameter.
    pub fn with_parameter(mut self, name: &str, value: &str) -> PageState {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the value of a parameter that is a number.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`](unslide_api::problem::Kind) if it is not a number.
    pub fn parse_number<T: FromStr<Err = ParseIntError>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.get(name).map(|text| parse_parameter(name, text)).transpose()
    }

    /// Returns the value of a parameter as an owned text.
    pub fn get_text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// Returns the number of days that charts show.
    pub fn chart_days(&self) -> i64 {
        let asked = self.get("days").and_then(|days| days.parse().ok());
        asked.filter(|days| PERIOD_DAYS_CHOICES.contains(days)).unwrap_or(DEFAULT_PERIOD_DAYS)
    }

    /// Returns true if the period is the last 24 hours, for a page that supports it.
    pub fn is_hourly(&self) -> bool {
        self.get("days") == Some(HOURLY)
    }

    /// Returns the first day that charts show; the last is today.
    pub fn first_day(&self, now: OffsetDateTime) -> Date {
        now.date() - Duration::days(self.chart_days() - 1)
    }

    /// Returns the address of the same page at another cursor.
    pub fn at_cursor(&self, path: &str, names: &[&str], cursor: &str) -> String {
        let mut pairs = self.parameter_pairs(names);
        pairs.push(("cursor", Some(cursor)));
        build_link(path, &pairs)
    }

    /// Returns these parameters of the address.
    pub fn parameter_pairs<'p>(&'p self, names: &[&'p str]) -> Vec<(&'p str, Option<&'p str>)> {
        names.iter().map(|name| (*name, self.get(name))).collect()
    }
}

/// The bar of a page: a form with the parameters of the page's address as its fields.
#[derive(Clone, Debug, Default)]
pub struct FilterBar {
    pub action: String,
    pub selects: Vec<BarSelect>,
    /// The text of the field that filters the page's list by texts, if it has one.
    pub search: Option<String>,
    /// Filters set by a link: the text of each, and the address without it.
    pub chips: Vec<(String, String)>,
    /// Parameters that do not change.
    pub hidden: Vec<(&'static str, String)>,
}

impl FilterBar {
    /// Returns the chosen values in one line, for a window without room for the fields.
    pub fn describe_chosen(&self) -> String {
        let chosen = |select: &BarSelect| {
            let current = select.options.iter().find(|(.., is_current)| *is_current);
            current.filter(|(value, ..)| !value.is_empty()).map(|(_, text, _)| text.clone())
        };
        let text = self.search.clone().filter(|text| !text.is_empty());
        self.selects.iter().filter_map(chosen).chain(text).collect::<Vec<_>>().join(", ")
    }
}

/// A field with a choice, or with suggestions.
#[derive(Clone, Debug)]
pub struct BarSelect {
    pub name: &'static str,
    /// The label of the field.
    pub label: &'static str,
    /// Value, text, and whether it is the current one.
    pub options: Vec<(String, String, bool)>,
    /// The path that suggests further values, empty for a field that takes any text. If it is absent, the options are all.
    pub suggestions: Option<String>,
}

impl BarSelect {
    /// Creates a choice among options: value, text, and whether it is the current one.
    pub fn from_options(
        name: &'static str,
        label: &'static str,
        options: Vec<(String, String, bool)>,
    ) -> BarSelect {
        BarSelect { name, label, options, suggestions: None }
    }

    /// Creates a field for any text, with words as suggestions.
    pub fn as_text(name: &'static str, label: &'static str, words: &[&str], state: &PageState) -> BarSelect {
        let current = state.get(name);
        let missing = current.filter(|current| !words.contains(current));
        let all = words.iter().copied().chain(missing);
        let options = all.map(|word| (word.to_owned(), word.to_owned(), current == Some(word)));
        BarSelect { name, label, options: options.collect(), suggestions: Some(String::new()) }
    }

    /// Returns the current value; empty if there is none.
    pub fn current_value(&self) -> &str {
        self.options.iter().find(|(.., is_current)| *is_current).map_or("", |(value, ..)| value)
    }

    /// Creates a choice among words.
    pub fn from_words(
        name: &'static str,
        label: &'static str,
        options: &[(&str, &str)],
        state: &PageState,
    ) -> BarSelect {
        let current = state.get(name).unwrap_or_default();
        let options = options
            .iter()
            .map(|(value, shown)| ((*value).to_owned(), (*shown).to_owned(), *value == current))
            .collect();
        BarSelect::from_options(name, label, options)
    }

    /// Returns the values of the choice that are not empty.
    pub fn values(&self) -> Vec<String> {
        self.options.iter().map(|(value, ..)| value).filter(|value| !value.is_empty()).cloned().collect()
    }

    /// Requires a choice: selects `asked`, or else the first option. Returns the selected value.
    pub fn select_or_first(&mut self, asked: Option<String>) -> String {
        self.options.retain(|(option, ..)| !option.is_empty());
        let first = self.options.first().map(|(option, ..)| option.clone());
        let value = asked.or(first).unwrap_or_default();
        for (option, _, current) in &mut self.options {
            *current = *option == value;
        }
        value
    }

    /// Creates a choice among names, or a field with suggestions if there are more than fit into a list. The current one is
    /// always offered. `app` is the app of the names.
    fn from_names(
        name: &'static str,
        label: &'static str,
        mut names: Vec<String>,
        current: Option<&str>,
        app: Option<&str>,
    ) -> BarSelect {
        let is_open = names.len() > OFFERED_NAMES_LIMIT as usize;
        names.truncate(OFFERED_NAMES_LIMIT as usize);
        let path = build_link(SUGGESTIONS_PATH, &[("field", Some(name)), ("app", app)]);
        let mut options = vec![(String::new(), "all".to_owned(), current.is_none())];
        let missing = current.filter(|current| !names.iter().any(|name| name == current));
        let names = names.into_iter().filter(|name| !name.is_empty()).chain(missing.map(str::to_owned));
        options.extend(names.map(|value| {
            let is_current = current == Some(value.as_str());
            (value.clone(), value, is_current)
        }));
        BarSelect { name, label, options, suggestions: is_open.then_some(path) }
    }
}

/// Returns the fields for app and version.
pub async fn app_and_version(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
) -> Result<Vec<BarSelect>, Problem> {
    let app = app_select(tx, access, state).await?;
    let chosen = access.only_app().or_else(|| state.get("app"));
    let versions = trends::recent_versions(tx, chosen, OFFERED_NAMES_LIMIT + 1).await?;
    Ok(vec![app, BarSelect::from_names("version", "Version", versions, state.get("version"), chosen)])
}

/// Returns the field for the app.
pub async fn app_select(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
) -> Result<BarSelect, Problem> {
    let names = apps::list_app_names(tx, access.only_app(), OFFERED_NAMES_LIMIT + 1).await?;
    Ok(BarSelect::from_names("app", "App", names, state.get("app"), None))
}

/// Returns the field for the period.
pub fn period_select(state: &PageState) -> BarSelect {
    let days = state.chart_days();
    let options = PERIOD_DAYS_CHOICES
        .iter()
        .map(|period| (period.to_string(), format!("last {period} days"), *period == days));
    BarSelect::from_options("days", "Period", options.collect())
}

/// Returns the field for the period, for a page that covers all time unless a period is chosen.
pub fn period_or_all(state: &PageState) -> BarSelect {
    let mut select = period_select(state);
    let is_all = state.get("days").is_none();
    if is_all {
        select.options.iter_mut().for_each(|(.., current)| *current = false);
    }
    select.options.insert(0, (String::new(), "all time".to_owned(), is_all));
    select
}

/// Returns the field for the period, with all time and the last 24 hours.
pub fn period_or_any(state: &PageState) -> BarSelect {
    let mut select = period_or_all(state);
    if state.is_hourly() {
        select.options.iter_mut().for_each(|(.., current)| *current = false);
    }
    select.options.insert(1, (HOURLY.to_owned(), "last 24 hours".to_owned(), state.is_hourly()));
    select
}

/// Returns the field for the period, with the last 24 hours.
pub fn period_or_hours(state: &PageState) -> BarSelect {
    let mut select = period_select(state);
    if state.is_hourly() {
        select.options.iter_mut().for_each(|(.., current)| *current = false);
    }
    select.options.insert(0, (HOURLY.to_owned(), "last 24 hours".to_owned(), state.is_hourly()));
    select
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_becomes_a_field_with_suggestions() {
        let names = |count: u32| (0..count).map(|n| format!("com.example.app{n}")).collect::<Vec<_>>();
        let short = BarSelect::from_names("app", "App", names(OFFERED_NAMES_LIMIT), None, None);
        assert_eq!(short.suggestions, None);
        assert_eq!(short.current_value(), "");
        let long = names(OFFERED_NAMES_LIMIT + 1);
        let long = BarSelect::from_names("version", "Version", long, Some("2.4"), Some("a&b"));
        assert_eq!(long.suggestions.as_deref(), Some("/console/suggestions?field=version&app=a%26b"));
        assert_eq!(long.options.len(), OFFERED_NAMES_LIMIT as usize + 2, "all names, and the current one");
        assert_eq!(long.current_value(), "2.4");
    }
}
