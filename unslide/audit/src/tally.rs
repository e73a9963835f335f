//! The tally of records: four bytes for each offset of a consumed topic, a little more for copies and arrays.
//! Records may come in any order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_proto::report::Outcome;

/// The kind of records on a consumed topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reports as they come in.
    Input,
    /// Reports and sessions that came in over the rate of their key and wait for it.
    Overflow,
    /// Requests for another revision.
    Requests,
    /// Records of other consumed topics that wait for another try.
    Copies,
}

/// One partition of a consumed topic, and what of it is audited.
#[derive(Clone, Debug)]
pub struct Extent {
    pub topic: Arc<str>,
    pub partition: i32,
    /// The kind of records on the topic.
    pub role: Role,
    /// The tenant of the topic, if the topic and not a header names the tenant.
    pub tenant: Option<TenantId>,
    /// The first offset that the log held when the audit began.
    pub start: i64,
    /// The first offset that is noted.
    pub from: i64,
    /// One after the last that is noted.
    pub to: i64,
    /// The offsets of records that are audited: those within the audited time. Others are noted only because
    /// they may be copies of such.
    pub counted: std::ops::Range<i64>,
    /// The committed offset of the group when the audit began: everything below has been taken.
    pub committed: Option<i64>,
}

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
}

/// The origin of an outcome, by its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traced<'a> {
    /// The record that it is the outcome of.
    pub source: Option<RecordPosition<'a>>,
    /// The first record of the history.
    pub origin: Option<RecordPosition<'a>>,
    /// Which of how many reports of the source.
    pub index: Option<(u32, u32)>,
}

/// Reports of one record beyond which a count is nonsense.
const REPORTS_PER_RECORD_LIMIT: u32 = 1 << 24;
/// Tenants that get rows of their own.
const TENANT_ROWS_LIMIT: usize = 60_000;
/// The highest number of an [`Outcome`].
const HIGHEST: u8 = Outcome::PassedOn as u8;
/// How many numbers there are.
pub(super) const KINDS: usize = HIGHEST as usize + 1;
/// The kind of a record that has outcomes for each of several reports.
pub(super) const ARRAY: u8 = 15;

/// One offset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordState {
    pub tenant: u16,
    /// Low half: the outcome that names this record as its source ([`Outcome`]'s number, or
    /// [`ARRAY`]). High half: the outcome that names it as its origin only.
    kinds: u8,
    flags: u8,
}

const PRESENT: u8 = 1;
const EXCUSED: u8 = 2;

impl RecordState {
    pub(super) fn kind(self) -> u8 {
        self.kinds & 15
    }
    pub(super) fn via(self) -> u8 {
        self.kinds >> 4
    }
    pub(super) fn is_present(self) -> bool {
        self.flags & PRESENT != 0
    }
    /// Returns true if this record cannot be judged, because a topic of its history was deleted.
    pub(super) fn is_excused(self) -> bool {
        self.flags & EXCUSED != 0
    }
}

/// The outcomes of one record that held several reports.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub count: u32,
    seen: Vec<u64>,
    /// How many of each [`Outcome`].
    pub kinds: [u32; KINDS],
}

impl Array {
    pub(super) fn missing_count(&self) -> u32 {
        let seen: u32 = self.seen.iter().map(|word| word.count_ones()).sum();
        self.count - seen
    }
}

/// A record: partition and place among the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Spot {
    pub part: u32,
    pub slot: u32,
}

/// No parent.
pub(super) const NOWHERE: Spot = Spot { part: u32::MAX, slot: 0 };

pub(super) struct Part {
    pub extent: Extent,
    pub slots: Vec<RecordState>,
    /// Of copies: the record that each is a copy of.
    pub parents: Vec<Spot>,
    /// The tenant that the topic names.
    owner: Option<u16>,
}

impl Part {
    fn find_spot(&self, part: usize, offset: i64) -> Option<Spot> {
        if !(self.extent.from..self.extent.to).contains(&offset) {
            return None;
        }
        let slot = u32::try_from(offset - self.extent.from).ok()?;
        Some(Spot { part: u32::try_from(part).ok()?, slot })
    }

    pub(super) fn offset_at(&self, slot: u32) -> i64 {
        self.extent.from + i64::from(slot)
    }
}

/// The records that one transaction took from one partition, by the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub first: i64,
    /// The offset that it committed.
    pub next: i64,
    pub records: u64,
    /// How many of each [`Outcome`].
    pub outcomes: [u64; KINDS],
}

/// A partition has more offsets than can be noted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{topic} partition {partition} has {offsets} offsets to audit: give a shorter time")]
pub struct TooMany {
    pub topic: String,
    pub partition: i32,
    /// From the first to the last.
    pub offsets: i64,
}

