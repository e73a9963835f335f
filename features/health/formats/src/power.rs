//! The battery at both ends of a period.

use super::samples::UnreadKeys;
use super::sent_item::SentItem;
use serde_json::Value;

unslide_model::words! {
    /// Whether a device charges.
    pub enum BatteryState {
        Unplugged = "unplugged",
        Charging = "charging",
        Full = "full",
        Unknown = "unknown",
    }
}

/// The battery at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatteryMoment {
    /// Percent of a full charge.
    pub percent: f64,
    pub state: BatteryState,
}

/// The battery at the beginning and the end of a period, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatteryPeriod {
    pub start: Option<BatteryMoment>,
    pub end: Option<BatteryMoment>,
}

/// Reads a battery. Records an end that is not there, because nothing says how much was used without it.
pub(super) fn read_battery(sent: &Value, unread: &mut UnreadKeys) -> Option<BatteryPeriod> {
    let battery = SentItem::from_value("battery", sent, unread)?;
    let mut moment = |key: &str, path: &'static str| match battery.get(key) {
        Some(sent) => read_moment(sent, path, unread),
        None => {
            battery.record_unread(key, unread);
            None
        }
    };
    let (start, end) = (moment("start", "battery.start"), moment("end", "battery.end"));
    (start.is_some() || end.is_some()).then_some(BatteryPeriod { start, end })
}

/// Reads a moment. Its level is needed: a device that does not measure it says −1. A state without a word of ours is unknown.
fn read_moment(sent: &Value, path: &'static str, unread: &mut UnreadKeys) -> Option<BatteryMoment> {
    let moment = SentItem::from_value(path, sent, unread)?;
    let state = moment.read("state", unread, |state| BatteryState::parse(state.as_str()?));
    if moment.get("level").is_none() {
        moment.record_unread("level", unread);
    }
    let level =
        moment.read("level", unread, |level| level.as_f64().filter(|level| (0.0..=1.0).contains(level)))?;
    Some(BatteryMoment { percent: level * 100.0, state: state.unwrap_or(BatteryState::Unknown) })
}

impl BatteryPeriod {
    /// Returns the percent that were used. Returns `None` unless the device had no charger at either end. A level that
    /// rises without one is an error of its measurement, and counts as 0.
    pub(super) fn drained_percent(&self) -> Option<f64> {
        let (start, end) = self.start.zip(self.end)?;
        let is_unplugged = |moment: BatteryMoment| moment.state == BatteryState::Unplugged;
        let used = (start.percent - end.percent).max(0.0);
        (is_unplugged(start) && is_unplugged(end)).then_some(used)
    }
}
