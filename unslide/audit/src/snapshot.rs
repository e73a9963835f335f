//! Reads the snapshot of a running installation for the audit.
//!
//! The audit never reports a loss that is none, because it reads in this order:
//!
//! 1. the start of each consumed log and then each group's committed offsets, waiting for those that
//!    an open transaction is about to commit;
//! 2. the ends of all logs with outcomes, of committed and uncommitted records alike;
//! 3. the stable ends of the logs with inputs;
//! 4. every committed record up to these ends, once no transaction is open below them.
//!
//! A record below its group's committed offset of step 1 was taken by a transaction that had been decided
//! before step 1 answered. Its outputs had been written before it was decided, so they are below the ends of
//! step 2, though their markers may come later: step 4 waits for those. So the outcome of every record that
//! counts as taken is read. A record at or above the committed offset may have an outcome below the ends,
//! none, or that of some reports of its array: without a whole outcome it is unread and never lost. An
//! outcome of a record at or above the ends of step 3 came later and is left out.
//!
//! The outcomes of old inputs may have been deleted. A record is written after the one that it is the outcome
//! of, so all outcomes exist of inputs younger than every deleted record. The audit starts [`BROKER_CLOCK_MARGIN_MILLIS`] after
//! that time: brokers' clocks differ.

use super::tally::{AuditTally, Extent, KINDS, RecordPosition, Role, Taken, Traced};
use super::{Audit, AuditError, AuditProgress, AuditScope, Window};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use unslide_model::TenantId;
use unslide_proto::report::ledger_record::Entry;
use unslide_proto::report::{LedgerRecord, Outcome, RecordRef as ProtoRef};
use unslide_proto::topics::TopicNames;
use unslide_proto::{Message, headers, lanes};
use unslide_stream::admin::{self, Retention};
use unslide_stream::scan::{Range, Scanner, Sighting};
use unslide_stream::{Settings, StreamError};

/// By how much the clocks of brokers may differ, in milliseconds.
const BROKER_CLOCK_MARGIN_MILLIS: i64 = 300_000;

/// Offsets among which the first record of a log is looked for: markers may come before it.
const FIRST_RECORD_OFFSETS_LIMIT: i64 = 100;

/// A topic that a lane consumes.
struct Consumed {
    name: String,
    role: Role,
    lane: &'static str,
    tenant: Option<TenantId>,
}

/// A topic with outcomes.
struct Outcomes {
    name: String,
    /// `None`: the ledger. Its records state their outcomes themselves.
    kind: Option<Outcome>,
    /// Partition, start, end.
    held: Vec<(i32, i64, i64)>,
}

type Topics = BTreeMap<String, Vec<i32>>;

fn list_consumed(settings: &Settings, topics: &Topics) -> Vec<Consumed> {
    let names = settings.topic_names();
    let one = |name: &str, role, lane| Consumed { name: name.to_owned(), role, lane, tenant: None };
    let mut all = vec![one(&names.input, Role::Input, lanes::LIVE)];
    if settings.tenant_topics {
        all.extend(topics.keys().filter_map(|name| {
            let tenant = Some(names.tenant_of_input(name)?);
            Some(Consumed { tenant, ..one(name, Role::Input, lanes::LIVE) })
        }));
    }
    for copies in [&names.retry_1s, &names.retry_10s, &names.retry_1m, &names.retry_10m, &names.overflow] {
        all.push(one(copies, Role::Copies, lanes::RETRY));
    }
    all.push(one(&names.ingest_overflow, Role::Overflow, lanes::RETRY));
    all.push(one(&names.resymbolicate, Role::Requests, lanes::RESYMBOLICATE));
    all
}

fn with_outcomes(settings: &Settings, topics: &Topics) -> Vec<(String, Option<Outcome>)> {
    let names = settings.topic_names();
    let mut all = vec![(names.output.clone(), Some(Outcome::Symbolicated))];
    if settings.tenant_topics {
        let tenants = topics.keys().filter(|name| names.tenant_of_output(name).is_some());
        all.extend(tenants.map(|name| (name.clone(), Some(Outcome::Symbolicated))));
    }
    all.push((names.dead_letter, Some(Outcome::DeadLetter)));
    for tier in [names.retry_1s, names.retry_10s, names.retry_1m, names.retry_10m] {
        all.push((tier, Some(Outcome::Retry)));
    }
    all.push((names.overflow, Some(Outcome::Overflow)));
    all.push((names.ledger, None));
    all
}