/// The place of an offset relative to the counted offsets.
enum Reach {
    Noted(Spot),
    /// Below what the log holds, or of a topic that is not there any more.
    Gone,
    /// Above or below the audited time.
    Outside,
}

#[derive(Default)]
pub struct AuditTally {
    pub(super) parts: Vec<Part>,
    by_topic: HashMap<Arc<str>, BTreeMap<i32, usize>>,
    pub(super) tenants: Vec<String>,
    tenant_numbers: HashMap<String, u16>,
    pub(super) arrays: HashMap<Spot, Array>,
    /// Outcomes beyond the first.
    pub(super) surplus: BTreeMap<Spot, u32>,
    pub(super) contradictions: Vec<String>,
    pub(super) taken: BTreeMap<usize, Vec<Taken>>,
    /// Outcomes of records that are on no consumed topic.
    pub(super) strays: u64,
    /// How many records were passed on to each topic of another cell.
    pub(super) passed_to: BTreeMap<String, u64>,
}

impl AuditTally {
    /// Makes an empty tally for these partitions.
    ///
    /// # Errors
    /// [`TooMany`] if a partition has more than four billion offsets.
    pub fn new(extents: Vec<Extent>) -> Result<AuditTally, TooMany> {
        let mut tally = AuditTally::default();
        tally.tenant_number("");
        for extent in extents {
            let offsets = (extent.to - extent.from).max(0);
            let count = u32::try_from(offsets).map_err(|_| TooMany {
                topic: extent.topic.to_string(),
                partition: extent.partition,
                offsets,
            })?;
            let copies = if extent.role == Role::Copies { count as usize } else { 0 };
            let places = tally.by_topic.entry(Arc::clone(&extent.topic)).or_default();
            places.insert(extent.partition, tally.parts.len());
            let owner = extent.tenant.as_ref().map(|owner| tally.tenant_number(owner.as_str()));
            tally.parts.push(Part {
                extent,
                owner,
                slots: vec![RecordState::default(); count as usize],
                parents: vec![NOWHERE; copies],
            });
        }
        Ok(tally)
    }

    /// Returns the audited partitions of a topic, each with its number.
    pub fn list_extents(&self, topic: &str) -> Vec<(usize, &Extent)> {
        let places = self.by_topic.get(topic).into_iter().flat_map(|places| places.values());
        places.map(|n| (*n, &self.parts[*n].extent)).collect()
    }

