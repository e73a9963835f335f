//! The state of the app and the device in a group's newest reports, and the values of keys that a person picks.

use crate::components::breakdown::{Breakdown, BreakdownWords, bar_percent};
use crate::pages::report_pages::report_filters::REPORTS_PAGE;
use crate::prelude::*;
use unslide_api::feature::site::{Tx, describe_only_device, describe_verdict, load_context};
use unslide_site::BarSelect;
use unslide_store::queries::groups::context::{
    ContextKeyUse, FactShare, GroupContext, KeyValueUse, count_key_values,
};
use unslide_store::{GroupId, TenantTx};

/// The parameters with the picked keys.
const KEY_FIELDS: [&str; 3] = ["key1", "key2", "key3"];
/// Keys with more values, such as a user's id, are only shown if a person picks them.
const SUGGESTED_VALUES_LIMIT: i64 = 20;

/// Shares of the newest reports of a group.
pub struct GroupContextSection {
    /// The words for the reports that were looked at.
    pub sample: String,
    pub facts: Vec<FactLine>,
    /// What analyses found, as sentences.
    pub verdicts: Vec<String>,
    /// A sentence about the device, if one device only has the reports.
    pub device_note: Option<String>,
    /// The fields for the picked keys; empty if the app sets no keys.
    pub selects: Vec<BarSelect>,
    pub values: Vec<Breakdown>,
}

/// The share of reports in which a fact was true.
pub struct FactLine {
    pub name: &'static str,
    pub percent: u64,
    pub counts: String,
}

impl GroupContextSection {
    /// Loads the shares of a group, with the values of the keys in the page's address.
    pub async fn load_for_group(
        symbolication: &Symbolication,
        tx: &mut Tx<TenantTx>,
        group: GroupId,
        state: &PageState,
    ) -> Result<GroupContextSection, Problem> {
        let found = load_context(symbolication, tx, group).await?;
        let keys = pick_keys(&found.keys, state);
        let values = if keys.is_empty() { Vec::new() } else { count_key_values(tx, group, &keys).await? };
        Ok(GroupContextSection::from_counts(symbolication, group, &found, &keys, &values))
    }

    fn from_counts(
        symbolication: &Symbolication,
        group: GroupId,
        found: &GroupContext,
        keys: &[String],
        values: &[KeyValueUse],
    ) -> GroupContextSection {
        let verdicts = found.verdicts.iter().map(|share| {
            let subject = share.subject.as_ref().map(|subject| format!("`{subject}`"));
            describe_verdict(&symbolication.analyses, share, subject.as_deref(), found.sample)
        });
        let selects = if found.keys.is_empty() { Vec::new() } else { key_selects(&found.keys, keys) };
        GroupContextSection {
            sample: counted(found.sample, "report", "reports"),
            facts: found.facts.iter().filter_map(describe_fact).collect(),
            verdicts: verdicts.collect(),
            device_note: describe_only_device(&symbolication.analyses, found),
            selects,
            values: keys.iter().filter_map(|key| break_down(group, key, &found.keys, values)).collect(),
        }
    }

    /// Returns true if the reports have neither a state nor keys.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
            && self.selects.is_empty()
            && self.verdicts.is_empty()
            && self.device_note.is_none()
    }
}

/// Returns the picked keys, or else the first keys with few values.
fn pick_keys(keys: &[ContextKeyUse], state: &PageState) -> Vec<String> {
    let mut picked: Vec<String> = KEY_FIELDS.iter().filter_map(|field| state.get_text(field)).collect();
    picked.dedup();
    if !picked.is_empty() {
        return picked;
    }
    let few = keys.iter().filter(|key| (2..=SUGGESTED_VALUES_LIMIT).contains(&key.values));
    few.take(KEY_FIELDS.len()).map(|key| key.name.clone()).collect()
}

fn key_selects(keys: &[ContextKeyUse], picked: &[String]) -> Vec<BarSelect> {
    let select = |(at, name): (usize, &'static str)| {
        let current = picked.get(at).map(String::as_str).unwrap_or_default();
        let options = keys.iter().map(|key| (key.name.clone(), key.name.clone(), key.name == current));
        let none = (String::new(), "none".to_owned(), current.is_empty());
        BarSelect::from_options(name, "Key", std::iter::once(none).chain(options).collect())
    };
    KEY_FIELDS.into_iter().enumerate().map(select).collect()
}

/// Returns the table of a key's values, with links to their reports, or `None` if no report has it.
fn break_down(
    group: GroupId,
    key: &str,
    keys: &[ContextKeyUse],
    values: &[KeyValueUse],
) -> Option<Breakdown> {
    let total = keys.iter().find(|found| found.name == key)?.reports;
    let values = values.iter().filter(|value| value.key == key);
    let group = group.to_string();
    let link = |value: &str| {
        let pair = format!("{key}={value}");
        build_link(REPORTS_PAGE, &[("group", Some(&group)), ("key", Some(&pair))])
    };
    let values = values.map(|value| (value.value.as_str(), value.reports, Some(link(&value.value))));
    let by = format!("{key}, in {}", counted(total, "report", "reports"));
    let words = BreakdownWords { by: &by, head: key, unknown: "empty" };
    Some(Breakdown::from_values(words, total, false, values))
}

fn describe_fact(fact: &FactShare) -> Option<FactLine> {
    let name = match fact.name.as_str() {
        "in_background" => "In the background",
        "low_memory" => "Short of memory",
        "low_storage" => "Less than 100 MiB of storage free",
        "low_battery" => "Battery at 20 % or less",
        "low_power" => "Low power mode",
        "hot" => "Device too warm",
        "jailbroken" => "Jailbroken",
        _ => return None,
    };
    let counts = format!("{} of {}", words::grouped(fact.reports), counted(fact.known, "report", "reports"));
    Some(FactLine { name, percent: bar_percent(fact.reports, fact.known), counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, values: i64) -> ContextKeyUse {
        ContextKeyUse { name: name.to_owned(), reports: 9, values }
    }

    #[test]
    fn keys_with_few_values_are_shown_unless_a_person_picks_others() {
        let keys = [
            key("user", 900),
            key("plan", 2),
            key("store", 1),
            key("theme", 20),
            key("step", 3),
            key("tab", 4),
        ];
        assert_eq!(pick_keys(&keys, &PageState::default()), ["plan", "theme", "step"]);
        let state = PageState::default().with_parameter("key2", "user");
        assert_eq!(pick_keys(&keys, &state), ["user"]);
        let selects = key_selects(&keys, &pick_keys(&keys, &state));
        assert_eq!((selects.len(), selects[0].options.len()), (3, 7));
        assert!(selects[0].options[1].2 && selects[1].options[0].2);
    }

    #[test]
    fn a_share_is_of_the_reports_that_state_the_fact() {
        let share =
            |name: &str| describe_fact(&FactShare { name: name.to_owned(), known: 1_000, reports: 800 });
        let line = share("in_background").unwrap();
        assert_eq!(
            (line.name, line.percent, line.counts.as_str()),
            ("In the background", 80, "800 of 1\u{202f}000 reports")
        );
        assert!(share("unknown").is_none());
        assert!(break_down(GroupId::default(), "gone", &[key("plan", 2)], &[]).is_none());
    }
}
