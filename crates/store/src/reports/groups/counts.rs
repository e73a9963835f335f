//! The counts of groups by day and by dimension, as numbers to add.

use crate::Uuid;
use std::collections::BTreeMap;
use time::Date;

/// Reports that a group gains or loses on a day, and their values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountKey {
    pub(super) group: Uuid,
    pub(super) day: Date,
    pub(super) version: String,
    pub(super) model: String,
    pub(super) os_version: String,
    /// The device of reports that the group gains. A sketch keeps the devices of reports that it loses.
    pub(super) device: Option<Vec<u8>>,
}

/// Numbers of reports to add.
pub(super) type CountDeltas = BTreeMap<CountKey, i64>;
