//! The battery at both ends of a period.

use serde::Deserialize;
use unslide_proto::event::{EventError, field_error};

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

/// The battery at the beginning and the end of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatteryPeriod {
    pub start: BatteryMoment,
    pub end: BatteryMoment,
}

#[derive(Deserialize)]
pub(super) struct SentBattery {
    start: SentMoment,
    end: SentMoment,
}

#[derive(Deserialize)]
struct SentMoment {
    level: f64,
    state: String,
}

impl SentBattery {
    pub(super) fn parse_period(&self) -> Result<BatteryPeriod, EventError> {
        Ok(BatteryPeriod { start: self.start.parse_moment()?, end: self.end.parse_moment()? })
    }
}

impl SentMoment {
    fn parse_moment(&self) -> Result<BatteryMoment, EventError> {
        if !(0.0..=1.0).contains(&self.level) {
            return Err(field_error("battery", "has a `level` that is not between 0 and 1"));
        }
        let state = BatteryState::parse(&self.state).ok_or_else(|| {
            let known = BatteryState::ALL.map(BatteryState::as_str).join(", ");
            field_error("battery", format!("has the state {:?}: use {known}", self.state))
        })?;
        Ok(BatteryMoment { percent: self.level * 100.0, state })
    }
}

impl BatteryPeriod {
    /// Returns the percent that were used. Returns `None` unless the device had no charger at either end. A level that
    /// rises without one is an error of its measurement, and counts as 0.
    pub(super) fn drained_percent(&self) -> Option<f64> {
        let is_unplugged = |moment: BatteryMoment| moment.state == BatteryState::Unplugged;
        let used = (self.start.percent - self.end.percent).max(0.0);
        (is_unplugged(self.start) && is_unplugged(self.end)).then_some(used)
    }
}