    fn tenant_number(&mut self, tenant: &str) -> u16 {
        if let Some(number) = self.tenant_numbers.get(tenant) {
            return *number;
        }
        let name = if self.tenants.len() < TENANT_ROWS_LIMIT { tenant } else { "(others)" };
        if let Some(number) = self.tenant_numbers.get(name) {
            return *number;
        }
        let number = u16::try_from(self.tenants.len()).unwrap_or(u16::MAX);
        self.tenants.push(name.to_owned());
        self.tenant_numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the number of the tenant that a header names; 0, for no tenant, if it is no slug.
    fn tenant_number_from_header(&mut self, tenant: &[u8]) -> u16 {
        let Ok(slug) = std::str::from_utf8(tenant) else { return 0 };
        match self.tenant_numbers.get(slug) {
            Some(number) => *number,
            None if TenantId::new(slug).is_ok() => self.tenant_number(slug),
            None => 0,
        }
    }

    fn locate_record(&self, at: &RecordPosition<'_>) -> Reach {
        let part = self.by_topic.get(at.topic).and_then(|places| places.get(&at.partition));
        let Some(part) = part else { return Reach::Gone };
        let known = &self.parts[*part];
        match known.find_spot(*part, at.offset) {
            Some(spot) => Reach::Noted(spot),
            None if at.offset < known.extent.start => Reach::Gone,
            None => Reach::Outside,
        }
    }

    fn slot_mut(&mut self, spot: Spot) -> &mut RecordState {
        &mut self.parts[spot.part as usize].slots[spot.slot as usize]
    }

    /// Adds a committed record of a consumed topic. `tenant` is the value of its header; a value that is no
    /// slug counts as no tenant.
    pub fn add_record(&mut self, part: usize, offset: i64, tenant: &[u8]) {
        let number = match self.parts[part].owner {
            Some(owner) => owner,
            None => self.tenant_number_from_header(tenant),
        };
        if let Some(spot) = self.parts[part].find_spot(part, offset) {
            let slot = self.slot_mut(spot);
            slot.tenant = number;
            slot.flags |= PRESENT;
        }
    }

    /// Adds a committed record of a topic of copies: a record that is consumed, and the outcome of the one
    /// that it is a copy of.
    pub fn add_copy(&mut self, part: usize, offset: i64, tenant: &[u8], kind: Outcome, traced: &Traced<'_>) {
        self.add_record(part, offset, tenant);
        let parent = self.add_outcome(kind, traced);
        let Some(spot) = self.parts[part].find_spot(part, offset) else { return };
        let gone =
            |at: Option<RecordPosition<'_>>| at.is_some_and(|at| !self.by_topic.contains_key(at.topic));
        let excused = gone(traced.source) || gone(traced.origin);
        if excused {
            self.slot_mut(spot).flags |= EXCUSED;
        }
        self.parts[part].parents[spot.slot as usize] = parent.unwrap_or(NOWHERE);
    }

    /// Records an outcome. Returns the record that it belongs to, if that is counted.
    pub(super) fn add_outcome(&mut self, kind: Outcome, traced: &Traced<'_>) -> Option<Spot> {
        let Some(source) = &traced.source else {
            self.strays += 1;
            return None;
        };
        match self.locate_record(source) {
            Reach::Noted(spot) => {
                self.record_outcome(spot, kind, traced.index);
                Some(spot)
            }
            Reach::Outside => None,
            // The record in between was deleted after it was taken. The first one may be there still.
            Reach::Gone => match traced.origin.as_ref().map(|origin| self.locate_record(origin)) {
                Some(Reach::Noted(spot)) if traced.origin != traced.source => {
                    let slot = self.slot_mut(spot);
                    if slot.via() == 0 {
                        slot.kinds |= (kind as i32 as u8) << 4;
                    }
                    Some(spot)
                }
                _ => {
                    self.strays += 1;
                    None
                }
            },
        }
    }

    /// Adds an outcome that is no record of a consumed topic: a published report, a dead letter, or an end
    /// that only the ledger records.
    pub fn add_end(&mut self, kind: Outcome, traced: &Traced<'_>) {
        self.add_outcome(kind, traced);
    }

    /// Adds the end of a record that was passed on to this topic of another cell.
    pub fn add_passed_on(&mut self, topic: &str, traced: &Traced<'_>) {
        if self.add_outcome(Outcome::PassedOn, traced).is_some() {
            *self.passed_to.entry(topic.to_owned()).or_default() += 1;
        }
    }

    fn record_outcome(&mut self, spot: Spot, kind: Outcome, index: Option<(u32, u32)>) {
        let number = (kind as i32 as u8).min(HIGHEST);
        let slot = self.slot_mut(spot);
        let before = slot.kind();
        let Some((index, count)) = index else {
            if before == 0 {
                slot.kinds |= number;
            } else {
                *self.surplus.entry(spot).or_default() += 1;
            }
            return;
        };
        if index >= count || count > REPORTS_PER_RECORD_LIMIT {
            let at = self.format_spot(spot);
            self.contradictions.push(format!("{at}: an outcome is for report {index} of {count}"));
            return;
        }
        if before != 0 && before != ARRAY {
            *self.surplus.entry(spot).or_default() += 1;
            return;
        }
        slot.kinds |= ARRAY;
        let array = self.arrays.entry(spot).or_insert_with(|| Array {
            count,
            seen: vec![0; count.div_ceil(64) as usize],
            kinds: [0; KINDS],
        });
        if array.count != count {
            let other = array.count;
            let at = self.format_spot(spot);
            self.contradictions.push(format!("{at}: outcomes speak of {other} and of {count} reports"));
            return;
        }
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if array.seen[word] & bit == 0 {
            array.seen[word] |= bit;
            array.kinds[usize::from(number)] += 1;
        } else {
            *self.surplus.entry(spot).or_default() += 1;
        }
    }

    /// Adds a transaction's account of one partition.
    pub fn add_account(&mut self, topic: &str, partition: i32, taken: Taken) {
        if let Some(part) = self.by_topic.get(topic).and_then(|places| places.get(&partition)) {
            self.taken.entry(*part).or_default().push(taken);
        }
    }

    /// Adds a record of the ledger that cannot be read.
    pub fn add_unreadable(&mut self, partition: i32, offset: i64) {
        self.contradictions.push(format!("the ledger's record {partition}@{offset} cannot be read"));
    }

    /// Sets the first offset that the log holds after everything was read. Records deleted in between are not
    /// audited.
    pub fn begins_now(&mut self, part: usize, start: i64) {
        let part = &mut self.parts[part];
        part.extent.start = part.extent.start.max(start);
        let gone = usize::try_from(start - part.extent.from).unwrap_or(0).min(part.slots.len());
        for slot in &mut part.slots[..gone] {
            if !slot.is_present() {
                *slot = RecordState::default();
            }
        }
    }

    pub(super) fn format_spot(&self, spot: Spot) -> String {
        let part = &self.parts[spot.part as usize];
        format!("{}/{}@{}", part.extent.topic, part.extent.partition, part.offset_at(spot.slot))
    }
}
