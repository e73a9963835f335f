//! `/console/health/figure`: one figure that rules can watch, by hour or by day.

use super::HEALTH_PATH;
use super::prelude::*;
use super::values::{format_share, format_value, whole};
use crate::operations::FigureStep;
use crate::store::figures::watched::{FIGURE_PATH, FigurePoint, WATCHED_FIGURES, list_points};
use time::OffsetDateTime;
use unslide_site::BarSelect;
use unslide_store::watched_figures::FigureQuery;

#[derive(Template)]
#[template(path = "health/figure.html", askama = escaping)]
struct FigurePage {
    shell: Shell,
    app: String,
    figure: String,
    /// The version and the host, if they are chosen.
    only: String,
    /// The page of all versions.
    back: String,
    step: FigureStep,
    rows: Vec<PointRow>,
}

struct PointRow {
    begin: String,
    value: String,
    /// The value as a share of the largest one, in percent: the length of its bar.
    length: i64,
    observations: String,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let app = access.restrict_app(state.get_text("app"))?.unwrap_or_default();
    let [version, host, endpoint] = ["version", "host", "endpoint"].map(|name| state.get(name));
    let mut select = figure_select();
    let figure = select.select_or_first(state.get_text("figure"));
    let step = state.get("by").and_then(FigureStep::parse).unwrap_or_default();
    let mut tx = storage.tenant(access.tenant()).await?;
    let query = FigureQuery {
        figure: &figure,
        app: &app,
        version,
        host,
        endpoint,
        period: step.period(storage.clock.now()),
        before: None,
    };
    let points = list_points(&mut tx, query).await?;
    tx.rollback();
    let Some(points) = points else {
        return Err(Problem::new(Kind::InvalidParameter, "figure: there is no such figure"));
    };
    let steps = BarSelect::from_options(
        "by",
        "By",
        FigureStep::ALL.map(|one| (one.to_string(), one.to_string(), one == step)).to_vec(),
    );
    let chosen = [("app", Some(app.as_str())), ("version", version), ("host", host), ("endpoint", endpoint)];
    let hidden = chosen.iter().filter_map(|(name, value)| Some((*name, (*value)?.to_owned())));
    let bar = FilterBar {
        action: FIGURE_PATH.to_owned(),
        selects: vec![select, steps],
        hidden: hidden.collect(),
        ..FilterBar::default()
    };
    render_html(&FigurePage {
        shell: Shell::for_viewer(signed.viewer, "health", format!("{figure} over time")).with_bar(bar),
        back: build_link(HEALTH_PATH, &[("app", Some(&app))]),
        only: [version, host, endpoint].into_iter().flatten().collect::<Vec<_>>().join(" "),
        rows: build_rows(&points, step),
        app,
        figure,
        step,
    })
}

/// Returns the field for the figure.
fn figure_select() -> BarSelect {
    let figures = (WATCHED_FIGURES.list)().into_iter();
    let options = figures.map(|figure| (figure.name.clone(), figure.name, false));
    BarSelect::from_options("figure", "Figure", options.collect())
}

fn build_rows(points: &[FigurePoint], step: FigureStep) -> Vec<PointRow> {
    let largest = points.iter().map(|point| point.measured.value).fold(0.0, f64::max);
    let row = |point: &FigurePoint| {
        let measured = point.measured;
        let value = match measured.unit {
            "1" => format_share(measured.value),
            unit => format_value(unit, measured.value),
        };
        let length = if largest > 0.0 { whole(100.0 * measured.value / largest) } else { 0 };
        let observations = counted(whole(measured.observations), "observation", "observations");
        PointRow { begin: format_begin(point.begin, step), value, length, observations }
    };
    points.iter().map(row).collect()
}

fn format_begin(begin: OffsetDateTime, step: FigureStep) -> String {
    let hour = time::macros::format_description!("[year]-[month]-[day] [hour]:00 UTC");
    match step {
        FigureStep::Hour => begin.format(hour).unwrap_or_default(),
        FigureStep::Day => begin.date().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;
    use unslide_store::watched_figures::MeasuredFigure;

    #[test]
    fn a_row_is_an_hour_or_a_day_with_its_value() {
        let point = |value: f64, unit| FigurePoint {
            begin: datetime!(2026-11-20 20:00 UTC),
            measured: MeasuredFigure {
                value,
                unit,
                observations: 150.0,
                more_is_better: Some(false),
                before: None,
                is_worse: false,
            },
        };
        let rows = build_rows(&[point(0.5, "1"), point(0.25, "1"), point(0.0, "1")], FigureStep::Hour);
        let texts: Vec<_> =
            rows.iter().map(|row| (row.begin.as_str(), row.value.as_str(), row.length)).collect();
        let hour = "2026-11-20 20:00 UTC";
        assert_eq!(texts, [(hour, "50.00 %", 100), (hour, "25.00 %", 50), (hour, "0.00 %", 0)]);
        assert_eq!(rows[0].observations, "150 observations");
        let rows = build_rows(&[point(1_500.0, "ms")], FigureStep::Day);
        assert_eq!((rows[0].begin.as_str(), rows[0].value.as_str()), ("2026-11-20", "1.5 s"));
    }
}
