//! Evaluation of rules that watch a figure: whether it is bad now, and the firings of such rules.

use super::events::{AlertCause, FiringStep, page_query};
use super::figures::{FigureComparison, WatchedFigure, describe_target};
use super::firings;
use super::rule_table::read_figures;
use super::rules::DueRule;
use time::{Date, Duration, OffsetDateTime, UtcOffset};
use unslide_model::figures::{format_decimals, format_fraction};
use unslide_model::timestamp::begin_of_hour;
use unslide_store::watched_figures::{
    FigurePeriod, FigureQuery, MeasuredFigure, find_figure_page, measure_figure,
};
use unslide_store::{Result, TenantTx};

/// The second window of a burn rate, in hours.
const SHORT_WINDOW_HOURS: u8 = 1;

/// Measures the figure of a rule, and begins or ends a firing. A figure with too few observations changes nothing. Returns the
/// number of new events.
pub(super) async fn evaluate_figure(tx: &mut TenantTx, rule: &DueRule) -> Result<u64> {
    let figure = read_figures(tx, &[rule.id]).await?.pop();
    let (Some((_, figure)), Some(app)) = (figure, &rule.app) else { return Ok(0) };
    let open = firings::find_open(tx, rule.id).await?;
    let Some(judged) = judge_figure(tx, &figure, app, rule.threshold).await? else { return Ok(0) };
    let text = FigureText { figure: &figure, app, threshold: rule.threshold, judged };
    let cause = text.cause(figure_path(tx, &figure, app));
    match (open, judged.is_bad) {
        (None, false) | (Some(_), true) => Ok(0),
        (None, true) => {
            let began = firings::begin_firing(tx, rule.id, &cause, rule.escalate_minutes).await?;
            firings::raise_step(tx, &began, FiringStep::Began, &cause).await
        }
        (Some(firing), false) => {
            firings::end_firing(tx, firing.id).await?;
            firings::raise_step(tx, &firing, FiringStep::Recovered, &cause).await
        }
    }
}

/// A figure with enough observations.
#[derive(Clone, Copy)]
struct JudgedFigure {
    measured: MeasuredFigure,
    /// The end of the window, for a window of hours.
    until: Option<OffsetDateTime>,
    /// Of a burn rate: how many times as much as allowed is bad, in the whole window and in the last hour.
    burn_rates: Option<(f64, f64)>,
    is_bad: bool,
}

/// Measures and judges a figure. Returns `None` if it has too few observations.
async fn judge_figure(
    tx: &mut TenantTx,
    figure: &WatchedFigure,
    app: &str,
    threshold: f64,
) -> Result<Option<JudgedFigure>> {
    let Some((measured, until)) = measure_window(tx, figure, app, figure.hours).await? else {
        return Ok(None);
    };
    let mut judged = JudgedFigure { measured, until, burn_rates: None, is_bad: false };
    judged.is_bad = match figure.comparison {
        FigureComparison::Above => measured.value > threshold,
        FigureComparison::Below => measured.value < threshold,
        FigureComparison::Worse => measured.is_worse,
        FigureComparison::BurnRate => {
            let short = measure_window(tx, figure, app, Some(SHORT_WINDOW_HOURS)).await?;
            let Some((short, _)) = short else { return Ok(None) };
            let objective = figure.objective.unwrap_or_default();
            let rates = (burn_rate(measured, objective), burn_rate(short, objective));
            judged.burn_rates = Some(rates);
            rates.0 > threshold && rates.1 > threshold
        }
    };
    Ok(Some(judged))
}

/// Returns how many times as much as the objective allows is bad.
fn burn_rate(measured: MeasuredFigure, objective: f64) -> f64 {
    let bad = if measured.more_is_better == Some(true) { 1.0 - measured.value } else { measured.value };
    bad / (1.0 - objective)
}

/// Measures a figure in its days or hours; hours end with the current one, or with the one before if the current one has too few
/// observations. Returns `None` if those have too few, too; and the end of hours.
async fn measure_window(
    tx: &mut TenantTx,
    figure: &WatchedFigure,
    app: &str,
    hours: Option<u8>,
) -> Result<Option<(MeasuredFigure, Option<OffsetDateTime>)>> {
    let windows = match hours {
        Some(hours) => compared_hours(tx.now(), hours).to_vec(),
        None => vec![compared_days(tx.now().to_offset(UtcOffset::UTC).date(), figure.days)],
    };
    for [now, before] in windows {
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
        let until = match now {
            FigurePeriod::Hours(_, until) => Some(until),
            FigurePeriod::Days(..) => None,
        };
        let least = f64::from(figure.least_observations);
        if let Some(measured) = measured.filter(|measured| measured.observations >= least) {
            return Ok(Some((measured, until)));
        }
    }
    Ok(None)
}

/// Returns the days of a figure, and as many before them.
fn compared_days(today: Date, days: u8) -> [FigurePeriod; 2] {
    let length = Duration::days(days.into());
    let to = today.saturating_add(Duration::DAY);
    let from = to.saturating_sub(length);
    [FigurePeriod::Days(from, to), FigurePeriod::Days(from.saturating_sub(length), from)]
}

