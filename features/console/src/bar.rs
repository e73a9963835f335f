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

/// Maximum number of apps and versions that the bar offers.
const MOST_OFFERED: u32 = 50;
const PERIOD_DAYS_CHOICES: [i64; 4] = [7, 14, 30, 90];
const DEFAULT_PERIOD_DAYS: i64 = 14;
/// The words in an empty search field.
pub const SEARCH_LABEL: &str = "Search functions, files, reasons or an id";
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
    /// The field for the search text.
    pub search: Option<String>,
    /// The label of the search field.
    pub search_label: &'static str,
    /// Filters set by a link: the text of each, and the address without it.
    pub chips: Vec<(String, String)>,
    /// Parameters that do not change.
    pub hidden: Vec<(&'static str, String)>,
}

/// A field with a choice.
#[derive(Clone, Debug)]
pub struct BarSelect {
    pub name: &'static str,
    /// The label of the field.
    pub label: &'static str,
    /// Value, text, and whether it is the current one.
    pub options: Vec<(String, String, bool)>,
}

impl BarSelect {
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
        BarSelect { name, label, options }
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

    /// Creates a choice among names. The current one is always offered.
    fn from_names(
        name: &'static str,
        label: &'static str,
        names: Vec<String>,
        current: Option<&str>,
    ) -> BarSelect {
        let mut options = vec![(String::new(), "all".to_owned(), current.is_none())];
        let missing = current.filter(|current| !names.iter().any(|name| name == current));
        let names = names.into_iter().filter(|name| !name.is_empty()).chain(missing.map(str::to_owned));
        options.extend(names.map(|value| {
            let is_current = current == Some(value.as_str());
            (value.clone(), value, is_current)
        }));
        BarSelect { name, label, options }
    }
}

/// Returns the fields for app and version.
pub async fn app_and_version(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
) -> Result<Vec<BarSelect>, Problem> {
    let app = app_select(tx, access, state).await?;
    let of = access.only_app().or_else(|| state.get("app"));
    let versions = trends::recent_versions(tx, of, MOST_OFFERED).await?;
    Ok(vec![app, BarSelect::from_names("version", "Version", versions, state.get("version"))])
}

/// Returns the field for the app.
pub async fn app_select(
    tx: &mut Tx<TenantTx>,
    access: &Access<ReportsRead>,
    state: &PageState,
) -> Result<BarSelect, Problem> {
    let names = apps::list_app_names(tx, access.only_app(), MOST_OFFERED).await?;
    Ok(BarSelect::from_names("app", "App", names, state.get("app")))
}

/// Returns the field for the period.
pub fn period_select(state: &PageState) -> BarSelect {
    let days = state.chart_days();
    let options = PERIOD_DAYS_CHOICES
        .iter()
        .map(|period| (period.to_string(), format!("last {period} days"), *period == days));
    BarSelect { name: "days", label: "Period", options: options.collect() }
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

/// Returns the field for the period, with the last 24 hours.
pub fn period_or_hours(state: &PageState) -> BarSelect {
    let mut select = period_select(state);
    if state.is_hourly() {
        select.options.iter_mut().for_each(|(.., current)| *current = false);
    }
    select.options.insert(0, (HOURLY.to_owned(), "last 24 hours".to_owned(), state.is_hourly()));
    select
}
