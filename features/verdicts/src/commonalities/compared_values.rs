//! Values of facts with their counts, of which those that stand out are listed.

use super::{CommonValue, ComparedFact, INSTALLATIONS_FLOOR};
use crate::store::{CrashedDevice, ValueCount};
use std::collections::BTreeMap;
use unslide_verdicts_statistics::{ValueCounts, find_common_values, format_count};

/// Values that an answer has.
const VALUES_LIMIT: usize = 10;

/// All values of all facts that are compared: the rate of chance is that of the whole list.
#[derive(Default)]
pub struct ComparedValues {
    values: Vec<ComparedValue>,
    counts: Vec<ValueCounts>,
}

/// A value of a fact.
struct ComparedValue {
    fact: ComparedFact,
    /// The name of the flag.
    name: Option<String>,
    value: String,
}

impl ComparedValues {
    /// Adds the values of a fact of devices.
    pub fn add_fact(&mut self, fact: ComparedFact, crashed: &[CrashedDevice], all: &[ValueCount]) {
        let said = all.iter().map(|value| value.count.unsigned_abs()).sum();
        // A fact that hardly any session says has no shares.
        if said < INSTALLATIONS_FLOOR {
            return;
        }
        let mut with_bug: BTreeMap<&str, u64> = BTreeMap::new();
        for value in crashed.iter().filter_map(|device| read_fact(device, fact)) {
            *with_bug.entry(value).or_default() += 1;
        }
        let crashed = with_bug.values().sum();
        self.add_values((fact, None), [crashed, said], &with_bug, all.iter());
    }

    /// Adds the values of a fact, or of the flag with this name: `with_bug` counts devices, and `all` installations. The first total is
    /// that of devices.
    pub fn add_values<'v>(
        &mut self,
        (fact, name): (ComparedFact, Option<&str>),
        [crashed, said]: [u64; 2],
        with_bug: &BTreeMap<&str, u64>,
        all: impl Iterator<Item = &'v ValueCount>,
    ) {
        let of_all: BTreeMap<&str, u64> =
            all.map(|value| (value.value.as_str(), value.count.unsigned_abs())).collect();
        let count = |counts: &BTreeMap<&str, u64>, value: &str| counts.get(value).copied().unwrap_or(0);
        let only_with_bug = with_bug.keys().filter(|value| !of_all.contains_key(*value));
        for value in of_all.keys().chain(only_with_bug) {
            self.values.push(ComparedValue {
                fact,
                name: name.map(str::to_owned),
                value: (*value).to_owned(),
            });
            self.counts.push(ValueCounts {
                crashed_with: count(with_bug, value),
                crashed,
                all_with: count(&of_all, value),
                all: said,
            });
        }
    }

    /// Returns the values that stand out, the most telling first.
    pub fn find_common(&self) -> Vec<CommonValue> {
        let found = find_common_values(&self.counts).into_iter().take(VALUES_LIMIT);
        found
            .filter_map(|index| Some(describe_value(self.values.get(index)?, *self.counts.get(index)?)))
            .collect()
    }
}

fn read_fact(device: &CrashedDevice, fact: ComparedFact) -> Option<&str> {
    match fact {
        ComparedFact::Model => device.model.as_deref(),
        ComparedFact::System => device.system.as_deref(),
        ComparedFact::Flag => None,
    }
}

fn describe_value(found: &ComparedValue, counts: ValueCounts) -> CommonValue {
    let ComparedValue { fact, name, value } = found;
    let ValueCounts { crashed_with, crashed, all_with, all } = counts;
    let said = match name {
        Some(name) if value == "true" => name.clone(),
        Some(name) => format!("{name} = {value}"),
        None => value.clone(),
    };
    let text = format!(
        "{} {said}: {} of {}, of all installations {:.0} %",
        fact.label(),
        format_count(crashed_with),
        format_count(crashed),
        counts.share() * 100.0
    );
    CommonValue {
        fact: *fact,
        name: name.clone(),
        value: value.clone(),
        crashed_with,
        crashed,
        all_with,
        all,
        text,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use time::macros::{date, datetime};
    use unslide_store::Uuid;

    pub fn devices(count: usize, model: &str, system: &str) -> Vec<CrashedDevice> {
        let device = CrashedDevice {
            version: "2.4.1".to_owned(),
            day: date!(2026 - 11 - 20),
            model: Some(model.to_owned()),
            system: Some(system.to_owned()),
            received_at: datetime!(2026-11-20 08:00 UTC),
            report_id: Uuid::nil(),
            variant: 0,
        };
        vec![device; count]
    }

    fn value(value: &str, count: i64) -> ValueCount {
        ValueCount { name: String::new(), value: value.to_owned(), count, values: 2 }
    }

    #[test]
    fn a_system_that_all_devices_with_the_bug_have_is_said_with_its_share() {
        let crashed = [devices(20, "iPhone16,1", "iOS 17.0"), devices(20, "iPhone14,2", "iOS 17.0")].concat();
        let mut compared = ComparedValues::default();
        let models = [value("iPhone16,1", 650), value("iPhone14,2", 350)];
        compared.add_fact(ComparedFact::Model, &crashed, &models);
        compared.add_fact(ComparedFact::System, &crashed, &[value("iOS 17.0", 300), value("iOS 18.1", 700)]);
        let found = compared.find_common();
        let texts: Vec<&str> = found.iter().map(|value| value.text.as_str()).collect();
        assert_eq!(texts, ["system iOS 17.0: 40 of 40, of all installations 30 %"]);
    }
}
