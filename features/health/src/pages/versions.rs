//! `/console/health`: the health of each version of an app, compared with the version before.

use super::health_rows::{HealthCell, HealthCellLine, HealthRow};
use super::memory_ends::describe_memory_ends;
use super::prelude::*;
use super::request_tables::{RequestTable, build_request_tables};
use super::values::{COLUMNS, column_metric, format_share, format_value, whole};
use super::verdicts::{VersionVerdict, list_verdicts};
use super::{BREAKDOWN_PATH, HEALTH_PATH};
use crate::store::figures::comparison::ChangeVerdict;
use crate::store::figures::memory_limits::{self, MemoryLimit};
use crate::store::figures::requests::{self, RequestFigures, RequestFilter};
use crate::store::figures::signals::{self, ComparedVersions, SignalFigure, VersionSignals};
use crate::store::figures::watched::FIGURE_PATH;
use crate::store::memory_exceptions::check_memory_ends;
use crate::store::{figures, measured_apps};
use time::Date;
use unslide_model::figures::format_fraction;
use unslide_report::device_models::name_with_code;
use unslide_site::{BarSelect, app_select, bytes, grouped};
use unslide_store::app_signals::{self, DroppedSignal};

/// The phases and sizes of a request: metric and head.
const PHASES: [(&str, &str); 8] = [
    ("request_wait", "Wait"),
    ("request_dns", "DNS"),
    ("request_connect", "Connect"),
    ("request_tls", "TLS"),
    ("request_first_byte", "First byte"),
    ("request_total", "Total"),
    ("request_sent", "Sent"),
    ("request_received", "Received"),
];

/// The field for the version that all are compared with.
const COMPARE_WITH: &str = "compare_with";

#[derive(Template)]
#[template(path = "health/versions.html", askama = escaping)]
struct HealthPage {
    shell: Shell,
    app: String,
    days: i64,
    /// A sentence about each version in wide use that is compared with another, the bad ones first.
    verdicts: Vec<VersionVerdict>,
    /// The version that all are compared with; `None` for the version before each.
    chosen: Option<String>,
    versions: Vec<HealthRow>,
    /// Requests by host, by endpoint, by result and by protocol.
    requests: Vec<RequestTable>,
    /// Notes on the figures: days that are left out, and signals that are not kept.
    notes: Vec<String>,
    /// What MetricKit says of ends for lack of memory, and of the ends that were inferred.
    memory_ends: Vec<String>,
    limits: Vec<MemoryLimit>,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.restrict_app(state.get_text("app"))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut select = app_select(&mut tx, access, &state).await?;
    // Apps may send these signals and no report.
    let measured = measured_apps(&mut tx, access.only_app()).await?;
    for app in measured {
        if !select.options.iter().any(|(value, ..)| *value == app) {
            select.options.push((app.clone(), app, false));
        }
    }
    // The app that reported last, if none is chosen.
    let app = select.select_or_first(asked);
    let length = u32::try_from(state.chart_days()).unwrap_or(1);
    let [days, _] = figures::compared_periods(storage.clock.now().date(), length);
    let ComparedVersions { versions, metrics_from } =
        signals::compare_with_version(&mut tx, &app, days, state.get(COMPARE_WITH)).await?;
    let found_requests =
        requests::compare_app_requests(&mut tx, RequestFilter { app: &app, version: None, period: days })
            .await?;
    let dropped = app_signals::list_drops(&mut tx, &app, days).await?;
    let memory_ends = check_memory_ends(&mut tx, &app, days).await?;
    let limits = memory_limits::app_limits(&mut tx, &app).await?;
    tx.rollback();
    let bar = FilterBar {
        action: HEALTH_PATH.to_owned(),
        selects: vec![select, period_select(&state), compared_select(&versions, &state)],
        ..FilterBar::default()
    };
    let has = |signal: &str| versions.iter().any(|of| of.signals.iter().any(|one| one.signal == signal));
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(signal, ..)| has(signal)).collect();
    let rows: Vec<_> =
        versions.iter().map(|version| build_row(version, &columns, &app, state.get("days"))).collect();
    render_html(&HealthPage {
        shell: Shell::for_viewer(signed.viewer, "health", "Health").with_about(app.as_str()).with_bar(bar),
        verdicts: list_verdicts(&rows, &versions),
        chosen: state.get_text(COMPARE_WITH).filter(|chosen| has_version(&versions, chosen)),
        versions: rows,
        app,
        days: state.chart_days(),
        notes: build_notes(metrics_from, found_requests.from, &dropped),
        requests: build_request_tables(found_requests),
        memory_ends: memory_ends.map(|found| describe_memory_ends(&found)).unwrap_or_default(),
        limits,
    })
}

fn has_version(versions: &[VersionSignals], wanted: &str) -> bool {
    versions.iter().any(|version| version.version == wanted)
}

/// Returns the field for the version that all are compared with.
fn compared_select(versions: &[VersionSignals], state: &PageState) -> BarSelect {
    let chosen = state.get(COMPARE_WITH).filter(|chosen| has_version(versions, chosen));
    let each = versions.iter().map(|version| version.version.as_str()).filter(|version| !version.is_empty());
    let each = each.map(|version| (version.to_owned(), version.to_owned(), chosen == Some(version)));
    let before = (String::new(), "the version before".to_owned(), chosen.is_none());
    BarSelect::from_options(COMPARE_WITH, "Compared with", [before].into_iter().chain(each).collect())
}

