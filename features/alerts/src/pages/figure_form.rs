//! The fields of a figure in the forms of rules.

use crate::store::AlertRuleId;
use crate::store::figures::{AlertEscalation, FigureComparison, WatchedFigure};
use crate::store::firings::AlertFiring;
use crate::store::rules::AlertRule;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Problem, TenantAdmin};
use unslide_site::SentForm;
use unslide_store::queries::names;
use unslide_store::watched_figures::list_figures;

/// Names that a field suggests.
const SUGGESTED_NAMES_LIMIT: u32 = 50;
/// Minutes until the second receiver gets a firing, if the form names none.
const USUAL_ESCALATION_MINUTES: u16 = 15;

/// Names that the fields of a figure suggest.
pub struct FigureSuggestions {
    pub figures: Vec<String>,
    pub apps: Vec<String>,
    pub versions: Vec<String>,
}

impl FigureSuggestions {
    /// Finds the names that a viewer may see.
    pub async fn find(storage: &Storage, access: &Access<TenantAdmin>) -> Result<FigureSuggestions, Problem> {
        let figures = list_figures(&storage.store).into_iter().map(|figure| figure.name).collect();
        let mut tx = storage.tenant(access.tenant()).await?;
        let only_app = access.only_app();
        let apps = names::find_apps(&mut tx, only_app, "", SUGGESTED_NAMES_LIMIT).await?;
        let found = names::find_versions(&mut tx, only_app, "", SUGGESTED_NAMES_LIMIT).await?;
        let mut versions: Vec<String> = found.into_iter().map(|name| name.version).collect();
        versions.sort_unstable();
        versions.dedup();
        Ok(FigureSuggestions { figures, apps, versions })
    }
}

/// Returns the figure with the values of the fields of a new rule.
pub fn usual_figure() -> WatchedFigure {
    WatchedFigure {
        name: String::new(),
        comparison: FigureComparison::Above,
        version: None,
        host: None,
        endpoint: None,
        days: 1,
        hours: None,
        objective: None,
        least_observations: 100,
        escalation: None,
    }
}

/// Reads the fields of a figure. Returns `None` if no figure is named.
pub fn read_figure(form: &SentForm) -> Result<Option<WatchedFigure>, Problem> {
    let Some(name) = form.get("figure") else { return Ok(None) };
    let usual = usual_figure();
    Ok(Some(WatchedFigure {
        name: name.to_owned(),
        comparison: form.parse_word("comparison")?,
        version: form.get("version").map(str::to_owned),
        host: form.get("host").map(str::to_owned),
        endpoint: form.get("endpoint").map(str::to_owned),
        days: form.parse_number("days")?.unwrap_or(usual.days),
        hours: form.parse_number("hours")?,
        objective: form.parse_number("objective")?,
        least_observations: form.parse_number("least_observations")?.unwrap_or(usual.least_observations),
        escalation: None,
    }))
}

/// Reads the second receiver of a rule.
pub fn read_escalation(form: &SentForm) -> Result<Option<AlertEscalation>, Problem> {
    let minutes = form.parse_number("escalation_minutes")?.unwrap_or(USUAL_ESCALATION_MINUTES);
    match form.get("escalation").map(str::parse::<AlertRuleId>) {
        Some(Ok(rule)) => Ok(Some(AlertEscalation { rule, minutes })),
        Some(Err(_)) => Err(Problem::new(Kind::InvalidBody, "escalation: the id of a rule")),
        None => Ok(None),
    }
}

pub fn comparison_word(comparison: FigureComparison) -> &'static str {
    match comparison {
        FigureComparison::Above => "above the threshold",
        FigureComparison::Below => "below the threshold",
        FigureComparison::Worse => "worse than before, beyond noise",
        FigureComparison::BurnRate => "using up its objective faster than the threshold",
    }
}

/// Returns true if the second receiver of a rule is that of another.
pub fn escalates_to(rule: &AlertRule, second: &AlertRule) -> bool {
    rule.escalation.is_some_and(|escalation| escalation.rule == second.id)
}

/// Describes when a figure is bad.
pub fn describe_bound(figure: &WatchedFigure, threshold: f64) -> String {
    let bound = match figure.comparison {
        FigureComparison::Above | FigureComparison::Below => format!("{} {threshold}", figure.comparison),
        FigureComparison::Worse => "worse than before".to_owned(),
        FigureComparison::BurnRate => format!("burn rate above {threshold}"),
    };
    let window = figure.hours.map(|hours| format!(" in {hours} h")).unwrap_or_default();
    let only = [&figure.version, &figure.host, &figure.endpoint].into_iter().flatten();
    let only: String = only.map(|name| format!(", {name}")).collect();
    format!(": {} {bound}{window}{only}", figure.name)
}

pub fn firing_status(firing: &AlertFiring) -> (&'static str, &'static str, &'static str) {
    match (firing.ended_at, firing.acknowledged_at) {
        (Some(_), _) => ("good", "●", "over"),
        (None, Some(_)) => ("warn", "◐", "acknowledged"),
        (None, None) => ("bad", "○", "open"),
    }
}