fn find_partitions<'t>(topics: &'t Topics, topic: &str) -> Result<&'t [i32], StreamError> {
    topics.get(topic).map(Vec::as_slice).ok_or_else(|| StreamError::NoTopic(topic.to_owned()))
}

/// A partition's start and its group's offset, by topic and partition.
type Begun = HashMap<(String, i32), (i64, Option<i64>)>;

/// Reads the starts of the logs and the committed offsets: step 1.
fn read_beginnings(scanner: &Scanner, settings: &Settings, topics: &Topics) -> Result<Begun, StreamError> {
    let all = list_consumed(settings, topics);
    let mut starts = HashMap::new();
    for topic in &all {
        for partition in find_partitions(topics, &topic.name)? {
            let (start, _) = scanner.stable_bounds(&topic.name, *partition)?;
            starts.insert((topic.name.clone(), *partition), (start, None));
        }
    }
    for lane in [lanes::LIVE, lanes::RETRY, lanes::RESYMBOLICATE] {
        let of = |topic: &&Consumed| topic.lane == lane;
        let mut places = Vec::new();
        for topic in all.iter().filter(of) {
            let numbers = find_partitions(topics, &topic.name)?;
            places.extend(numbers.iter().map(|partition| (topic.name.clone(), *partition)));
        }
        for (place, offset) in
            scanner.find_committed_offsets(&lanes::consumer_group(&settings.topic_prefix, lane), &places)?
        {
            if let Some(known) = starts.get_mut(&place) {
                known.1 = Some(offset);
            }
        }
    }
    Ok(starts)
}

/// Reads the ends of the logs with outcomes: step 2.
fn read_outcome_ends(
    scanner: &Scanner,
    settings: &Settings,
    topics: &Topics,
) -> Result<Vec<Outcomes>, StreamError> {
    let mut all = Vec::new();
    for (name, kind) in with_outcomes(settings, topics) {
        let mut held = Vec::new();
        for partition in find_partitions(topics, &name)? {
            let (start, _) = scanner.stable_bounds(&name, *partition)?;
            held.push((*partition, start, scanner.log_end(&name, *partition)?));
        }
        all.push(Outcomes { name, kind, held });
    }
    Ok(all)
}

/// Returns the time after which no outcome was deleted; `None` if none was deleted at all.
fn nothing_deleted_since(
    scanner: &Scanner,
    settings: &Settings,
    outcomes: &[Outcomes],
    now: i64,
    patience: Duration,
) -> Result<Option<(i64, String)>, StreamError> {
    // A deleted copy that was taken before is no end: its outcome names the origin.
    let ends = |topic: &&Outcomes| !matches!(topic.kind, Some(Outcome::Retry | Outcome::Overflow));
    let cut: Vec<String> = outcomes
        .iter()
        .filter(ends)
        .filter(|topic| topic.held.iter().any(|(_, start, _)| *start > 0))
        .map(|topic| topic.name.clone())
        .collect();
    let rules = futures::executor::block_on(admin::read_retention(settings, &cut))?;
    let mut latest: Option<(i64, String)> = None;
    for topic in outcomes.iter().filter(|topic| cut.contains(&topic.name)) {
        let moment = match rules.get(&topic.name) {
            // Everything that was deleted was older than that.
            Some(Retention { millis: Some(millis), bytes: None }) => now - millis,
            _ => {
                let mut oldest = i64::MIN;
                for (partition, start, end) in topic.held.iter().filter(|(_, start, _)| *start > 0) {
                    let mut first = None;
                    let range = Range {
                        partition: *partition,
                        from: *start,
                        to: (*end).min(start + FIRST_RECORD_OFFSETS_LIMIT),
                    };
                    scanner.wait_stable(&topic.name, &[(range.partition, range.to)], patience)?;
                    scanner.scan_ranges(&topic.name, &[range], |record| {
                        first = first.or(record.time_millis());
                    })?;
                    // Without a record, the age of the deleted ones is unknown.
                    oldest = oldest.max(first.unwrap_or(now));
                }
                oldest
            }
        };
        if latest.as_ref().is_none_or(|(known, _)| *known < moment) {
            latest = Some((moment, topic.name.clone()));
        }
    }
    Ok(latest.map(|(moment, topic)| {
        (
            moment + BROKER_CLOCK_MARGIN_MILLIS,
            format!("outcomes of older records were deleted from {topic} by its retention"),
        )
    }))
}

