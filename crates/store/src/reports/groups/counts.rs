//! The counts of groups by day, by hour and by dimension, as numbers to add.

use crate::GroupId;
use crate::reports::rollups::utc_day;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};

/// Reports that a group gains or loses in an hour, and their values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountKey {
    pub(super) group: GroupId,
    /// The beginning of the hour.
    pub(super) hour: OffsetDateTime,
    pub(super) version: String,
    pub(super) model: String,
    pub(super) os_version: String,
    /// The device of reports that the group gains. A sketch keeps the devices of reports that it loses.
    pub(super) device: Option<Vec<u8>>,
}

impl CountKey {
    /// Returns the day of the hour.
    pub(super) fn day(&self) -> Date {
        utc_day(self.hour)
    }
}

/// Numbers of reports to add.
pub(super) type CountDeltas = BTreeMap<CountKey, i64>;
