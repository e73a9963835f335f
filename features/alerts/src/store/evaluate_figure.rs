//! Evaluation of rules that watch a figure: whether it is bad now, and the firings of such rules.

use super::events::{AlertCause, FiringStep, page_path};
use super::figures::{FigureComparison, WatchedFigure, describe_target};
use super::firings::{self, OpenFiring};
use super::rule_table::read_figures;
use super::rules::DueRule;
use time::{Date, Duration};
use unslide_model::figures::{format_decimals, format_hundredths_of_percent, round_fraction_below_whole};
use unslide_store::watched_figures::{FigureQuery, MeasuredFigure, measure_figure};
use unslide_store::{Result, TenantTx};

/// Measures the figure of a rule, and begins, ends or escalates a firing. A figure with too few observations changes nothing.
/// Returns the number of new events.
pub(super) async fn evaluate_figure(tx: &mut TenantTx, rule: &DueRule) -> Result<u64> {
    let figure = read_figures(tx, &[rule.id]).await?.pop();
    let (Some((_, figure)), Some(app)) = (figure, &rule.app) else { return Ok(0) };
    let open = firings::find_open(tx, rule.id).await?;
    let [now, before] = compared_days(tx.now().to_offset(time::UtcOffset::UTC).date(), figure.days);
    let query = FigureQuery {
        figure: &figure.name,
        app,
        version: figure.version.as_deref(),
        host: figure.host.as_deref(),
        endpoint: figure.endpoint.as_deref(),
        period: now,
        before: (figure.comparison == FigureComparison::Worse).then_some(before),
    };
    let measured = measure_figure(tx, query).await?;
    let judged = measured.filter(|measured| measured.observations >= f64::from(figure.least_observations));
    let Some(measured) = judged else { return escalate_firing(tx, rule, &figure, open).await };
    let text = FigureText { figure: &figure, app, threshold: rule.threshold, measured };
    match (open, is_bad(&figure, rule.threshold, measured)) {
        (None, false) => Ok(0),
        (None, true) => {
            let began = firings::begin_firing(tx, rule.id, &text.headline()).await?;
            let raised = firings::raise_step(tx, &began, FiringStep::Began, &text.cause()).await?;
            escalate_firing(tx, rule, &figure, Some(began)).await.map(|escalated| raised + escalated)
        }
        (Some(firing), false) => {
            firings::end_firing(tx, firing.id).await?;
            firings::raise_step(tx, &firing, FiringStep::Recovered, &text.cause()).await
        }
        (Some(firing), true) => escalate_firing(tx, rule, &figure, Some(firing)).await,
    }
}

/// Returns the days of a figure, and as many before them; the end of each is not part of it.
fn compared_days(today: Date, days: u8) -> [(Date, Date); 2] {
    let length = Duration::days(days.into());
    let to = today.saturating_add(Duration::DAY);
    let from = to.saturating_sub(length);
    [(from, to), (from.saturating_sub(length), from)]
}

fn is_bad(figure: &WatchedFigure, threshold: f64, measured: MeasuredFigure) -> bool {
    match figure.comparison {
        FigureComparison::Above => measured.value > threshold,
        FigureComparison::Below => measured.value < threshold,
        FigureComparison::Worse => measured.is_worse,
    }
}

/// Sends a firing to the second receiver once it is due, or has the rule evaluated at that moment.
async fn escalate_firing(
    tx: &mut TenantTx,
    rule: &DueRule,
    figure: &WatchedFigure,
    firing: Option<OpenFiring>,
) -> Result<u64> {
    let waiting = firing.filter(|firing| !firing.is_acknowledged && firing.escalated_to.is_none());
    let (Some(firing), Some(escalation)) = (waiting, figure.escalation) else { return Ok(0) };
    let due = firing.began_at + Duration::minutes(escalation.minutes.into());
    if tx.now() < due {
        firings::evaluate_again(tx, rule.id, due).await?;
        return Ok(0);
    }
    let app = rule.app.as_deref().unwrap_or_default();
    firings::escalate(tx, &firing, escalation, &firings::firing_cause(&firing, app, figure)).await
}

/// The texts about a measured figure.
struct FigureText<'a> {
    figure: &'a WatchedFigure,
    app: &'a str,
    threshold: f64,
    measured: MeasuredFigure,
}

impl FigureText<'_> {
    fn headline(&self) -> String {
        let value = format_value(self.measured.value, self.measured.unit);
        format!("{} is {value}", describe_target(self.figure, self.app))
    }

    fn cause(&self) -> AlertCause {
        let MeasuredFigure { unit, observations, before, .. } = self.measured;
        let bound = match (self.figure.comparison, before) {
            (FigureComparison::Worse, Some(before)) => {
                format!("Before it was {}", format_value(before, unit))
            }
            (FigureComparison::Worse, None) => "There is nothing to compare it with".to_owned(),
            (FigureComparison::Above, _) => format!("The limit is {}", format_value(self.threshold, unit)),
            (FigureComparison::Below, _) => format!("The least is {}", format_value(self.threshold, unit)),
        };
        AlertCause {
            cause: String::new(),
            headline: self.headline(),
            detail: format!(
                "{bound}. Independent observations: {}. Days: {}.",
                format_decimals(observations, 0),
                self.figure.days
            ),
            app: self.app.to_owned(),
            version: self.figure.version.clone().unwrap_or_default(),
            path: page_path("/console/versions", self.app),
        }
    }
}

/// Returns a value with its unit: a share as per cent.
fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "1" => format_hundredths_of_percent(round_fraction_below_whole(value, 10_000)),
        unit => format!("{} {unit}", format_decimals(value, 1)).trim_end().to_owned(),
    }
}
