//! A reckoning of its own, by the headers alone: has every record exactly one outcome, and is it its
//! own tenant's? It shares no code with the service's audit.

use crate::load::{MANY_FRAMES, STRANGER, Truth};
use std::collections::{BTreeMap, BTreeSet};
use unslide_proto::Message;
use unslide_proto::report::LedgerRecord;
use unslide_proto::report::ledger_record::Entry;
use unslide_tests::topics::{Record, Topics};

/// The topics of records that each have one outcome.
fn consumed() -> impl Iterator<Item = &'static str> {
    ["crash.reports", REQUESTS].into_iter().chain(COPIES)
}
/// Those among them that hold copies of others' records.
const COPIES: [&str; 5] =
    ["unslide.retry.1s", "unslide.retry.10s", "unslide.retry.1m", "unslide.retry.10m", "unslide.overflow"];
const REQUESTS: &str = "unslide.resymbolicate";
const OUTPUT: &str = "crash.symbolicated";
const LETTERS: &str = "unslide.dead-letter";
const LEDGER: &str = "unslide.ledger";

/// Topic, partition, offset.
type At = (String, i32, i64);

/// What one record became.
#[derive(Default)]
struct Outcomes {
    whole: usize,
    /// Reports of an array: how often each place, and how many places are claimed.
    places: BTreeMap<usize, usize>,
    claimed: BTreeSet<usize>,
    words: BTreeSet<&'static str>,
}

impl Outcomes {
    /// What is wrong with them.
    fn wrong(&self) -> Option<&'static str> {
        let claimed = self.claimed.first().copied().unwrap_or(0);
        match (self.whole, self.places.len()) {
            (0, 0) => Some("lost"),
            (1, 0) => None,
            (0, found) => {
                let twice = self.places.values().any(|times| *times > 1) || self.claimed.len() > 1;
                if twice {
                    Some("doubled")
                } else if found == claimed {
                    None
                } else {
                    Some("lost in part")
                }
            }
            _ => Some("doubled"),
        }
    }
}

/// The reason of a dead letter of a record that killed its workers.
const DEADLY: &str = "kills_worker";
/// The reason of a dead letter of a record of a tenant that never existed.
const UNKNOWN: &str = "unknown_tenant";

/// How the detail of a dead letter begins if the enriched report fits into no record.
const OUTPUT_TOO_LARGE: &str = "the enriched report has ";

/// What was found.
#[derive(Default)]
pub struct Account {
    /// Records of each topic.
    pub counts: BTreeMap<&'static str, usize>,
    /// Dead letters by their reasons.
    pub letters: BTreeMap<String, usize>,
    /// Copies to retry and overflow by their reasons.
    pub copies: BTreeMap<String, usize>,
    /// Dead letters of reports that fit into no record once they are enriched.
    pub too_large_outputs: usize,
    /// Values of the records that were given up because they killed their workers.
    pub deadly: Vec<Vec<u8>>,
    /// Dead letters of records of tenants that never existed.
    pub strangers: usize,
    /// The highest revision of each report.
    pub reports: BTreeMap<(String, String), u32>,
    /// Everything that must not be.
    pub problems: Vec<String>,
    /// The offset behind the last record of each partition of the topics that indexers read.
    pub ends: BTreeMap<(&'static str, i32), i64>,
}

/// Reads everything and reckons.
pub fn reckon(topics: &Topics, full: &dyn Fn(&str) -> String, truth: &Truth) -> Account {
    let mut account = Account::default();
    let mut outcomes: BTreeMap<At, Outcomes> = BTreeMap::new();
    let mut tenants: BTreeMap<(i32, i64), String> = BTreeMap::new();
    for topic in consumed() {
        let name = full(topic);
        topics.scan_topic(&name, |record| {
            *account.counts.entry(topic).or_default() += 1;
            outcomes.entry((name.clone(), record.partition, record.offset)).or_default();
            if topic == "crash.reports" {
                tenants.insert((record.partition, record.offset), record.header_text("tenant").to_owned());
            }
        });
    }
    let input = full("crash.reports");
    for topic in COPIES.iter().chain(&[OUTPUT, LETTERS, LEDGER]) {
        topics.scan_topic(&full(topic), |record| {
            *account.counts.entry(if COPIES.contains(topic) { "copies" } else { topic }).or_default() += 1;
            if [OUTPUT, LEDGER].contains(topic) {
                account.ends.insert((topic, record.partition), record.offset + 1);
            }
            match *topic {
                LEDGER => account.terminal(&record, &mut outcomes),
                _ => account.made(topic, &record, &mut outcomes),
            }
            let of =
                (record.header_text("origin-partition").parse(), record.header_text("origin-offset").parse());
            if let (Ok(partition), Ok(offset)) = of
                && record.header_text("origin-topic") == input
            {
                match tenants.get(&(partition, offset)) {
                    Some(tenant) if tenant == record.header_text("tenant") => {}
                    sender => account.problems.push(format!(
                        "{topic}/{}@{} is of the tenant {:?}, its origin {partition}@{offset} of {sender:?}",
                        record.partition,
                        record.offset,
                        record.header_text("tenant")
                    )),
                }
            }
        });
    }
    for ((topic, partition, offset), outcomes) in &outcomes {
        if let Some(wrong) = outcomes.wrong() {
            let words = &outcomes.words;
            account.problems.push(format!("{topic}/{partition}@{offset} is {wrong}: {words:?}"));
        }
    }
    account.special(truth);
    for (tenant, id) in truth.expected.iter().filter(|name| !account.reports.contains_key(name)) {
        account.problems.push(format!("the report {id} of {tenant} was sent and never came out"));
    }
    account
}

impl Account {
    /// The records that must come to an end of their own have come to it, and no others.
    fn special(&mut self, truth: &Truth) {
        if self.too_large_outputs == 0 && truth.kinds.contains_key(MANY_FRAMES) {
            self.problems.push("no enriched report was too large for its topic".to_owned());
        }
        let (mut sent, mut given_up) = (truth.deadly.clone(), std::mem::take(&mut self.deadly));
        sent.sort_unstable();
        given_up.sort_unstable();
        let sound = given_up.iter().filter(|value| !sent.contains(value)).count();
        if sound > 0 {
            self.problems.push(format!("{sound} records were given up though they kill nobody"));
        } else if given_up != sent {
            let (sent, given_up) = (sent.len(), given_up.len());
            self.problems.push(format!("{sent} records kill their workers, {given_up} were given up"));
        }
        if self.strangers != truth.strangers {
            self.problems.push(format!(
                "{} records are of {STRANGER}, {} letters say that there is no such tenant",
                truth.strangers, self.strangers
            ));
        }
    }

