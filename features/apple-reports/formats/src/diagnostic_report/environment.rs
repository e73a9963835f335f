//! The environment of a report: the app, the device, and the states that the app reported.

use super::members::{bits, find, get, text};
use super::notes::{Form, Notes};
use super::scalars::{Measurement, TimeRange};
use crate::ips::system::SystemName;
use crate::json::JsonBuilder;
use std::collections::BTreeMap;
use unslide_report::JsonValue;

/// The maximum number of states and of signposts that are read, and of the metadata of a state.
const STATES_LIMIT: usize = 200;
const METADATA_LIMIT: usize = 50;
/// The maximum size of a text, in bytes.
const TEXT_BYTES_LIMIT: usize = 1_024;
/// Maximum size of a key's value by which reports are filtered, in bytes.
const KEY_VALUE_BYTES_LIMIT: usize = 128;

/// A state that the app reported before the event.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentState {
    pub domain: String,
    pub label: String,
    pub duration: Option<Measurement>,
    /// The metadata by their names.
    pub metadata: BTreeMap<String, String>,
}

/// An interval or a moment that the app has marked.
#[derive(Clone, Debug, Default)]
struct Signpost {
    /// `subsystem`, `category` and `name`.
    names: [Option<String>; 3],
    range: TimeRange,
}

/// The environment of a report.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub app: Option<String>,
    pub version: Option<String>,
    pub build: Option<String>,
    system: SystemName,
    /// The platform as Apple writes it, with version and build.
    pub system_text: Option<String>,
    pub device: Option<String>,
    pub cpu: Option<String>,
    region: Option<String>,
    pub pid: Option<u64>,
    is_test_flight: Option<bool>,
    is_low_power: Option<bool>,
    states: Vec<EnvironmentState>,
    signposts: Vec<Signpost>,
    pub range: TimeRange,
}

/// Returns a text of bounded size.
fn bounded_text(value: Option<JsonValue<'_>>) -> Option<String> {
    let mut text = text(value)?;
    text.truncate(text.floor_char_boundary(TEXT_BYTES_LIMIT));
    Some(text)
}

impl Environment {
    /// Reads `environment` of a report. Without it nothing is known.
    pub fn read(environment: Option<JsonValue<'_>>, range: TimeRange, notes: &mut Notes) -> Environment {
        let Some(environment) = environment else { return Environment { range, ..Environment::default() } };
        let [app, version, build, os, device, cpu, region, pid, test_flight, low_power, signposts, states] =
            find(
                environment,
                [
                    "bundleIdentifier",
                    "applicationVersion",
                    "applicationBuildVersion",
                    "osVersion",
                    "deviceType",
                    "platformArchitecture",
                    "regionFormat",
                    "pid",
                    "isTestFlightApp",
                    "lowPowerModeEnabled",
                    "signpostData",
                    "states",
                ],
            );
        let system_text = os.and_then(system_text);
        Environment {
            app: bounded_text(app),
            version: bounded_text(version),
            build: bounded_text(build),
            system: SystemName::parse(system_text.as_deref().unwrap_or_default()),
            system_text,
            device: bounded_text(device),
            cpu: bounded_text(cpu),
            region: bounded_text(region),
            pid: bits(pid),
            is_test_flight: test_flight.and_then(JsonValue::as_boolean),
            is_low_power: low_power.and_then(JsonValue::as_boolean),
            states: states.map(|states| read_states(states, notes)).unwrap_or_default(),
            signposts: signposts.map(|signposts| read_signposts(signposts, notes)).unwrap_or_default(),
            range,
        }
    }

    /// Writes the member `report`.
    pub fn write_report(&self, id: &str, json: &mut JsonBuilder) {
        json.object("report", |json| {
            json.some_string("id", Some(id));
            json.string("type", "standard");
            // The rules for program counters and for systems' images depend on it.
            json.string("monitor_id", "MetricKit");
            json.some_string("timestamp", self.range.format_end().as_deref());
        });
    }

    /// Writes the member `system`.
    pub fn write_system(&self, is_simulated: bool, json: &mut JsonBuilder) {
        json.object("system", |json| {
            for (key, value) in [
                ("CFBundleIdentifier", &self.app),
                ("CFBundleShortVersionString", &self.version),
                ("CFBundleVersion", &self.build),
                ("system_name", &self.system.name),
                ("system_version", &self.system.version),
                ("os_version", &self.system.build),
                ("machine", &self.device),
                ("cpu_arch", &self.cpu),
            ] {
                json.some_string(key, value.as_deref());
            }
            if let Some(pid) = self.pid {
                json.number("process_id", pid);
            }
            if let Some(is_low_power) = self.is_low_power {
                json.flag("low_power_mode_enabled", is_low_power);
            }
            if self.is_test_flight == Some(true) {
                json.string("build_type", "test");
            }
            if is_simulated {
                json.string("model", "simulator");
            }
        });
    }

    /// Writes the facts that a report of KSCrash has no member for, as keys of the app: these can be filtered.
    pub fn write_keys(&self, json: &mut JsonBuilder) {
        json.some_string("regionFormat", self.region.as_deref());
        if let Some(is_test_flight) = self.is_test_flight {
            json.flag("isTestFlightApp", is_test_flight);
        }
        json.some_string("timeRangeBegin", self.range.format_begin().as_deref());
        let mut keys: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for state in &self.states {
            let own = (format!("state {}", state.domain), &state.label);
            let of_metadata = state.metadata.iter();
            let of_metadata =
                of_metadata.map(|(name, value)| (format!("state {} {name}", state.domain), value));
            for (key, value) in std::iter::once(own).chain(of_metadata) {
                let values = keys.entry(key).or_default();
                if !value.is_empty() && !values.contains(&value.as_str()) {
                    values.push(value);
                }
            }
        }
        for (key, mut values) in keys {
            // The order of states is not documented.
            values.sort_unstable();
            json.some_string(&key, Some(&join_values(&values)));
        }
        self.write_states(json);
        self.write_signposts(json);
    }

