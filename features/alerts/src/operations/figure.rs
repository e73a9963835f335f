//! Checks the figure of a rule.

use crate::store::figures::{
    AlertEscalation, FigureComparison, MOST_ESCALATION_MINUTES, MOST_FIGURE_DAYS, MOST_FIGURE_HOURS,
    WatchedFigure,
};
use crate::store::rules::{AlertCondition, AlertRule};
use crate::store::{AlertRuleId, rule_table};
use unslide_api::feature::operation::{Kind, Problem, is_text};
use unslide_store::watched_figures::list_figures;
use unslide_store::{Store, TenantTx};

/// The most independent observations that a rule may ask for.
const MOST_LEAST_OBSERVATIONS: u32 = 1_000_000_000;
/// The longest endpoint: a method, a host and a template.
const MOST_ENDPOINT_BYTES: usize = 600;
/// The largest threshold of a figure.
const MOST_THRESHOLD: f64 = 1e15;

/// Checks the parts of a figure, and that a feature can measure it.
pub fn check_figure(store: &Store, figure: &WatchedFigure) -> Result<(), Problem> {
    wrong_figure(store, figure).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))
}

fn wrong_figure(store: &Store, figure: &WatchedFigure) -> Result<(), String> {
    let known = list_figures(store).into_iter().find(|known| known.name == figure.name);
    let Some(known) = known else {
        let name: String = figure.name.chars().take(100).collect();
        return Err(format!(
            "figure.name: no figure {name:?}; use a share such as out_of_memory_sessions, or a metric with a quantile such as launch_time_p90"
        ));
    };
    for (place, chosen) in [("host", &figure.host), ("endpoint", &figure.endpoint)] {
        if chosen.is_some() && !known.has_hosts {
            return Err(format!("figure.{place}: {} is not counted by {place}", figure.name));
        }
    }
    if figure.host.is_some() && figure.endpoint.is_some() {
        return Err("figure.endpoint: an endpoint has its host in it; leave figure.host out".to_owned());
    }
    if figure.comparison == FigureComparison::Worse && !known.is_comparable {
        return Err(format!(
            "figure.comparison: neither more nor less of {} is better; use above or below",
            figure.name
        ));
    }
    for (name, text, limit) in [
        ("version", &figure.version, 255),
        ("host", &figure.host, 255),
        ("endpoint", &figure.endpoint, MOST_ENDPOINT_BYTES),
    ] {
        if text.as_ref().is_some_and(|text| !is_text(text, limit)) {
            return Err(format!("figure.{name}: 1 to {limit} bytes, no control characters"));
        }
    }
    if !(1..=MOST_FIGURE_DAYS).contains(&figure.days) {
        return Err(format!("figure.days: 1 to {MOST_FIGURE_DAYS}"));
    }
    if !(1..=MOST_LEAST_OBSERVATIONS).contains(&figure.least_observations) {
        return Err(format!("figure.least_observations: 1 to {MOST_LEAST_OBSERVATIONS}"));
    }
    if figure.hours.is_some_and(|hours| !(1..=MOST_FIGURE_HOURS).contains(&hours)) {
        return Err(format!("figure.hours: 1 to {MOST_FIGURE_HOURS}"));
    }
    match (figure.comparison, figure.objective) {
        (FigureComparison::BurnRate, _) if known.unit != "1" => {
            Err(format!("figure.comparison: {} is no share; use above or below", figure.name))
        }
        (FigureComparison::BurnRate, Some(objective)) if objective > 0.0 && objective < 1.0 => Ok(()),
        (FigureComparison::BurnRate, _) => {
            Err("figure.objective: needed, the share that has to be good, above 0 and below 1".to_owned())
        }
        (_, Some(_)) => Err("figure.objective: only with the comparison burn_rate".to_owned()),
        (_, None) => Ok(()),
    }
}

/// Checks that a rule as a whole can watch its figure, after it was made or changed.
pub fn check_watching_rule(rule: &AlertRule, figure: Option<&WatchedFigure>) -> Result<(), Problem> {
    let wrong = |detail: &str| Err(Problem::new(Kind::InvalidBody, detail));
    if rule.condition != AlertCondition::Figure {
        return if figure.is_some() { wrong("figure: only with the condition figure") } else { Ok(()) };
    }
    if rule.figure.is_none() {
        return wrong("figure: the condition figure needs one");
    }
    if rule.app.is_none() {
        return wrong("app: a rule that watches a figure has one");
    }
    if !(0.0..=MOST_THRESHOLD).contains(&rule.threshold) {
        return wrong("threshold: 0 to 10^15, in the unit of the figure");
    }
    Ok(())
}

/// Checks that the second receiver of a rule is that of another rule which the key may see. `rule` is the rule, if it exists
/// already: then 0 minutes remove its second receiver.
pub async fn check_second_receiver(
    tx: &mut TenantTx,
    escalation: Option<AlertEscalation>,
    rule: Option<AlertRuleId>,
    app: Option<&str>,
) -> Result<(), Problem> {
    let Some(AlertEscalation { rule: second, minutes }) = escalation else { return Ok(()) };
    if rule.is_some() && minutes == 0 {
        return Ok(());
    }
    if !(1..=MOST_ESCALATION_MINUTES).contains(&minutes) {
        let detail = format!("escalation.minutes: 1 to {MOST_ESCALATION_MINUTES}");
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    if rule == Some(second) || rule_table::get(tx, second, app).await?.is_none() {
        let detail = "escalation.rule: the id of another rule, whose receiver is the second one";
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    Ok(())
}
