//! Rules that watch a figure of an app: whether it is bad now, and the firings of such rules.

use super::evaluate::{Evaluated, page_path};
use super::firings::{self, FiringStep, OpenFiring};
use super::rules::{AlertCondition, AlertRule};
use serde::{Deserialize, Serialize};
use time::{Date, Duration};
use unslide_model::figures::{format_decimals, format_hundredths_of_percent, round_fraction_below_whole};
use unslide_store::sql::words;
use unslide_store::watched_figures::{FigureQuery, MeasuredFigure, measure_figure};
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

/// The most days that a figure is made of.
pub const MOST_FIGURE_DAYS: u8 = 28;
/// The most minutes until the second receiver gets a firing.
pub const MOST_ESCALATION_MINUTES: u16 = 1_440;

words! {
    /// When a figure is bad.
    pub enum FigureComparison {
        /// It is above the threshold.
        Above = "above",
        /// It is below the threshold.
        Below = "below",
        /// It is worse than in the days before, by more than chance explains.
        Worse = "worse",
    }
}

/// A figure that a rule watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedFigure {
    /// Name of the figure: a share such as `out_of_memory_sessions`, or a metric with a quantile such as `launch_time_p90`.
    #[schema(max_length = 100, example = "launch_time_p90")]
    pub name: String,
    /// `above` or `below` the rule's threshold, or `worse` than in as many days before by more than chance explains.
    #[schema(value_type = String, example = "above")]
    pub comparison: FigureComparison,
    /// The only version that counts; every version if absent.
    #[schema(max_length = 255)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The only host that counts, for figures of requests; all hosts together if absent.
    #[schema(max_length = 255)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Days (UTC) that the figure is made of, today included, 1 to 28; 1 if absent.
    #[schema(minimum = 1, maximum = 28)]
    #[serde(default = "usual_days")]
    pub days: u8,
    /// Independent observations below which the figure is not judged; 100 if absent.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    #[serde(default = "usual_observations")]
    pub least_observations: u32,
    /// A second receiver, if no person acknowledges in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation: Option<AlertEscalation>,
}

/// The second receiver of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertEscalation {
    /// The rule with the receiver. It may be switched off.
    pub rule: Uuid,
    /// Minutes that a person has to acknowledge, 1 to 1440.
    #[schema(minimum = 1, maximum = 1440)]
    pub minutes: u16,
}

fn usual_days() -> u8 {
    1
}

fn usual_observations() -> u32 {
    100
}

/// Writes the figure of a rule, in place of the one that it had.
pub(super) async fn set_figure(tx: &mut TenantTx, rule: Uuid, figure: &WatchedFigure) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO alert_figures (rule, tenant, figure, comparison, version, host, days, least_observations,
                                    escalate_to, escalate_minutes)
         VALUES ($2, $1, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (rule) DO UPDATE
         SET figure = EXCLUDED.figure, comparison = EXCLUDED.comparison, version = EXCLUDED.version,
             host = EXCLUDED.host, days = EXCLUDED.days, least_observations = EXCLUDED.least_observations,
             escalate_to = EXCLUDED.escalate_to, escalate_minutes = EXCLUDED.escalate_minutes",
        tenant,
        rule,
        figure.name,
        figure.comparison.as_str(),
        figure.version,
        figure.host,
        i32::from(figure.days),
        i32::try_from(figure.least_observations).unwrap_or(i32::MAX),
        figure.escalation.map(|escalation| escalation.rule),
        figure.escalation.map(|escalation| i32::from(escalation.minutes))
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Fills in the figures of rules that watch one.
pub(super) async fn fill_figures(tx: &mut TenantTx, rules: &mut [AlertRule]) -> Result<()> {
    let watching = rules.iter().filter(|rule| rule.condition == AlertCondition::Figure);
    let ids: Vec<Uuid> = watching.map(|rule| rule.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    for (id, figure) in read_figures(tx, &ids).await? {
        if let Some(rule) = rules.iter_mut().find(|rule| rule.id == id) {
            rule.figure = Some(figure);
        }
    }
    Ok(())
}

async fn read_figures(tx: &mut TenantTx, rules: &[Uuid]) -> Result<Vec<(Uuid, WatchedFigure)>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT rule, figure, comparison AS "comparison: FigureComparison", version, host, days, least_observations,
                  escalate_to, escalate_minutes
           FROM alert_figures WHERE tenant = $1 AND rule = ANY ($2)"#,
        tenant,
        rules
    )
    .fetch_all(connection)
    .await?;
    let figures = rows.into_iter().map(|row| {
        let escalation = row.escalate_to.zip(row.escalate_minutes).map(|(rule, minutes)| AlertEscalation {
            rule,
            minutes: u16::try_from(minutes).unwrap_or(MOST_ESCALATION_MINUTES),
        });
        let figure = WatchedFigure {
            name: row.figure,
            comparison: row.comparison,
            version: row.version,
            host: row.host,
            days: u8::try_from(row.days).unwrap_or(MOST_FIGURE_DAYS),
            least_observations: row.least_observations.unsigned_abs(),
            escalation,
        };
        (row.rule, figure)
    });
    Ok(figures.collect())
}

/// Measures the figure of a rule, and begins, ends or escalates a firing. A figure with too few observations changes nothing.
/// Returns the number of new events.
pub(super) async fn evaluate_figure(tx: &mut TenantTx, rule: &Evaluated) -> Result<u64> {
    let figure = read_figures(tx, &[rule.id]).await?.pop();
    let (Some((_, figure)), Some(app)) = (figure, &rule.app) else { return Ok(0) };
    let open = firings::find_open(tx, rule.id).await?;
    let [now, before] = compared_days(tx.now().to_offset(time::UtcOffset::UTC).date(), figure.days);
    let query = FigureQuery {
        figure: &figure.name,
        app,
        version: figure.version.as_deref(),
        host: figure.host.as_deref(),
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
    rule: &Evaluated,
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

    fn cause(&self) -> super::events::AlertCause {
        let MeasuredFigure { unit, observations, before, .. } = self.measured;
        let bound = match (self.figure.comparison, before) {
            (FigureComparison::Worse, Some(before)) => {
                format!("Before it was {}", format_value(before, unit))
            }
            (FigureComparison::Worse, None) => "There is nothing to compare it with".to_owned(),
            (FigureComparison::Above, _) => format!("The limit is {}", format_value(self.threshold, unit)),
            (FigureComparison::Below, _) => format!("The least is {}", format_value(self.threshold, unit)),
        };
        super::events::AlertCause {
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

/// Returns the figure, the app, the version and the host in one line.
pub(super) fn describe_target(figure: &WatchedFigure, app: &str) -> String {
    let version = figure.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let host = figure.host.as_ref().map(|host| format!(" at {host}")).unwrap_or_default();
    format!("{} of {app}{version}{host}", figure.name)
}

/// Returns a value with its unit: a share as per cent.
fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "1" => format_hundredths_of_percent(round_fraction_below_whole(value, 10_000)),
        unit => format!("{} {unit}", format_decimals(value, 1)).trim_end().to_owned(),
    }
}
