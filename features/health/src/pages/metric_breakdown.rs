//! `/console/health/breakdown`: one metric of a version by device and by system.

use super::prelude::*;
use super::values::{COLUMNS, column_metric, format_share, format_value, whole};
use super::{BREAKDOWN_PATH, HEALTH_PATH};
use crate::store::figures;
use crate::store::figures::metric_breakdown::{self, DimensionFigures};
use crate::store::metrics::MetricDimension;
use unslide_health_formats::MetricName;
use unslide_report::device_models::name_with_code;
use unslide_site::BarSelect;

#[derive(Template)]
#[template(path = "health/metric_breakdown.html", askama = escaping)]
struct BreakdownPage {
    shell: Shell,
    app: String,
    version: String,
    /// The page of all versions.
    back: String,
    days: i64,
    /// The metric's heading, and a note about it.
    metric: &'static str,
    title: &'static str,
    statistics: Vec<&'static str>,
    /// Heading, head of the first column, and rows of each table that has rows.
    tables: Vec<(&'static str, &'static str, Vec<FigureRow>)>,
}

struct FigureRow {
    value: String,
    /// Each statistic with the figure; empty without one.
    figures: Vec<(&'static str, String)>,
    observations: String,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let app = access.restrict_app(state.get_text("app"))?.unwrap_or_default();
    let version = state.get("version").unwrap_or_default();
    let mut select = metric_select();
    let chosen = select.select_or_first(state.get_text("metric"));
    let column = COLUMNS.into_iter().find(|(signal, ..)| *signal == chosen);
    let Some(((_, head, title), metric)) = column.zip(column_metric(&chosen)) else {
        return Err(Problem::new(Kind::InvalidParameter, "metric: the console shows no such metric"));
    };
    let [days, _] =
        figures::compared_periods(storage.clock.now().date(), u32::try_from(state.chart_days()).unwrap_or(1));
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut tables = Vec::new();
    for (by, heading, column) in [
        (MetricDimension::Model, "By device", "Device"),
        (MetricDimension::OsVersion, "By system", "System"),
        (MetricDimension::State, "By state", "State"),
    ] {
        let found = metric_breakdown::break_down(&mut tx, &app, version, metric, by, days).await?;
        if !found.is_empty() {
            tables.push((heading, column, found.iter().map(|figures| build_row(figures, metric)).collect()));
        }
    }
    tx.rollback();
    let hidden = vec![("app", app.clone()), ("version", version.to_owned())];
    let bar = FilterBar {
        action: BREAKDOWN_PATH.to_owned(),
        selects: vec![select, period_select(&state)],
        hidden,
        ..FilterBar::default()
    };
    render_html(&BreakdownPage {
        shell: Shell::for_viewer(signed.viewer, "health", format!("{head} by device and system"))
            .with_bar(bar),
        back: build_link(HEALTH_PATH, &[("app", Some(&app)), ("days", state.get("days"))]),
        app,
        version: text_or(version, "no version").to_owned(),
        days: state.chart_days(),
        metric: head,
        title,
        statistics: list_statistics(metric).to_vec(),
        tables,
    })
}

/// Returns the field for the metric.
fn metric_select() -> BarSelect {
    let measured = COLUMNS.into_iter().filter(|(signal, ..)| column_metric(signal).is_some());
    let options = measured.map(|(signal, head, _)| (signal.to_owned(), head.to_owned(), false));
    BarSelect::from_options("metric", "Metric", options.collect())
}

/// Returns the statistics of a metric: for values the median and the worst twentieth.
fn list_statistics(metric: MetricName) -> &'static [&'static str] {
    match metric {
        MetricName::Requests => &["Failed"],
        _ if metric.more_is_better() == Some(true) => &["p50", "p5"],
        _ => &["p50", "p95"],
    }
}

fn build_row(figures: &DimensionFigures, metric: MetricName) -> FigureRow {
    let value = |value: Option<f64>| value.map(|value| format_value(metric.unit().as_str(), value));
    let figure = |statistic: &&'static str| {
        let text = match *statistic {
            "Failed" => figures.failed.map(format_share),
            "p50" => value(figures.p50),
            "p5" => value(figures.p5),
            _ => value(figures.p95),
        };
        (*statistic, text.unwrap_or_default())
    };
    let (one, many) = match metric {
        MetricName::Requests => ("request", "requests"),
        _ => ("value", "values"),
    };
    FigureRow {
        value: name_with_code(&figures.value).into_owned(),
        figures: list_statistics(metric).iter().map(figure).collect(),
        observations: estimate(counted(whole(figures.observations), one, many), figures.estimated),
    }
}
