//! The context of a report: the app's keys, breadcrumbs and log, and the state of the app and the device.

use time::macros::format_description;
use unslide_report::{AppState, Breadcrumb, CorpseFact, CorpseValue, DeviceState, ReportContext};
use unslide_site::{bytes, counted, duration};

/// A log with more lines is folded.
const OPEN_LOG_LINES_LIMIT: usize = 20;

/// The context of a report for its page.
pub struct ContextSections {
    /// Names and values of the state of the app.
    pub app: Vec<(&'static str, String)>,
    /// Names and values of the state of the device.
    pub device: Vec<(&'static str, String)>,
    /// Names and values of what the system kept of the ended process.
    pub corpse: Vec<(&'static str, String)>,
    pub context: ReportContext,
}

impl ContextSections {
    /// Creates the sections of a context.
    pub fn from_context(context: ReportContext) -> ContextSections {
        ContextSections {
            app: describe_app(&context.app),
            device: describe_device(&context.device),
            corpse: context.corpse.iter().map(describe_corpse_fact).collect(),
            context,
        }
    }

    /// Returns the text of the log.
    pub fn log_text(&self) -> String {
        self.context.log.join("\n")
    }

    /// Returns the words for the number of its lines.
    pub fn log_lines(&self) -> String {
        counted(self.context.log.len(), "line", "lines")
    }

    /// Returns true if the log is short enough to be shown at once.
    pub fn is_log_open(&self) -> bool {
        self.context.log.len() <= OPEN_LOG_LINES_LIMIT
    }
}

/// Returns the time of a breadcrumb by the device's clock.
pub fn breadcrumb_time(crumb: &Breadcrumb) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    crumb.at.and_then(|at| at.to_offset(time::UtcOffset::UTC).format(&format).ok()).unwrap_or_default()
}

/// Returns the class of the tag for a severity.
pub fn level_class(crumb: &Breadcrumb) -> &'static str {
    match crumb.level.as_str() {
        "error" | "fatal" | "critical" => "bad",
        "warning" | "warn" => "warn",
        _ => "",
    }
}

fn describe_app(state: &AppState) -> Vec<(&'static str, String)> {
    let screen = state.foreground.map(|foreground| {
        let place = if foreground { "on the screen" } else { "in the background" };
        match state.active {
            Some(false) if foreground => format!("{place}, inactive"),
            _ => place.to_owned(),
        }
    });
    let since_launch = state.since_launch_ms.or_else(|| {
        let active = state.active_ms?;
        Some(active.saturating_add(state.background_ms.unwrap_or(0)))
    });
    known([
        ("Where", screen),
        ("Phase", state.transition.clone()),
        ("Time since launch", since_launch.map(duration)),
        ("On the screen since launch", state.active_ms.map(duration)),
        ("In the background since launch", state.background_ms.map(duration)),
        ("Launches since the last crash", state.launches_since_crash.map(|count| count.to_string())),
        ("Times on the screen since launch", state.sessions_since_launch.map(|count| count.to_string())),
        ("Build", state.build_type.clone()),
    ])
}

fn describe_device(state: &DeviceState) -> Vec<(&'static str, String)> {
    let yes = |flag: Option<bool>| flag.map(|flag| if flag { "yes" } else { "no" }.to_owned());
    let battery = state.battery_percent.map(|percent| match state.charging {
        Some(true) => format!("{percent} %, charging"),
        Some(false) => format!("{percent} %, not charging"),
        None => format!("{percent} %"),
    });
    known([
        ("Memory of the app", part_of(state.footprint, state.memory_limit)),
        ("Memory pressure", state.memory_pressure.clone()),
        ("Free memory", part_of(state.memory_free, state.memory_size)),
        ("Free storage", part_of(state.storage_free, state.storage_size)),
        ("Battery", battery),
        ("Low power mode", yes(state.low_power)),
        ("Thermal state", state.thermal.map(str::to_owned)),
        ("Jailbroken", yes(state.jailbroken)),
        ("Translated by Rosetta", yes(state.translated.filter(|translated| *translated))),
        ("Simulator", yes(state.simulator.then_some(true))),
        ("Time since it was started", state.up_ms.map(duration)),
        ("Time zone", state.time_zone.clone()),
    ])
}

fn describe_corpse_fact(fact: &CorpseFact) -> (&'static str, String) {
    let value = match &fact.value {
        CorpseValue::Bytes(size) => bytes(*size),
        CorpseValue::Number(number) => number.to_string(),
        CorpseValue::Text(text) => text.clone(),
    };
    (fact.name, value)
}

/// Formats a number of bytes, with the whole that it is a part of if that is known.
fn part_of(part: Option<u64>, whole: Option<u64>) -> Option<String> {
    let part = bytes(part?);
    Some(whole.map_or_else(|| part.clone(), |whole| format!("{part} of {}", bytes(whole))))
}

fn known<const N: usize>(pairs: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_facts_are_described() {
        assert!(describe_app(&AppState::default()).is_empty());
        assert!(describe_device(&DeviceState::default()).is_empty());
        let app = AppState {
            foreground: Some(true),
            active: Some(false),
            active_ms: Some(2_000),
            ..AppState::default()
        };
        assert_eq!(describe_app(&app)[0], ("Where", "on the screen, inactive".to_owned()));
        assert_eq!(describe_app(&app)[1].0, "Time since launch");
        let device = DeviceState {
            storage_free: Some(50 << 20),
            storage_size: Some(64 << 30),
            battery_percent: Some(7),
            charging: Some(false),
            ..DeviceState::default()
        };
        let values: Vec<_> = describe_device(&device).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["50.0 MiB of 64.0 GiB", "7 %, not charging"]);
    }
}
