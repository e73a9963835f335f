//! The state of the app and the device when the report was made, from `system`.

use crate::json::Value;
use crate::report::memory::ended::{RunMemory, is_foreground};
use crate::report::summary::device_time;
use crate::report::summary::facts::PartFacts;
use crate::text::escape_line;

/// The maximum number of characters of a word of the device.
const WORD_CHARS_LIMIT: usize = 60;
/// Memory pressure from which the device is short of memory, in KSCrash's words.
const LOW_MEMORY_WORDS: [&str; 3] = ["urgent", "critical", "terminal"];

/// The state of the app. Absent facts are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppState {
    /// True if the app was on the screen.
    pub foreground: Option<bool>,
    /// True if the app received events.
    pub active: Option<bool>,
    /// KSCrash's word for the phase, such as `launching`.
    pub transition: Option<String>,
    /// The number of launches since the last crash.
    pub launches_since_crash: Option<u64>,
    /// The number of times that the app came to the screen since its launch.
    pub sessions_since_launch: Option<u64>,
    /// The time since the launch in milliseconds, by the device's clock.
    pub since_launch_ms: Option<u64>,
    /// The time on the screen since the launch, in milliseconds.
    pub active_ms: Option<u64>,
    /// The time in the background since the launch, in milliseconds.
    pub background_ms: Option<u64>,
    /// How the app was built, such as `app store`.
    pub build_type: Option<String>,
}

/// The state of the device. Sizes are in bytes, and absent facts are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceState {
    /// True if the device is jailbroken.
    pub jailbroken: Option<bool>,
    /// True for a simulator.
    pub simulator: bool,
    /// True for code that Rosetta translated.
    pub translated: Option<bool>,
    /// The memory of the app.
    pub footprint: Option<u64>,
    /// The limit of this memory.
    pub memory_limit: Option<u64>,
    /// KSCrash's word for the memory pressure, such as `critical`.
    pub memory_pressure: Option<String>,
    /// The device's memory.
    pub memory_size: Option<u64>,
    /// The free part of it.
    pub memory_free: Option<u64>,
    /// The device's storage.
    pub storage_size: Option<u64>,
    /// The free part of it.
    pub storage_free: Option<u64>,
    /// The battery's charge in percent.
    pub battery_percent: Option<u8>,
    /// True if the battery was being charged or was full.
    pub charging: Option<bool>,
    /// True for the low power mode.
    pub low_power: Option<bool>,
    /// Apple's word for the thermal state, such as `serious`.
    pub thermal: Option<&'static str>,
    /// The device's time zone.
    pub time_zone: Option<String>,
    /// The time since the device was started, in milliseconds.
    pub up_ms: Option<u64>,
}

impl AppState {
    pub(super) fn from_facts(facts: &PartFacts<'_, '_>) -> AppState {
        let [stats, memory, started, build_type] =
            facts.system_members(["application_stats", "app_memory", "app_start_time", "build_type"]);
        let [active, launches, sessions, active_time, background_time, transition] = match stats {
            Some(stats) => stats.find_members([
                "application_active",
                "launches_since_last_crash",
                "sessions_since_launch",
                "active_time_since_launch",
                "background_time_since_launch",
                "app_transition_state",
            ]),
            None => [None; 6],
        };
        // Before 3.9, the phase is beside the memory.
        let transition = transition.or_else(|| memory.and_then(|memory| memory.get("app_transition_state")));
        let event = facts.report.memory_event();
        AppState {
            foreground: is_foreground(facts).or_else(|| event?.foreground),
            active: active.and_then(Value::as_boolean),
            transition: read_word(transition),
            launches_since_crash: launches.and_then(Value::as_unsigned),
            sessions_since_launch: sessions.and_then(Value::as_unsigned),
            since_launch_ms: time_since(facts, started),
            active_ms: active_time.and_then(read_milliseconds),
            background_ms: background_time.and_then(read_milliseconds),
            build_type: read_word(build_type),
        }
    }
}

