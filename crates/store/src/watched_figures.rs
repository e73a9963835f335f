//! Figures of apps that features measure, by name, for rules that watch them.

use crate::{HookFuture, Result, Store, TenantTx};
use time::{Date, OffsetDateTime};

/// The figures of one feature.
#[derive(Clone, Copy, Debug)]
pub struct FigureHook {
    /// Lists the figures that the feature can measure.
    pub list: fn() -> Vec<WatchableFigure>,
    /// Measures one of them with a bounded number of rows. Returns `None` if nothing was counted.
    pub measure: MeasureHook,
    /// The console's page that shows a figure over time, by the fields `app`, `figure`, `version` and `host` of its query.
    pub page: &'static str,
}

/// A time that a figure is made of: from its first day or hour up to the second, which is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigurePeriod {
    /// Whole days (UTC).
    Days(Date, Date),
    /// Whole hours of the last two days; each is given by its beginning.
    Hours(OffsetDateTime, OffsetDateTime),
}

/// See [`FigureHook::measure`].
pub type MeasureHook =
    for<'t> fn(&'t mut TenantTx, FigureQuery<'t>) -> HookFuture<'t, Option<MeasuredFigure>>;

/// A figure that a feature can measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchableFigure {
    /// Its name, such as `launch_time_p90`.
    pub name: String,
    /// `1` for a share from 0 to 1, else the symbol of its unit, such as `ms`.
    pub unit: &'static str,
    /// True if it is counted for single hosts and endpoints.
    pub has_hosts: bool,
    /// True if a change of it is known to be better or worse.
    pub is_comparable: bool,
}

/// A figure that is to be measured.
#[derive(Clone, Copy, Debug)]
pub struct FigureQuery<'t> {
    /// The name of the figure.
    pub figure: &'t str,
    /// The app.
    pub app: &'t str,
    /// The only version that counts; every version if absent.
    pub version: Option<&'t str>,
    /// The only host that counts; all values together if absent.
    pub host: Option<&'t str>,
    /// The only endpoint that counts, in place of a host.
    pub endpoint: Option<&'t str>,
    /// The days or hours that count.
    pub period: FigurePeriod,
    /// Those that it is compared with, if it is.
    pub before: Option<FigurePeriod>,
}

/// A measured figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredFigure {
    /// Its value, in its unit.
    pub value: f64,
    /// The unit, as in [`WatchableFigure`].
    pub unit: &'static str,
    /// Independent observations that it is made of: sampled ones count as often as they arrived.
    pub observations: f64,
    /// Whether more of it is better, if either is.
    pub more_is_better: Option<bool>,
    /// Its value in the days or hours before.
    pub before: Option<f64>,
    /// True if it is worse than before by more than chance explains.
    pub is_worse: bool,
}

/// Lists the figures that features can measure.
#[must_use]
pub fn list_figures(store: &Store) -> Vec<WatchableFigure> {
    let measures = store.hooks().iter().filter_map(|hook| hook.measures);
    measures.flat_map(|measures| (measures.figures.list)()).collect()
}

/// Measures a figure by the feature that has it. Returns `None` if no feature has it, or if nothing was counted.
///
/// # Errors
/// Returns an error if the feature cannot measure it.
pub async fn measure_figure(tx: &mut TenantTx, query: FigureQuery<'_>) -> Result<Option<MeasuredFigure>> {
    match find_hook(tx, query.figure) {
        Some(figures) => (figures.measure)(tx, query).await,
        None => Ok(None),
    }
}

/// Returns the console's page that shows a figure over time. Returns `None` if no feature has the figure.
#[must_use]
pub fn find_figure_page(tx: &TenantTx, figure: &str) -> Option<&'static str> {
    find_hook(tx, figure).map(|figures| figures.page)
}

fn find_hook(tx: &TenantTx, figure: &str) -> Option<FigureHook> {
    let has_it = |figures: &FigureHook| (figures.list)().iter().any(|known| known.name == figure);
    tx.hooks().iter().filter_map(|hook| hook.measures).map(|measures| measures.figures).find(has_it)
}
