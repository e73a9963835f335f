//! Enriched reports: stored once each, however often they come, with everything that is derived
//! from them in the same transaction.

mod delete;
mod duplicates;
mod keys;
mod rollups;
mod rows;
mod waits;

pub use delete::delete;
pub(crate) use keys::{KeyRow, lock_known};
#[cfg(test)]
pub(crate) use waits::record_in_steps;
pub(crate) use waits::{newer_of_system, newer_than_seen, system_since};

use crate::outbox::Need;
use crate::reprocess::{self, Ends};
use crate::requests::{self, Ask};
use crate::{Result, TenantTx, Uuid, wakes};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::{ContentHash, DebugId, ReportId};

/// An enriched report, read from the output topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// The report's id, as the report says.
    pub report_id: ReportId,
    /// SHA-256 of the report without our keys: tells a second copy from another report of that id.
    pub content_hash: ContentHash,
    /// From 1.
    pub revision: u32,
    /// The broker's time. Of a report's first arrival it is kept; later ones don't count.
    pub received_at: OffsetDateTime,
    /// The enriched JSON as [`unslide_proto::body::compress`] makes it.
    pub body: Vec<u8>,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// What is asked for in queries.
    pub facts: Facts,
    /// The images that a frame refers to, each debug id once.
    pub images: Vec<ImageUse>,
    /// The first record of the report's history.
    pub origin: Option<Origin>,
    /// The W3C trace context that the report travels under.
    pub traceparent: Option<String>,
}

/// What a report says of itself, for lists and filters. Texts are the device's words: they are cut
/// to a bound and freed of NULs when they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Bundle identifier; empty where unknown.
    pub app: String,
    /// `CFBundleShortVersionString`; empty where unknown.
    pub version: String,
    /// `CFBundleVersion`; empty where unknown.
    pub build: String,
    /// The crash's type, such as `mach`; empty where unknown.
    pub kind: String,
    /// `complete`, `partial` or `none`.
    pub status: String,
    /// The device's claim of when it crashed.
    pub device_time: Option<OffsetDateTime>,
    /// What tells devices apart, at most 32 bytes.
    pub device: Option<Vec<u8>>,
    /// The operating system's name.
    pub os_name: Option<String>,
    /// The operating system's version.
    pub os_version: Option<String>,
    /// The operating system's build.
    pub os_build: Option<String>,
    /// The machine, such as `iPhone16,1`.
    pub model: Option<String>,
    /// The process's name.
    pub process: Option<String>,
    /// The reason in one line.
    pub reason: Option<String>,
    /// More for a list: exception, signal, top frames. At most 16 KiB are kept.
    pub summary: serde_json::Value,
    /// How the frames ended.
    pub frames: Frames,
}

/// How a report's frames ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// All of them.
    pub total: u32,
    /// Answered by symbols.
    pub symbolicated: u32,
    /// Answered by the device.
    pub device: u32,
    /// Without symbols.
    pub missing: u32,
}

/// An image that a frame of a report refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The image.
    pub debug_id: DebugId,
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: String,
    /// It is a system image.
    pub system: bool,
    /// Its symbols were found.
    pub found: bool,
    /// Its symbols are there and could not be fetched.
    pub failed: bool,
    /// The generation that answered; 0 for none.
    pub seen_generation: u64,
}

/// The first record of a report's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Which report of the record this is, from 0, where it held several.
    pub index: i32,
}

/// Whether a stored report may ask for a better one at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// It may.
    Now,
    /// Later revisions may follow in the log: note the question, and ask what is still open with
    /// [`requests::ask_pending`] when the log's end is reached. The clock that asks for what could not be
    /// fetched begins then too.
    Deferred,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored: the first revision that the store has of the report.
    New,
    /// Stored in the place of an earlier revision.
    Revised,
    /// A later arrival of the same batch has taken its place already.
    Superseded,
    /// This revision or a later one is there: nothing was done.
    Duplicate,
    /// The report was deleted: nothing was done.
    Deleted,
    /// Older than reports are kept: nothing was done but remembering it.
    Expired,
}

/// What became of an arrival, and under which identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What became of it.
    pub outcome: Outcome,
    /// 0 for the first report of this id; another one's place among those of the same id.
    pub variant: u32,
    /// The revision that was asked for, where newer symbols exist.
    pub requested: Option<u32>,
}

/// A report that changes: its key, and the first and the last arrival that were accepted.
pub(crate) struct Change<'a> {
    key: KeyRow,
    arrival: &'a Arrival,
    came: &'a Arrival,
    place: usize,
    previous: Option<rows::Previous>,
}

impl<'a> Change<'a> {
    /// The images that a new report came without symbols for, also where the batch brings the next
    /// revision with it: how the log is cut into batches must not show.
    fn wanted(&self) -> impl Iterator<Item = &'a ImageUse> + use<'a> {
        self.came.images.iter().filter(|image| !image.found)
    }
}