    fn made(&mut self, topic: &'static str, record: &Record, outcomes: &mut BTreeMap<At, Outcomes>) {
        match topic {
            OUTPUT => {
                let name =
                    (record.header_text("tenant").to_owned(), record.header_text("report-id").to_owned());
                let revision = record.header_text("revision").parse().unwrap_or(0);
                let highest = self.reports.entry(name).or_default();
                *highest = (*highest).max(revision);
            }
            LETTERS => {
                let reason = record.header_text("reason");
                *self.letters.entry(reason.to_owned()).or_default() += 1;
                if reason == DEADLY {
                    self.deadly.push(record.value.clone());
                }
                self.strangers += usize::from(reason == UNKNOWN && record.header_text("tenant") == STRANGER);
                self.too_large_outputs +=
                    usize::from(record.header_text("detail").starts_with(OUTPUT_TOO_LARGE));
                if record.header_text("source-topic").ends_with(REQUESTS) {
                    let (tenant, detail) = (record.header_text("tenant"), record.header_text("detail"));
                    self.problems.push(format!("a request of {tenant} is a dead letter: {reason}: {detail}"));
                }
            }
            _ => *self.copies.entry(format!("{topic} {}", record.header_text("reason"))).or_default() += 1,
        }
        let number = |name: &str| record.header_text(name).parse::<i64>().ok();
        let (Some(partition), Some(offset)) = (number("source-partition"), number("source-offset")) else {
            self.problems.push(format!("{topic}/{}@{} names no source", record.partition, record.offset));
            return;
        };
        let at =
            (record.header_text("source-topic").to_owned(), i32::try_from(partition).unwrap_or(-1), offset);
        let Some(found) = outcomes.get_mut(&at) else {
            self.problems.push(format!(
                "{topic}/{}@{} comes from {at:?}, which is not there",
                record.partition, record.offset
            ));
            return;
        };
        found.words.insert(topic);
        match (number("source-index"), number("source-count")) {
            (Some(index), Some(count)) => {
                *found.places.entry(usize::try_from(index).unwrap_or(usize::MAX)).or_default() += 1;
                found.claimed.insert(usize::try_from(count).unwrap_or(0));
            }
            _ => found.whole += 1,
        }
    }

    fn terminal(&mut self, record: &Record, outcomes: &mut BTreeMap<At, Outcomes>) {
        let Ok(LedgerRecord { entry: Some(entry), .. }) = LedgerRecord::decode(record.value.as_slice())
        else {
            self.problems.push(format!("the ledger's {}@{} cannot be read", record.partition, record.offset));
            return;
        };
        let Entry::Terminal(end) = entry else { return };
        let source = end.source.unwrap_or_default();
        match outcomes.get_mut(&(source.topic.clone(), source.partition, source.offset)) {
            Some(found) => {
                found.whole += 1;
                found.words.insert(LEDGER);
            }
            None => self.problems.push(format!("the ledger ends {source:?}, which is not there")),
        }
    }
}