impl DeviceState {
    pub(super) fn from_facts(facts: &PartFacts<'_, '_>) -> DeviceState {
        let [
            jailbroken,
            model,
            translated,
            memory,
            storage,
            free,
            battery,
            charge,
            low_power,
            thermal,
            zone,
            booted,
        ] = facts.system_members([
            "jailbroken",
            "model",
            "proc_translated",
            "memory",
            "storage",
            "freeStorage",
            "battery_level",
            "battery_state",
            "low_power_mode_enabled",
            "thermal_state",
            "time_zone",
            "boot_time",
        ]);
        let [memory_size, memory_free] =
            memory.map_or([None; 2], |memory| memory.find_members(["size", "free"]));
        let RunMemory { footprint, limit, pressure } = RunMemory::from_facts(facts);
        let size = |value: Option<Value<'_>>| value.and_then(Value::decimal_unsigned);
        let flag = |value: Option<Value<'_>>| value.and_then(Value::as_boolean);
        DeviceState {
            jailbroken: flag(jailbroken),
            simulator: model.and_then(Value::as_text).is_some_and(|model| model.is("simulator")),
            translated: flag(translated),
            footprint,
            memory_limit: limit,
            memory_pressure: pressure.map(|pressure| cut_word(&pressure)),
            memory_size: size(memory_size),
            memory_free: size(memory_free),
            storage_size: size(storage),
            storage_free: size(free),
            battery_percent: size(battery)
                .and_then(|level| u8::try_from(level).ok())
                .filter(|level| *level <= 100),
            charging: charge.and_then(Value::as_unsigned).and_then(is_charging),
            low_power: flag(low_power),
            thermal: thermal.and_then(Value::as_unsigned).and_then(thermal_word),
            time_zone: read_word(zone),
            up_ms: time_since(facts, booted),
        }
    }

    /// Returns true if the device or the app was short of memory, or `None` if the report does not say.
    #[must_use]
    pub fn is_low_on_memory(&self) -> Option<bool> {
        self.memory_pressure.as_deref().map(|pressure| LOW_MEMORY_WORDS.contains(&pressure))
    }
}

/// The free storage below which a device is short of it, in bytes.
const LOW_STORAGE_BYTES: u64 = 100 << 20;
/// The charge of the battery up to which it is low, in percent.
const LOW_BATTERY_PERCENT: u8 = 20;

/// Returns the facts of a state that a group shows its share of, each with whether it was true. Unknown facts are left out.
#[must_use]
pub fn list_state_facts(app: &AppState, device: &DeviceState) -> Vec<(&'static str, bool)> {
    let facts = [
        ("in_background", app.foreground.map(|foreground| !foreground)),
        ("low_memory", device.is_low_on_memory()),
        ("low_storage", device.storage_free.map(|free| free < LOW_STORAGE_BYTES)),
        ("low_battery", device.battery_percent.map(|percent| percent <= LOW_BATTERY_PERCENT)),
        ("low_power", device.low_power),
        ("hot", device.thermal.map(|state| matches!(state, "serious" | "critical"))),
        ("jailbroken", device.jailbroken),
    ];
    facts.into_iter().filter_map(|(name, is_true)| Some((name, is_true?))).collect()
}

/// Returns whether a battery is charged, by the numbers of `UIDevice.BatteryState`.
fn is_charging(state: u64) -> Option<bool> {
    match state {
        1 => Some(false),
        2 | 3 => Some(true),
        _ => None,
    }
}

/// Returns the word for a number of `ProcessInfo.ThermalState`.
fn thermal_word(state: u64) -> Option<&'static str> {
    usize::try_from(state)
        .ok()
        .and_then(|state| ["nominal", "fair", "serious", "critical"].get(state))
        .copied()
}

fn read_word(value: Option<Value<'_>>) -> Option<String> {
    let text = value?.as_text()?;
    // A word takes at most six bytes for each character, as an escape.
    (text.raw().len() <= 6 * WORD_CHARS_LIMIT)
        .then(|| cut_word(&text.decode()))
        .filter(|word| !word.is_empty())
}

fn cut_word(text: &str) -> String {
    escape_line(text).chars().take(WORD_CHARS_LIMIT).collect()
}

/// Returns the time from a moment to the report, in milliseconds.
fn time_since(facts: &PartFacts<'_, '_>, moment: Option<Value<'_>>) -> Option<u64> {
    let made = facts.report_member("timestamp").and_then(device_time)?;
    u64::try_from((made - moment.and_then(device_time)?).whole_milliseconds()).ok()
}

/// Returns seconds in milliseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
fn read_milliseconds(value: Value<'_>) -> Option<u64> {
    /// Longer than any device runs, in seconds.
    const SECONDS_LIMIT: f64 = 1e9;
    let seconds = value.as_decimal().filter(|seconds| (0.0..SECONDS_LIMIT).contains(seconds))?;
    Some((seconds * 1_000.0).round() as u64)
}
