//! Figures of apps that rules watch.

use super::AlertRuleId;
use serde::{Deserialize, Serialize};
use unslide_store::sql::words;
use utoipa::ToSchema;

/// The most days that a figure is made of.
pub const MOST_FIGURE_DAYS: u8 = 28;
/// The most hours that a figure is made of: as many before them are kept, too.
pub const MOST_FIGURE_HOURS: u8 = 24;
/// The most minutes until the second receiver gets a firing.
pub const MOST_ESCALATION_MINUTES: u16 = 1_440;

words! {
    /// When a figure is bad.
    pub enum FigureComparison {
        /// It is above the threshold.
        Above = "above",
        /// It is below the threshold.
        Below = "below",
        /// It is worse than in the days or hours before, by more than chance explains.
        Worse = "worse",
        /// The bad share is more than the threshold times the share that the objective allows, in two windows: the whole one
        /// and the last hour.
        BurnRate = "burn_rate",
    }
}

/// A figure that a rule watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedFigure {
    /// Name of the figure: a share such as `out_of_memory_sessions`, or a metric with a quantile such as `launch_time_p90`.
    #[schema(max_length = 100, example = "launch_time_p90")]
    pub name: String,
    /// `above` or `below` the rule's threshold, `worse` than in as many days or hours before by more than chance explains, or
    /// `burn_rate` for a share that uses up what its objective allows faster than the threshold, in the last hour, too.
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
    /// The only endpoint that counts, for figures of requests, in place of a host: method, host and template of the path, as
    /// `GET /v1/apps/{app}/network` lists it.
    #[schema(max_length = 600, example = "POST api.example.com/payment")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Days (UTC) that the figure is made of, today included, 1 to 28; 1 if absent. Not used with `hours`.
    #[schema(minimum = 1, maximum = 28)]
    #[serde(default = "usual_days")]
    pub days: u8,
    /// Hours that the figure is made of, the current hour of the clock included, 1 to 24. As long as the current hour has too
    /// few observations, the hours end with the one before.
    #[schema(minimum = 1, maximum = 24)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<u8>,
    /// Of `burn_rate`: the share that has to be good, such as 0.999.
    #[schema(exclusive_minimum = 0, exclusive_maximum = 1, example = 0.999)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// Independent observations below which the figure is not judged; 100 if absent.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    #[serde(default = "usual_observations")]
    pub least_observations: u32,
    /// The same as `escalation` of the rule. Answers have it there.
    #[serde(skip_serializing)]
    pub escalation: Option<AlertEscalation>,
}

/// The second receiver of a rule, if no person acknowledges in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertEscalation {
    /// The rule with the receiver. It may be switched off.
    #[schema(value_type = Uuid)]
    pub rule: AlertRuleId,
    /// Minutes that a person has to acknowledge, 1 to 1440. In a change 0: no second receiver any more.
    #[schema(minimum = 0, maximum = 1440)]
    pub minutes: u16,
}

fn usual_days() -> u8 {
    1
}

fn usual_observations() -> u32 {
    100
}

/// Returns the figure, the app, the version, and the host or endpoint in one line.
pub(super) fn describe_target(figure: &WatchedFigure, app: &str) -> String {
    let version = figure.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let place = figure.endpoint.as_ref().or(figure.host.as_ref());
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    format!("{} of {app}{version}{place}", figure.name)
}