/// Returns notes on the figures.
fn build_notes(
    metrics_from: Option<Date>,
    requests_from: Option<Date>,
    dropped: &[DroppedSignal],
) -> Vec<String> {
    let cut =
        [("Metrics", metrics_from), ("Requests", requests_from)].into_iter().filter_map(|(of, from)| {
            Some(format!("{of} are those from {} on: there are too many to compare them all.", from?))
        });
    let dropped = dropped.iter().map(|DroppedSignal { signal, dropped }| {
        format!("The settings of the app did not keep {} of {signal}.", grouped(*dropped))
    });
    cut.chain(dropped).collect()
}

/// Returns the device of a memory limit with its code.
fn device(limit: &MemoryLimit) -> String {
    name_with_code(text_or(&limit.model, "unknown device")).into_owned()
}

fn memory(size: i64) -> String {
    bytes(u64::try_from(size).unwrap_or(0))
}

pub(super) fn build_row(
    version: &VersionSignals,
    columns: &[(&str, &'static str, &'static str)],
    app: &str,
    days: Option<&str>,
) -> HealthRow {
    let cell = |(signal, head, title): &(&str, &'static str, &'static str)| {
        let figures: Vec<_> = version.signals.iter().filter(|figure| figure.signal == *signal).collect();
        let unit = match *signal {
            "crash_free_users" => ("user", "users"),
            signal if signal.ends_with("_sessions") => ("session", "sessions"),
            _ => ("value", "values"),
        };
        let observations = figures
            .first()
            .map(|figure| estimate(counted(whole(figure.observations), unit.0, unit.1), figure.estimated));
        let over_time = figures.last().map(|figure| over_time_path(figure, app, &version.version));
        HealthCell {
            head,
            title,
            over_time: over_time.unwrap_or_default(),
            lines: figures.into_iter().map(line).collect(),
            observations: observations.unwrap_or_default(),
        }
    };
    HealthRow {
        version: text_or(&version.version, "no version").to_owned(),
        breakdown: breakdown_path(version, app, days),
        before: version.version_before.as_ref().map(|before| text_or(before, "no version").to_owned()),
        cells: columns.iter().map(cell).collect(),
    }
}

/// Returns the path of the page of a figure by hour and by day.
fn over_time_path(figure: &SignalFigure, app: &str, version: &str) -> String {
    let name = match figure.statistic {
        "share" => figure.signal.to_owned(),
        quantile => format!("{}_{quantile}", figure.signal),
    };
    build_link(FIGURE_PATH, &[("app", Some(app)), ("figure", Some(&name)), ("version", Some(version))])
}

/// Returns the path of the first metric that was measured of a version.
fn breakdown_path(version: &VersionSignals, app: &str, days: Option<&str>) -> Option<String> {
    let is_measured = |signal: &str| version.signals.iter().any(|figure| figure.signal == signal);
    let (signal, ..) =
        COLUMNS.into_iter().find(|(signal, ..)| column_metric(signal).is_some() && is_measured(signal))?;
    let of =
        [("app", Some(app)), ("version", Some(&*version.version)), ("metric", Some(signal)), ("days", days)];
    Some(build_link(BREAKDOWN_PATH, &of))
}

fn line(figure: &SignalFigure) -> HealthCellLine {
    let change = figure.change.zip(figure.before).map(|(change, before)| {
        let (class, word) = match change {
            ChangeVerdict::Better => ("good", "better"),
            ChangeVerdict::Worse => ("bad", "worse"),
            ChangeVerdict::WithinNoise => ("", ""),
        };
        (class, word, format_figure(figure, before))
    });
    let statistic = if figure.statistic == "share" { "" } else { figure.statistic };
    HealthCellLine { statistic, value: format_figure(figure, figure.value), change }
}

/// Formats a value in its unit. A share without crashes is never rounded up to all of it.
fn format_figure(figure: &SignalFigure, value: f64) -> String {
    match (figure.unit, figure.signal) {
        ("1", "crash_free_sessions" | "crash_free_users") => format_fraction(value),
        ("1", _) => format_share(value),
        (unit, _) => format_value(unit, value),
    }
}

fn count_requests(row: &RequestFigures) -> String {
    estimate(counted(whole(row.requests), "request", "requests"), row.estimated)
}

/// Returns median and 95th percentile of a phase or size; `None` if it was not measured.
fn format_phase(row: &RequestFigures, phase: &str) -> Option<String> {
    let found = row.phases.iter().find(|found| found.phase == phase)?;
    Some(format!("{} · {}", format_value(found.unit, found.p50), format_value(found.unit, found.p95)))
}

/// Returns the bytes of all requests together; `None` if no size was measured.
fn format_sum(row: &RequestFigures, phase: &str) -> Option<String> {
    let found = row.phases.iter().find(|found| found.phase == phase)?;
    Some(format!("{} in all", format_value(found.unit, found.sum?)))
}