/// Finds the offset of a time in each partition; the end of the log if no record is younger.
fn find_offsets(
    scanner: &Scanner,
    topic: &str,
    partitions: &[i32],
    millis: Option<i64>,
) -> Result<HashMap<i32, i64>, StreamError> {
    let Some(millis) = millis else { return Ok(HashMap::new()) };
    let found = scanner.offsets_at(topic, partitions, millis)?;
    Ok(found.into_iter().map(|(partition, offset)| (partition, offset.unwrap_or(i64::MAX))).collect())
}

/// Returns the offsets that are counted in each partition of a topic.
fn extents_of(
    scanner: &Scanner,
    topic: &Consumed,
    partitions: &[i32],
    begun: &Begun,
    outcomes: &[Outcomes],
    window: Window,
) -> Result<Vec<Extent>, StreamError> {
    let counted_from = find_offsets(scanner, &topic.name, partitions, window.from)?;
    let counted_to = find_offsets(scanner, &topic.name, partitions, window.to)?;
    let copies = topic.role == Role::Copies;
    let early =
        if copies { window.from.map(|moment| moment - BROKER_CLOCK_MARGIN_MILLIS) } else { window.from };
    let noted_from = find_offsets(scanner, &topic.name, partitions, early)?;
    let written = outcomes.iter().find(|outcomes| outcomes.name == topic.name);
    let mut extents = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let (held, stable) = scanner.stable_bounds(&topic.name, *partition)?;
        let known = begun.get(&(topic.name.clone(), *partition)).copied();
        let (start, committed) = known.unwrap_or((held, None));
        let written = written.and_then(|o| o.held.iter().find(|(p, ..)| p == partition));
        let end = written.map_or(stable, |(_, _, end)| *end);
        let within = |places: &HashMap<i32, i64>, none: i64| {
            places.get(partition).copied().unwrap_or(none).clamp(start, end.max(start))
        };
        let counted = within(&counted_from, start)..within(&counted_to, end);
        extents.push(Extent {
            topic: topic.name.as_str().into(),
            partition: *partition,
            role: topic.role,
            tenant: topic.tenant.clone(),
            start,
            from: within(&noted_from, start),
            to: if copies { end } else { counted.end },
            counted,
            committed,
        });
    }
    Ok(extents)
}

