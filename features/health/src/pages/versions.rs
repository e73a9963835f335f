//! `/console/health`: the health of each version of an app, compared with the version before.

use super::prelude::*;
use super::request_tables::{RequestTable, build_request_tables};
use super::values::{COLUMNS, column_metric, format_share, format_value, whole};
use super::{BREAKDOWN_PATH, HEALTH_PATH};
use crate::store::figures::comparison::ChangeVerdict;
use crate::store::figures::memory_limits::{self, MemoryLimit};
use crate::store::figures::requests::{self, RequestFigures, RequestFilter};
use crate::store::figures::signals::{self, ComparedVersions, SignalFigure, VersionSignals};
use crate::store::{figures, measured_apps};
use time::Date;
use unslide_console::page::{app_select, bytes, grouped};
use unslide_model::figures::{format_hundredths_of_percent, round_fraction_below_whole};
use unslide_report::device_models::name_with_code;
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

#[derive(Template)]
#[template(path = "health/versions.html", askama = escaping)]
struct HealthPage {
    shell: Shell,
    app: String,
    days: i64,
    /// A sentence about the newest version that is compared with another.
    verdict: Option<String>,
    versions: Vec<HealthRow>,
    /// Requests by host, by endpoint, by result and by protocol.
    requests: Vec<RequestTable>,
    /// Notes on the figures: days that are left out, and signals that are not kept.
    notes: Vec<String>,
    limits: Vec<MemoryLimit>,
}

struct HealthRow {
    version: String,
    /// The page of its metrics by device and system; `None` if it has none.
    breakdown: Option<String>,
    before: Option<String>,
    cells: Vec<HealthCell>,
}

impl HealthRow {
    /// Returns the sentence that says what is worse than in the version before, or else better. `None` without a version
    /// before.
    fn describe_changes(&self) -> Option<String> {
        let (version, before) = (&self.version, self.before.as_ref()?);
        let changed = |class: &str| {
            let cells = self.cells.iter().filter(|cell| cell.change_class() == class);
            cells.map(|cell| lower_first(cell.head)).collect::<Vec<_>>().join(", ")
        };
        let (worse, better) = (changed("bad"), changed("good"));
        Some(match (worse.is_empty(), better.is_empty()) {
            (false, true) => format!("{version} is worse than {before} in: {worse}."),
            (false, false) => {
                format!("{version} is worse than {before} in: {worse}. It is better in: {better}.")
            }
            (true, false) => format!("{version} is not worse than {before}. It is better in: {better}."),
            (true, true) => format!("{version} differs from {before} by no more than noise."),
        })
    }
}

struct HealthCell {
    head: &'static str,
    title: &'static str,
    lines: Vec<HealthCellLine>,
    observations: String,
}

impl HealthCell {
    /// Returns the class of its worst change, or an empty text if it has none.
    fn change_class(&self) -> &'static str {
        let has = |wanted: &str| self.lines.iter().any(|line| line.has_change(wanted));
        if has("bad") {
            "bad"
        } else if has("good") {
            "good"
        } else {
            ""
        }
    }
}

/// Returns a heading within a sentence: its first letter is small, unless it is an abbreviation.
fn lower_first(head: &str) -> String {
    let mut chars = head.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(chars).collect(),
        _ => head.to_owned(),
    }
}

struct HealthCellLine {
    /// The quantile; empty for a share.
    statistic: &'static str,
    value: String,
    /// The mark's class, the word, and the value before; `None` if no earlier version has one.
    change: Option<(&'static str, &'static str, String)>,
}

impl HealthCellLine {
    fn has_change(&self, wanted: &str) -> bool {
        self.change.as_ref().is_some_and(|(class, ..)| *class == wanted)
    }
}

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.restrict_app(state.get_text("app"))?;
    let mut tx = api.tenant(access.tenant()).await?;
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
    let [days, _] = figures::compared_periods(api.clock.now().date(), length);
    let ComparedVersions { versions, metrics_from } =
        signals::compare_version_signals(&mut tx, &app, days).await?;
    let found_requests =
        requests::compare_app_requests(&mut tx, RequestFilter { app: &app, version: None, period: days })
            .await?;
    let dropped = app_signals::list_drops(&mut tx, &app, days).await?;
    let limits = memory_limits::app_limits(&mut tx, &app).await?;
    tx.rollback();
    let bar = FilterBar {
        action: HEALTH_PATH.to_owned(),
        selects: vec![select, period_select(&state)],
        ..FilterBar::default()
    };
    let has = |signal: &str| versions.iter().any(|of| of.signals.iter().any(|one| one.signal == signal));
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(signal, ..)| has(signal)).collect();
    let rows: Vec<_> =
        versions.iter().map(|version| build_row(version, &columns, &app, state.get("days"))).collect();
    render_html(&HealthPage {
        shell: Shell::for_viewer(signed.viewer, "health", "Health").with_about(app.as_str()).with_bar(bar),
        verdict: rows.iter().find_map(HealthRow::describe_changes),
        versions: rows,
        app,
        days: state.chart_days(),
        notes: build_notes(metrics_from, found_requests.from, &dropped),
        requests: build_request_tables(found_requests),
        limits,
    })
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

fn build_row(
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
        HealthCell {
            head,
            title,
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
        ("1", "crash_free_sessions" | "crash_free_users") => {
            format_hundredths_of_percent(round_fraction_below_whole(value, 10_000))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(changes: &[(&'static str, &'static str)]) -> HealthRow {
        let cell = |(head, class): &(&'static str, &'static str)| HealthCell {
            head,
            title: "",
            lines: vec![HealthCellLine {
                statistic: "p95",
                value: "1 s".to_owned(),
                change: Some((class, "", "2 s".to_owned())),
            }],
            observations: String::new(),
        };
        HealthRow {
            version: "2.0".to_owned(),
            breakdown: None,
            before: Some("1.0".to_owned()),
            cells: changes.iter().map(cell).collect(),
        }
    }

    #[test]
    fn a_sentence_says_what_is_worse() {
        let worse = row(&[("Users", "bad"), ("CPU", "bad"), ("Launch", "good"), ("Energy", "")]);
        assert_eq!(
            worse.describe_changes().as_deref(),
            Some("2.0 is worse than 1.0 in: users, CPU. It is better in: launch.")
        );
        let noise = row(&[("Users", "")]).describe_changes();
        assert_eq!(noise.as_deref(), Some("2.0 differs from 1.0 by no more than noise."));
        assert_eq!(HealthRow { before: None, ..worse }.describe_changes(), None);
    }
}
