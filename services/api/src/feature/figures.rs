//! Figures of features on pages of the core: the overview, the list of versions, and reports.

use std::collections::BTreeMap;
use time::Date;
use unslide_store::{HookFuture, TenantTx};

/// Finds a feature's figures for the overview.
pub type FindOverview = for<'t> fn(&'t mut TenantTx, OverviewScope<'t>) -> HookFuture<'t, OverviewSection>;

/// Finds a feature's column for the list of versions.
pub type FindVersionColumn = for<'t> fn(&'t mut TenantTx, VersionScope<'t>) -> HookFuture<'t, VersionColumn>;

/// Finds the memory limit of an app on a device that other runs teach, in bytes.
pub type FindMemoryLimit = for<'t> fn(&'t mut TenantTx, DeviceScope<'t>) -> HookFuture<'t, Option<u64>>;

/// The reports that the overview is about.
#[derive(Clone, Copy, Debug)]
pub struct OverviewScope<'t> {
    /// The only app, if one is chosen.
    pub app: Option<&'t str>,
    /// The only version, if one is chosen.
    pub version: Option<&'t str>,
    pub today: Date,
    /// Number of days up to today. The period before has as many.
    pub days: i64,
    /// True if the page shows the last 24 hours: `days` then covers them.
    pub is_hourly: bool,
}

/// A feature's figures on the overview.
#[derive(Clone, Debug, Default)]
pub struct OverviewSection {
    /// The figures. Empty if the feature has no data for the period.
    pub figures: Vec<OverviewFigure>,
    /// A rate of each app or version, if there are several.
    pub rates: Option<OverviewRates>,
    /// A sentence before the figures, or instead of them.
    pub hint: Option<&'static str>,
}

/// One rate of several apps or versions, as a table.
#[derive(Clone, Debug)]
pub struct OverviewRates {
    pub heading: &'static str,
    /// The heading of the first column.
    pub column: &'static str,
    /// A line about the order of the rows.
    pub caption: &'static str,
    pub rows: Vec<OverviewRate>,
}

/// The rate of an app or a version.
#[derive(Clone, Debug)]
pub struct OverviewRate {
    pub name: String,
    /// The page with more about it.
    pub href: String,
    pub value: String,
    /// The mark's class if the rate has changed: `bad` or `good`; else empty.
    pub class: &'static str,
    /// A comparison.
    pub note: String,
    /// The number of observations that it is made of.
    pub observations: String,
}

/// One figure of the overview.
#[derive(Clone, Debug)]
pub struct OverviewFigure {
    pub label: &'static str,
    pub value: String,
    /// An explanation of the value; empty if it needs none.
    pub title: &'static str,
    /// A comparison or a second figure.
    pub note: String,
}

/// The versions that a page lists.
#[derive(Clone, Copy, Debug)]
pub struct VersionScope<'t> {
    pub app: &'t str,
    pub versions: &'t [String],
    pub today: Date,
}

/// A feature's column in the list of versions.
#[derive(Clone, Debug)]
pub struct VersionColumn {
    pub head: &'static str,
    /// An explanation of the heading.
    pub title: &'static str,
    /// The cells by version. A version without one has no data.
    pub cells: BTreeMap<String, VersionCell>,
}

/// A cell of a [`VersionColumn`].
#[derive(Clone, Debug)]
pub struct VersionCell {
    pub value: String,
    /// The number of observations that it is made of.
    pub observations: String,
    /// Further figures, a line for each.
    pub notes: Vec<String>,
}

/// An app on a device model with a version of the system.
#[derive(Clone, Copy, Debug)]
pub struct DeviceScope<'t> {
    pub app: &'t str,
    pub model: &'t str,
    /// The name or version of the system.
    pub os: &'t str,
}

/// Finds the sessions of an app in a period; `None` if it sent none.
pub type FindAppSessions = for<'t> fn(&'t mut TenantTx, AppPeriod<'t>) -> HookFuture<'t, Option<AppSessions>>;

/// An app in a period of whole days (UTC).
#[derive(Clone, Copy, Debug)]
pub struct AppPeriod<'t> {
    pub app: &'t str,
    pub first: Date,
    /// The last day, which is part of the period.
    pub last: Date,
}

/// Numbers of sessions.
#[derive(Clone, Copy, Debug)]
pub struct AppSessions {
    pub sessions: i64,
    /// Different installations, approximately.
    pub installations: i64,
    /// True if a part of the sessions was not kept.
    pub estimated: bool,
}