#[cfg(test)]
impl<'a> Change<'a> {
    /// A report that comes for the first time, its key locked.
    pub(crate) async fn first(tx: &mut TenantTx, arrival: &'a Arrival) -> Result<Change<'a>> {
        let wanted = [(arrival.report_id, arrival.content_hash, arrival.received_at)];
        let key = keys::lock(tx, &wanted).await?[0];
        Ok(Change { key, arrival, came: arrival, place: 0, previous: None })
    }
}

/// Stores a tenant's arrivals, in the order of their offsets, and says what became of each. Day
/// partitions have to exist (see [`crate::partitions`]); what arrived before `keep_from` is not
/// stored.
///
/// Rows are locked in one order everywhere: keys by id, slots by debug id, roll-ups by their keys.
///
/// # Errors
/// Where the database fails.
pub async fn store<A: Borrow<Arrival> + Sync>(
    tx: &mut TenantTx,
    arrivals: &[A],
    effects: Effects,
    keep_from: Option<OffsetDateTime>,
) -> Result<Vec<Stored>> {
    let arrivals: Vec<&Arrival> = arrivals.iter().map(Borrow::borrow).collect();
    let mut groups: BTreeMap<(ReportId, ContentHash), Vec<usize>> = BTreeMap::new();
    for (place, arrival) in arrivals.iter().enumerate() {
        groups.entry((arrival.report_id, arrival.content_hash)).or_default().push(place);
    }
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    // Before any row, so that it is never waited for by one whom others wait for.
    wakes::system::hold_publishers(tx).await?;
    let mut groups: Vec<((ReportId, ContentHash), Vec<usize>)> = groups.into_iter().collect();
    groups.sort_by_key(|((id, _), places)| (*id, places[0]));
    let wanted: Vec<_> =
        groups.iter().map(|((id, hash), places)| (*id, *hash, arrivals[places[0]].received_at)).collect();
    let keys = keys::lock(tx, &wanted).await?;
    let duplicate = Stored { outcome: Outcome::Duplicate, variant: 0, requested: None };
    let mut stored = vec![duplicate; arrivals.len()];
    let mut changes = Vec::new();
    let mut remembered = Vec::new();
    // Where each report came from first, as far as this batch knows.
    let mut firsts: BTreeMap<(ReportId, u32), &Origin> = BTreeMap::new();
    for (key, (_, places)) in keys.into_iter().zip(groups) {
        let expired = keep_from.is_some_and(|from| key.received_at < from);
        let mut latest = key.latest_revision;
        let (mut earliest, mut last): (Option<usize>, Option<usize>) = (None, None);
        let first = places.iter().map(|place| arrivals[*place]).find(|arrival| arrival.revision == 1);
        if let Some(origin) = first.and_then(|arrival| arrival.origin.as_ref()) {
            firsts.insert(key.place(), origin);
        }
        for place in places {
            let newer = arrivals[place].revision > latest;
            stored[place].variant = key.variant;
            stored[place].outcome = match newer {
                _ if key.deleted => Outcome::Deleted,
                true if expired => Outcome::Expired,
                true if key.latest_revision == 0 => Outcome::New,
                true => Outcome::Revised,
                false => Outcome::Duplicate,
            };
            if newer && !key.deleted {
                latest = arrivals[place].revision;
                earliest.get_or_insert(place);
                if let Some(earlier) = last.replace(place) {
                    stored[earlier].outcome = Outcome::Superseded;
                }
            }
        }
        if let Some(place) = last {
            if expired {
                remembered.push((key, latest));
            } else {
                let came = arrivals[earliest.unwrap_or(place)];
                changes.push(Change { key, arrival: arrivals[place], came, place, previous: None });
            }
        }
    }
    let gone = rows::read_previous(tx, &mut changes).await?;
    for change in gone {
        stored[change.place].outcome = Outcome::Expired;
        remembered.push((change.key, change.arrival.revision));
    }
    rows::write(tx, &changes).await?;
    let needs = waits::record(tx, &changes).await?;
    let deferred = effects == Effects::Deferred;
    let advanced: Vec<keys::Advance> = changes
        .iter()
        .zip(&needs)
        .map(|(change, needs)| {
            let retry = waits::unfetched(change);
            keys::Advance {
                report_id: change.key.report_id,
                variant: change.key.variant,
                revision: change.arrival.revision,
                ask_pending: deferred && !(needs.is_empty() && retry.is_empty()),
                retry,
                origin: firsts.get(&change.key.place()).copied(),
            }
        })
        .chain(remembered.iter().map(|(key, revision)| keys::Advance {
            report_id: key.report_id,
            variant: key.variant,
            revision: *revision,
            ask_pending: false,
            retry: Vec::new(),
            origin: firsts.get(&key.place()).copied(),
        }))
        .collect();
    keys::advance(tx, &advanced).await?;
    let advanced_keys: Vec<(KeyRow, u32)> = changes
        .iter()
        .map(|change| (change.key, change.arrival.revision))
        .chain(remembered.clone())
        .collect();
    duplicates::note(tx, &arrivals, &stored).await?;
    rollups::record(tx, &changes).await?;
    if !deferred {
        let asks: Vec<(usize, Ask)> = changes
            .iter()
            .zip(needs)
            .filter(|(_, needs)| !needs.is_empty())
            .map(|(change, needs)| (change.place, ask(&change.key, change.arrival.revision, needs)))
            .collect();
        let (places, asks): (Vec<usize>, Vec<Ask>) = asks.into_iter().unzip();
        for (place, revision) in places.into_iter().zip(requests::place(tx, &asks).await?) {
            stored[place].requested = revision;
        }
    }
    let mut ends: BTreeMap<Uuid, Ends> = BTreeMap::new();
    for (key, revision) in advanced_keys {
        if let Some(id) = key.reprocess.filter(|_| revision >= key.requested_revision) {
            ends.entry(id).or_default().better += 1;
        }
    }
    reprocess::count_ends(tx, &ends).await?;
    Ok(stored)
}

fn ask(key: &KeyRow, revision: u32, needs: Vec<Need>) -> Ask {
    Ask {
        report_id: key.report_id,
        variant: key.variant,
        latest_revision: revision,
        requested_revision: key.requested_revision,
        // A request that this revision answers is over.
        requested_at: key.requested_at.filter(|_| key.requested_revision > revision),
        needs,
    }
}