/// Returns the hours of a figure up to the current one, and those up to the hour before; beside each as many before them.
fn compared_hours(now: OffsetDateTime, hours: u8) -> [[FigurePeriod; 2]; 2] {
    let (length, current) = (Duration::hours(hours.into()), begin_of_hour(now));
    [current + Duration::HOUR, current].map(|to| {
        let from = to - length;
        [FigurePeriod::Hours(from, to), FigurePeriod::Hours(from - length, from)]
    })
}

/// Returns the path of the console's page that shows a figure over time.
fn figure_path(tx: &TenantTx, figure: &WatchedFigure, app: &str) -> String {
    let page = find_figure_page(tx, &figure.name).unwrap_or("/console");
    let fields = [
        ("app", Some(app)),
        ("figure", Some(figure.name.as_str())),
        ("version", figure.version.as_deref()),
        ("host", figure.host.as_deref()),
        ("endpoint", figure.endpoint.as_deref()),
        ("by", Some(if figure.hours.is_some() { "hour" } else { "day" })),
    ];
    page_query(page, &fields)
}

/// The texts about a judged figure.
struct FigureText<'a> {
    figure: &'a WatchedFigure,
    app: &'a str,
    threshold: f64,
    judged: JudgedFigure,
}

impl FigureText<'_> {
    fn headline(&self) -> String {
        let (target, measured) = (describe_target(self.figure, self.app), self.judged.measured);
        let value = format_value(measured.value, measured.unit);
        match self.judged.burn_rates {
            None => format!("{target} is {value}"),
            Some((rate, _)) => format!("{target} is {value}, a burn rate of {}", format_decimals(rate, 1)),
        }
    }

    fn cause(&self, path: String) -> AlertCause {
        let MeasuredFigure { unit, observations, before, .. } = self.judged.measured;
        let bound = match (self.figure.comparison, before) {
            (FigureComparison::Worse, Some(before)) => {
                format!("Before it was {}", format_value(before, unit))
            }
            (FigureComparison::Worse, None) => "There is nothing to compare it with".to_owned(),
            (FigureComparison::Above, _) => format!("The limit is {}", format_value(self.threshold, unit)),
            (FigureComparison::Below, _) => format!("The least is {}", format_value(self.threshold, unit)),
            (FigureComparison::BurnRate, _) => self.describe_burn_rates(),
        };
        let window = match (self.figure.hours, self.judged.until) {
            (Some(hours), Some(until)) => format!("Hours: {hours}, up to {}", firings::format_minute(until)),
            _ => format!("Days: {}", self.figure.days),
        };
        AlertCause {
            cause: String::new(),
            headline: self.headline(),
            detail: format!(
                "{bound}. Independent observations: {}. {window}.",
                format_decimals(observations, 0)
            ),
            app: self.app.to_owned(),
            version: self.figure.version.clone().unwrap_or_default(),
            path,
        }
    }

    fn describe_burn_rates(&self) -> String {
        let objective = self.figure.objective.unwrap_or_default();
        let (_, short) = self.judged.burn_rates.unwrap_or_default();
        format!(
            "The limit is {} times what {} good allows; the last hour has {}",
            format_decimals(self.threshold, 1),
            format_value(objective, "1"),
            format_decimals(short, 1)
        )
    }
}

/// Returns a value with its unit: a share as per cent.
fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "1" => format_fraction(value),
        unit => format!("{} {unit}", format_decimals(value, 1)).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn hours_end_with_the_current_one_or_with_the_one_before() {
        let now = datetime!(2026-11-20 0:20 UTC);
        let hours = |from, to| FigurePeriod::Hours(from, to);
        let [current, former] = compared_hours(now, 1);
        let midnight = datetime!(2026-11-20 0:00 UTC);
        assert_eq!(current[0], hours(midnight, datetime!(2026-11-20 1:00 UTC)));
        assert_eq!(current[1], hours(datetime!(2026-11-19 23:00 UTC), midnight));
        assert_eq!(former[0], hours(datetime!(2026-11-19 23:00 UTC), midnight));
        let [day, _] = compared_hours(now, 24);
        assert_eq!(day[0], hours(datetime!(2026-11-19 1:00 UTC), datetime!(2026-11-20 1:00 UTC)));
        assert_eq!(day[1], hours(datetime!(2026-11-18 1:00 UTC), datetime!(2026-11-19 1:00 UTC)));
    }

    #[test]
    fn a_burn_rate_is_the_bad_share_of_what_is_allowed() {
        let of = |value, more_is_better| MeasuredFigure {
            value,
            unit: "1",
            observations: 1_000.0,
            more_is_better: Some(more_is_better),
            before: None,
            is_worse: false,
        };
        assert!((burn_rate(of(0.006, false), 0.999) - 6.0).abs() < 1e-6);
        assert!((burn_rate(of(0.994, true), 0.999) - 6.0).abs() < 1e-6);
    }
}