    fn write_states(&self, json: &mut JsonBuilder) {
        if self.states.is_empty() {
            return;
        }
        json.array("states", |json| {
            for state in &self.states {
                json.item(|json| {
                    json.string("domain", &state.domain);
                    json.some_string("label", Some(&state.label));
                    let duration = state.duration.as_ref().map(Measurement::to_string);
                    json.some_string("duration", duration.as_deref());
                    for (name, value) in &state.metadata {
                        json.string(name, value);
                    }
                });
            }
        });
    }

    fn write_signposts(&self, json: &mut JsonBuilder) {
        if self.signposts.is_empty() {
            return;
        }
        json.array("signpostData", |json| {
            for signpost in &self.signposts {
                json.item(|json| {
                    for (key, name) in ["subsystem", "category", "name"].into_iter().zip(&signpost.names) {
                        json.some_string(key, name.as_deref());
                    }
                    json.some_string("begin", signpost.range.format_begin().as_deref());
                    json.some_string("end", signpost.range.format_end().as_deref());
                });
            }
        });
    }
}

/// Returns the first values that fit, with commas between them. Longer texts are no keys for filters.
fn join_values(values: &[&str]) -> String {
    let mut joined = String::new();
    for value in values {
        let separator = if joined.is_empty() { "" } else { ", " };
        if joined.len() + separator.len() + value.len() > KEY_VALUE_BYTES_LIMIT {
            break;
        }
        joined.push_str(separator);
        joined.push_str(value);
    }
    joined
}

/// Returns a text such as `iPhone OS 27.0 (24A435)`.
fn system_text(os: JsonValue<'_>) -> Option<String> {
    if !os.is_object() {
        return bounded_text(Some(os));
    }
    let [platform, number, build] =
        find(os, ["platform", "number", "buildNumber"]).map(|part| bounded_text(part).unwrap_or_default());
    let build = if build.is_empty() { build } else { format!("({build})") };
    let words = [platform, number, build];
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    Some(words.join(" ")).filter(|text| !text.is_empty())
}

/// Reads states: a list, or an object with a list for each domain.
pub fn read_states(states: JsonValue<'_>, notes: &mut Notes) -> Vec<EnvironmentState> {
    let mut read = Vec::new();
    states.each_item(|state| {
        if read.len() < STATES_LIMIT {
            read.extend(EnvironmentState::read(state, "", notes));
        }
    });
    states.each_member(|domain, list| {
        let domain = String::from_utf8_lossy(domain).into_owned();
        list.each_item(|state| {
            if read.len() < STATES_LIMIT {
                read.extend(EnvironmentState::read(state, &domain, notes));
            }
        });
    });
    read
}

impl EnvironmentState {
    fn read(state: JsonValue<'_>, domain: &str, notes: &mut Notes) -> Option<EnvironmentState> {
        let [own_domain, label, duration, metadata] =
            find(state, ["domain", "label", "duration", "stableMetadata"]);
        let mut domain = bounded_text(own_domain).unwrap_or_else(|| domain.to_owned());
        domain.truncate(domain.floor_char_boundary(TEXT_BYTES_LIMIT));
        let mut read = EnvironmentState {
            domain,
            label: bounded_text(label).unwrap_or_default(),
            duration: duration.and_then(|duration| Measurement::read(duration, "s", notes)),
            metadata: BTreeMap::new(),
        };
        if let Some(metadata) = metadata {
            metadata.each_member(|name, value| {
                if read.metadata.len() < METADATA_LIMIT {
                    let name: String = String::from_utf8_lossy(name).chars().take(100).collect();
                    read.metadata.extend(metadata_text(value, notes).map(|value| (name, value)));
                }
            });
        }
        state.is_object().then_some(read).filter(|read| !read.domain.is_empty())
    }
}

/// Returns the value of an object with the case of an enumeration: `{"string": "premium"}`.
fn metadata_text(value: JsonValue<'_>, notes: &mut Notes) -> Option<String> {
    let mut inner = None;
    value.each_member(|_, value| inner = inner.or(Some(value)));
    let mut value = inner.unwrap_or(value);
    // Swift writes the values of a case under `_0`.
    if let Some(own) = get(value, "_0") {
        notes.record_form(Form::States);
        value = own;
    }
    let number = || Some(value).filter(|value| !value.is_container()).map(JsonValue::raw_bytes);
    bounded_text(Some(value)).or_else(|| Some(String::from_utf8_lossy(number()?).into_owned()))
}

fn read_signposts(signposts: JsonValue<'_>, notes: &mut Notes) -> Vec<Signpost> {
    let mut read = Vec::new();
    signposts.each_item(|signpost| {
        if read.len() == STATES_LIMIT || !signpost.is_object() {
            return;
        }
        let [subsystem, category, name, interval] =
            find(signpost, ["subsystem", "category", "name", "interval"]);
        let range = interval.and_then(|interval| TimeRange::read(interval, notes).ok()).unwrap_or_default();
        read.push(Signpost { names: [subsystem, category, name].map(bounded_text), range });
    });
    read
}
