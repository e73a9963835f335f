//! What the devices that met a bug have in common, beside the installations of the same version on the same days.

use crate::store::{self, ComparedDevice};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::{Result, TenantTx};
use unslide_verdicts_statistics::{
    CRASHED_FLOOR, FALSE_DISCOVERY_RATE, ValueCounts, find_common_values, format_count,
};
use utoipa::ToSchema;

/// How far back reports of a group are read.
const REPORTS_PERIOD: Duration = Duration::days(14);
/// The days of sessions that are read, those with the newest reports.
const DAYS_LIMIT: usize = 7;
/// With fewer installations the shares say nothing.
const INSTALLATIONS_FLOOR: usize = 100;
/// Values that an answer has.
const VALUES_LIMIT: usize = 10;
const FEW_REPORTS: &str = "Fewer than 5 devices met this bug in the last 14 days.";
const FEW_SESSIONS: &str = "Too few sessions of the version are known on these days, so the shares of all installations are not known.";

/// A fact of a device that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedFact {
    /// The model of the device, such as `iPhone16,1`.
    Model,
    /// The operating system with its version.
    System,
}

impl ComparedFact {
    const ALL: [ComparedFact; 2] = [ComparedFact::Model, ComparedFact::System];

    fn read(self, device: &ComparedDevice) -> Option<&str> {
        match self {
            ComparedFact::Model => device.model.as_deref(),
            ComparedFact::System => device.system.as_deref(),
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            ComparedFact::Model => "model",
            ComparedFact::System => "system",
        }
    }
}

/// A value that devices with the bug have more often than chance explains.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CommonValue {
    /// The fact that has this value.
    pub fact: ComparedFact,
    /// The value, as reports and sessions say it.
    #[schema(example = "iOS 17.0.1", max_length = 500)]
    pub value: String,
    /// Devices with the bug and the value.
    pub crashed_with: u64,
    /// Devices with the bug that say the fact.
    pub crashed: u64,
    /// Installations of the sample with the value.
    pub all_with: u64,
    /// Installations of the sample that say the fact.
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
    /// Facts that are not compared, because sessions do not carry them.
    #[schema(max_items = 10)]
    pub not_compared: Vec<&'static str>,
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
    let crashed = store::list_crashed_devices(tx, group.id, from).await?;
    let Some(version) = find_main_version(&crashed) else {
        return Ok(Commonalities::without(FEW_REPORTS, crashed.len()));
    };
    let crashed: Vec<ComparedDevice> =
        crashed.into_iter().filter(|device| device.version == version).collect();
    let days: BTreeSet<Date> = crashed.iter().map(|device| device.day).collect();
    let days: Vec<Date> = days.into_iter().rev().take(DAYS_LIMIT).collect();
    let crashed: Vec<ComparedDevice> =
        crashed.into_iter().filter(|device| days.contains(&device.day)).collect();
    let all = store::sample_installations(tx, &group.app, &version, &days).await?;
    if all.len() < INSTALLATIONS_FLOOR {
        return Ok(Commonalities {
            version: Some(version),
            days,
            ..Commonalities::without(FEW_SESSIONS, crashed.len())
        });
    }
    Ok(Commonalities {
        version: Some(version),
        crashed: crashed.len() as u64,
        installations: all.len() as u64,
        days,
        values: list_common_values(&crashed, &all),
        false_discovery_rate: FALSE_DISCOVERY_RATE,
        not_compared: vec!["own keys", "locale", "free memory", "thermal state", "screens before the crash"],
        hint: None,
    })
}

/// Returns the version of most devices, if there are enough of it.
fn find_main_version(crashed: &[ComparedDevice]) -> Option<String> {
    let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
    for device in crashed {
        *versions.entry(&device.version).or_default() += 1;
    }
    let most = versions.into_iter().max_by_key(|(_, devices)| *devices);
    most.filter(|(_, devices)| *devices >= CRASHED_FLOOR).map(|(version, _)| version.to_owned())
}

fn count_values(devices: &[ComparedDevice], fact: ComparedFact) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for value in devices.iter().filter_map(|device| fact.read(device)) {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

fn list_common_values(crashed: &[ComparedDevice], all: &[ComparedDevice]) -> Vec<CommonValue> {
    let (mut names, mut counts) = (Vec::new(), Vec::new());
    for fact in ComparedFact::ALL {
        let (with_bug, of_all) = (count_values(crashed, fact), count_values(all, fact));
        let (crashed, all) = (with_bug.values().sum(), of_all.values().sum());
        // A fact that hardly any session says has no shares.
        if all < INSTALLATIONS_FLOOR as u64 {
            continue;
        }
        let values: BTreeSet<&str> = with_bug.keys().chain(of_all.keys()).copied().collect();
        for value in values {
            let count = |counts: &BTreeMap<&str, u64>| counts.get(value).copied().unwrap_or(0);
            names.push((fact, value));
            counts.push(ValueCounts {
                crashed_with: count(&with_bug),
                crashed,
                all_with: count(&of_all),
                all,
            });
        }
    }
    let found = find_common_values(&counts).into_iter().take(VALUES_LIMIT);
    found.filter_map(|index| Some(describe_value(*names.get(index)?, *counts.get(index)?))).collect()
}

fn describe_value((fact, value): (ComparedFact, &str), counts: ValueCounts) -> CommonValue {
    let ValueCounts { crashed_with, crashed, all_with, all } = counts;
    let text = format!(
        "{} {value}: {} of {}, of all installations {:.0} %",
        fact.label(),
        format_count(crashed_with),
        format_count(crashed),
        counts.share() * 100.0
    );
    CommonValue { fact, value: value.to_owned(), crashed_with, crashed, all_with, all, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    fn devices(count: usize, model: &str, system: &str) -> Vec<ComparedDevice> {
        let device = ComparedDevice {
            version: "2.4.1".to_owned(),
            day: date!(2026 - 11 - 20),
            model: Some(model.to_owned()),
            system: Some(system.to_owned()),
        };
        vec![device; count]
    }

    #[test]
    fn a_system_that_all_devices_with_the_bug_have_is_said_with_its_share() {
        let crashed = [devices(20, "iPhone16,1", "iOS 17.0"), devices(20, "iPhone14,2", "iOS 17.0")].concat();
        let all = [
            devices(300, "iPhone16,1", "iOS 17.0"),
            devices(350, "iPhone16,1", "iOS 18.1"),
            devices(350, "iPhone14,2", "iOS 18.1"),
        ];
        let found = list_common_values(&crashed, &all.concat());
        let texts: Vec<&str> = found.iter().map(|value| value.text.as_str()).collect();
        assert_eq!(texts, ["system iOS 17.0: 40 of 40, of all installations 30 %"]);
    }

    #[test]
    fn the_main_version_has_enough_devices() {
        assert_eq!(find_main_version(&devices(4, "m", "s")), None);
        assert_eq!(find_main_version(&devices(5, "m", "s")).as_deref(), Some("2.4.1"));
    }
}