pub(super) fn run_audit(
    settings: &Settings,
    asked: Window,
    now: i64,
    patience: Duration,
    progress: &dyn Fn(AuditProgress<'_>),
) -> Result<Audit, AuditError> {
    let scanner = Scanner::open(settings)?;
    let begun = read_beginnings(&scanner, settings, &scanner.list_topics()?)?;
    // Topics and partitions that are new since have outcomes or none, and no committed offset.
    let topics = scanner.list_topics()?;
    let outcomes = read_outcome_ends(&scanner, settings, &topics)?;
    let default = match asked.from {
        Some(_) => None,
        None => nothing_deleted_since(&scanner, settings, &outcomes, now, patience)?,
    };
    let from = asked.from.or(default.as_ref().map(|(moment, _)| *moment));
    let window = Window { from, ..asked };

    let all = list_consumed(settings, &topics);
    let mut extents = Vec::new();
    for topic in &all {
        extents.extend(extents_of(
            &scanner,
            topic,
            find_partitions(&topics, &topic.name)?,
            &begun,
            &outcomes,
            window,
        )?);
    }
    let mut tally = AuditTally::new(extents)?;
    let names = settings.topic_names();
    let mut reading =
        Reading { scanner: &scanner, names: &names, tally: &mut tally, progress, patience, read: 0 };
    for topic in all.iter().filter(|topic| topic.role != Role::Copies) {
        reading.read_inputs(topic)?;
    }
    for topic in &outcomes {
        reading.read_outcomes(
            topic,
            &topics,
            window.from.map(|moment| moment - BROKER_CLOCK_MARGIN_MILLIS),
        )?;
    }
    let read = reading.read;
    for topic in &all {
        let places: Vec<(usize, i32)> =
            tally.list_extents(&topic.name).into_iter().map(|(n, extent)| (n, extent.partition)).collect();
        for (number, partition) in places {
            tally.begins_now(number, scanner.stable_bounds(&topic.name, partition)?.0);
        }
    }
    let ledger = outcomes.iter().filter(|topic| topic.kind.is_none()).flat_map(|topic| &topic.held);
    let scope = AuditScope {
        everything: asked == Window::default(),
        whole_ledger: window.from.is_none() && ledger.into_iter().all(|(_, start, _)| *start == 0),
    };
    Ok(Audit { window, because: default.map(|(_, why)| why), read, summary: tally.into_summary(scope) })
}

/// Step 4.
struct Reading<'r> {
    scanner: &'r Scanner,
    names: &'r TopicNames,
    tally: &'r mut AuditTally,
    progress: &'r dyn Fn(AuditProgress<'_>),
    patience: Duration,
    read: u64,
}

impl Reading<'_> {
    fn scan_topic(
        &mut self,
        topic: &str,
        ranges: &[Range],
        mut each: impl FnMut(&mut AuditTally, &Sighting<'_>),
    ) -> Result<(), StreamError> {
        let ends: Vec<(i32, i64)> =
            ranges.iter().filter(|r| r.from < r.to).map(|r| (r.partition, r.to)).collect();
        self.scanner.wait_stable(topic, &ends, self.patience)?;
        let (tally, progress, mut records) = (&mut *self.tally, self.progress, self.read);
        progress(AuditProgress { topic, records });
        self.read += self.scanner.scan_ranges(topic, ranges, |sighting| {
            records += 1;
            if records.is_multiple_of(50_000) {
                progress(AuditProgress { topic, records });
            }
            each(tally, sighting);
        })?;
        Ok(())
    }

    fn read_inputs(&mut self, topic: &Consumed) -> Result<(), StreamError> {
        let places = self.tally.list_extents(&topic.name);
        let numbers: HashMap<i32, usize> = places.iter().map(|(n, e)| (e.partition, *n)).collect();
        let ranges: Vec<Range> =
            places.iter().map(|(_, e)| Range { partition: e.partition, from: e.from, to: e.to }).collect();
        let requests = topic.role == Role::Requests;
        self.scan_topic(&topic.name, &ranges, |tally, sighting| {
            let Some(part) = numbers.get(&sighting.partition()) else { return };
            // A request is keyed by tenant and report.
            let tenant = if requests {
                sighting.key().unwrap_or_default().split(|b| *b == b'/').next()
            } else {
                // Of two names none counts.
                let mut named = sighting.headers().filter(|(name, _)| *name == headers::TENANT);
                named.next().filter(|_| named.next().is_none()).map(|(_, value)| value)
            };
            tally.add_record(*part, sighting.offset(), tenant.unwrap_or_default());
        })
    }

    fn read_outcomes(
        &mut self,
        topic: &Outcomes,
        topics: &Topics,
        from: Option<i64>,
    ) -> Result<(), StreamError> {
        let names = self.names;
        let first = find_offsets(self.scanner, &topic.name, find_partitions(topics, &topic.name)?, from)?;
        let places = self.tally.list_extents(&topic.name);
        let numbers: HashMap<i32, usize> = places.iter().map(|(n, e)| (e.partition, *n)).collect();
        let ranges: Vec<Range> = topic
            .held
            .iter()
            .map(|(partition, start, end)| {
                let from = first.get(partition).copied().unwrap_or(*start).max(*start);
                Range { partition: *partition, from, to: *end }
            })
            .collect();
        self.scan_topic(&topic.name, &ranges, |tally, sighting| {
            let Some(kind) = topic.kind else { return tally_ledger_record(tally, sighting) };
            let (traced, tenant) = read_trace(sighting);
            match numbers.get(&sighting.partition()) {
                Some(part) => {
                    let traced = traced.without_other_cells(names);
                    tally.add_copy(*part, sighting.offset(), tenant, kind, &traced);
                }
                None => tally.add_end(kind, &traced),
            }
        })
    }
}

