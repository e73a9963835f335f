//! What the devices that met a bug have in common, beside the installations of the same version on the same days.

mod compared_values;
mod flags;

use crate::store::{self, CrashedDevice};
use compared_values::ComparedValues;
use flags::compare_flags;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::{Result, TenantTx};
use unslide_verdicts_statistics::{CRASHED_FLOOR, FALSE_DISCOVERY_RATE, ValueCounts};
use utoipa::ToSchema;

/// How far back reports of a group are read.
const REPORTS_PERIOD: Duration = Duration::days(14);
/// The days of sessions that are read, those with the newest reports.
const DAYS_LIMIT: usize = 7;
/// With fewer installations the shares say nothing.
const INSTALLATIONS_FLOOR: u64 = 100;
const FEW_REPORTS: &str = "Fewer than 5 devices met this bug in the last 14 days.";
const FEW_SESSIONS: &str = "Too few sessions of the version are known on these days, so the shares of all installations are not known.";
/// The reason for facts that no session has.
const NOT_IN_SESSIONS: &str = "sessions do not carry it";

/// A fact of a device that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedFact {
    /// The model of the device, such as `iPhone16,1`.
    Model,
    /// The operating system with its version.
    System,
    /// A flag of sessions, beside the own key of reports with the same name.
    Flag,
}

impl ComparedFact {
    pub fn label(self) -> &'static str {
        match self {
            ComparedFact::Model => "model",
            ComparedFact::System => "system",
            ComparedFact::Flag => "flag",
        }
    }
}

/// A value that devices with the bug have more often than chance explains.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CommonValue {
    /// The fact that has this value.
    pub fact: ComparedFact,
    /// The name of the flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "checkout_v2", max_length = 64)]
    pub name: Option<String>,
    /// The value, as reports and sessions say it.
    #[schema(example = "iOS 17.0.1", max_length = 500)]
    pub value: String,
    /// Devices with the bug and the value.
    pub crashed_with: u64,
    /// Devices with the bug that say the fact; of a flag, all of them.
    pub crashed: u64,
    /// Installations of the sample with the value.
    pub all_with: u64,
    /// Installations of the sample that say the fact; of a flag, those with sessions that carry flags.
    pub all: u64,
    /// The counts in a sentence.
    #[schema(example = "system iOS 17.0.1: 412 of 412, of all installations 31 %", max_length = 1_000)]
    pub text: String,
}

impl CommonValue {
    /// Returns the share of the value among all installations.
    pub fn share(&self) -> f64 {
        let CommonValue { crashed_with, crashed, all_with, all, .. } = *self;
        ValueCounts { crashed_with, crashed, all_with, all }.share()
    }

    /// Returns the fact and its value in words.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}: {}", self.fact.label(), self.value),
            None => format!("{}: {}", self.fact.label(), self.value),
        }
    }
}

/// A fact that is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotCompared {
    /// The fact, or the name of a flag.
    #[schema(example = "free memory", max_length = 128)]
    pub name: String,
    /// The reason, and what to do if there is something.
    #[schema(example = "sessions do not carry it", max_length = 200)]
    pub reason: &'static str,
}

impl NotCompared {
    fn new(name: impl Into<String>, reason: &'static str) -> NotCompared {
        NotCompared { name: name.into(), reason }
    }
}

/// What the devices that met a bug have in common.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Commonalities {
    /// The version that is compared: that of most of the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Devices of the version that met the bug on these days.
    pub crashed: u64,
    /// Installations of the version in the sample of these days.
    pub installations: u64,
    /// The days of which sessions are compared, the newest first.
    #[schema(max_items = 7)]
    pub days: Vec<Date>,
    /// The values, the most telling first.
    #[schema(max_items = 10)]
    pub values: Vec<CommonValue>,
    /// The share of values that may be chance, on average over many bugs.
    pub false_discovery_rate: f64,
    /// Facts and flags that are not compared.
    #[schema(max_items = 25)]
    pub not_compared: Vec<NotCompared>,
    /// The reason why nothing is compared, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl Commonalities {
    fn without(hint: &'static str, crashed: usize) -> Commonalities {
        Commonalities {
            version: None,
            crashed: crashed as u64,
            installations: 0,
            days: Vec::new(),
            values: Vec::new(),
            false_discovery_rate: FALSE_DISCOVERY_RATE,
            not_compared: Vec::new(),
            hint: Some(hint),
        }
    }
}

/// Compares the devices of a group with the installations of the app.
///
/// # Errors
/// The database fails.
pub async fn compare_group(tx: &mut TenantTx, group: &ListedGroup) -> Result<Commonalities> {
    let from = tx.now() - REPORTS_PERIOD;
    let mut crashed = store::list_crashed_devices(tx, group.id, from).await?;
    let Some(version) = find_main_version(&crashed) else {
        return Ok(Commonalities::without(FEW_REPORTS, crashed.len()));
    };
    crashed.retain(|device| device.version == version);
    let days: BTreeSet<Date> = crashed.iter().map(|device| device.day).collect();
    let days: Vec<Date> = days.into_iter().rev().take(DAYS_LIMIT).collect();
    crashed.retain(|device| days.contains(&device.day));
    let all = store::count_installations(tx, &group.app, &version, &days).await?;
    if all.all.unsigned_abs() < INSTALLATIONS_FLOOR {
        return Ok(Commonalities {
            version: Some(version),
            days,
            ..Commonalities::without(FEW_SESSIONS, crashed.len())
        });
    }
    let keys = store::count_report_keys(tx, &crashed).await?;
    let mut compared = ComparedValues::default();
    for (fact, all) in [(ComparedFact::Model, &all.models), (ComparedFact::System, &all.systems)] {
        compared.add_fact(fact, &crashed, all);
    }
    let mut not_compared = compare_flags(&mut compared, crashed.len() as u64, &keys, &all);
    let in_no_session = ["free memory", "thermal state", "screens before the crash"];
    not_compared.extend(in_no_session.map(|name| NotCompared::new(name, NOT_IN_SESSIONS)));
    Ok(Commonalities {
        version: Some(version),
        crashed: crashed.len() as u64,
        installations: all.all.unsigned_abs(),
        days,
        values: compared.find_common(),
        false_discovery_rate: FALSE_DISCOVERY_RATE,
        not_compared,
        hint: None,
    })
}

/// Returns the version of most devices, if there are enough of it.
fn find_main_version(crashed: &[CrashedDevice]) -> Option<String> {
    let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
    for device in crashed {
        *versions.entry(&device.version).or_default() += 1;
    }
    let most = versions.into_iter().max_by_key(|(_, devices)| *devices);
    most.filter(|(_, devices)| *devices >= CRASHED_FLOOR).map(|(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::compared_values::tests::devices;
    use super::*;

    #[test]
    fn the_main_version_has_enough_devices() {
        assert_eq!(find_main_version(&devices(4, "m", "s")), None);
        assert_eq!(find_main_version(&devices(5, "m", "s")).as_deref(), Some("2.4.1"));
    }
}