fn tally_ledger_record(tally: &mut AuditTally, sighting: &Sighting<'_>) {
    let record = sighting.value().and_then(|value| LedgerRecord::decode(value).ok());
    let Some(entry) = record.and_then(|record| record.entry) else {
        return tally.add_unreadable(sighting.partition(), sighting.offset());
    };
    match entry {
        Entry::Batch(account) => {
            for batch in account.partitions {
                let mut outcomes = [0; KINDS];
                for count in &batch.outcomes {
                    if let Some(sum) = usize::try_from(count.outcome).ok().and_then(|n| outcomes.get_mut(n)) {
                        *sum += count.count;
                    }
                }
                let (first, next) = (batch.first_offset, batch.next_offset);
                let taken = Taken { first, next, records: batch.records, outcomes };
                tally.add_account(&batch.topic, batch.partition, taken);
            }
        }
        Entry::Terminal(end) => {
            let traced = Traced {
                source: end.source.as_ref().map(to_position),
                origin: end.origin.as_ref().map(to_position),
                index: None,
            };
            match end.outcome() {
                Outcome::PassedOn => tally.add_passed_on(&end.passed_to, &traced),
                other => tally.add_end(other, &traced),
            }
        }
        // It is about no record.
        Entry::Uses(_) => {}
    }
}

impl Traced<'_> {
    /// Leaves out records of other cells. A copy that one of them passed on is the first record of its history here.
    fn without_other_cells(self, names: &TopicNames) -> Self {
        let is_own = |at: &RecordPosition<'_>| {
            names.all().contains(&at.topic) || names.tenant_of_input(at.topic).is_some()
        };
        Traced { source: self.source.filter(is_own), origin: self.origin.filter(is_own), ..self }
    }
}

fn to_position(reference: &ProtoRef) -> RecordPosition<'_> {
    RecordPosition { topic: &reference.topic, partition: reference.partition, offset: reference.offset }
}

/// Reads an outcome's source, origin and tenant from its headers.
fn read_trace<'s>(sighting: &'s Sighting<'_>) -> (Traced<'s>, &'s [u8]) {
    fn parse_number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
        std::str::from_utf8(value).ok()?.parse().ok()
    }
    #[derive(Default)]
    struct Place<'s>(Option<&'s str>, Option<i32>, Option<i64>);
    impl<'s> Place<'s> {
        fn to_position(&self) -> Option<RecordPosition<'s>> {
            Some(RecordPosition { topic: self.0?, partition: self.1?, offset: self.2? })
        }
    }
    let (mut source, mut origin) = (Place::default(), Place::default());
    let (mut index, mut count, mut tenant): (Option<u32>, Option<u32>, &[u8]) = (None, None, &[]);
    for (name, value) in sighting.headers() {
        match name {
            headers::SOURCE_TOPIC => source.0 = std::str::from_utf8(value).ok(),
            headers::SOURCE_PARTITION => source.1 = parse_number(value),
            headers::SOURCE_OFFSET => source.2 = parse_number(value),
            headers::ORIGIN_TOPIC => origin.0 = std::str::from_utf8(value).ok(),
            headers::ORIGIN_PARTITION => origin.1 = parse_number(value),
            headers::ORIGIN_OFFSET => origin.2 = parse_number(value),
            headers::SOURCE_INDEX => index = parse_number(value),
            headers::SOURCE_COUNT => count = parse_number(value),
            headers::TENANT => tenant = value,
            _ => {}
        }
    }
    (Traced { source: source.to_position(), origin: origin.to_position(), index: index.zip(count) }, tenant)
}
