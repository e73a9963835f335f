//! Which records of overflow step behind the others of their partition: copied to its end, as they
//! are, so that a tenant far over its rate holds up nobody who comes after it.
//!
//! A copy costs a write, so a partition goes round at a bounded rate, only while something lies behind
//! its first record, and rests in between: shortly where others came through, and for several times as
//! long as the round took where a round found nobody else.

use crate::bucket::{Bucket, Rate};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_stream::RecordRef;

/// So long a partition is held back before it goes round, in microseconds: what is over its rate for a
/// moment costs no copy.
const BEFORE: i64 = 10_000_000;
/// The rest after a round in which nobody else came through, at least.
const ALONE: i64 = 60_000_000;
/// And so many times as long as that round took.
const ALONE_TIMES: i64 = 5;
/// How often it is looked whether something has come behind a record.
const LOOK: i64 = 5_000_000;
/// Offsets behind the last record of a partition: the marker of its transaction.
const MARKER: i64 = 1;
/// How often one record is copied; then its partition waits for it. An audit follows longer chains.
const MOST: u32 = 5_000;

type Place = (Arc<str>, i32);

/// A record that is looked at.
#[derive(Clone, Copy)]
pub struct Seen<'r> {
    /// Where it lies.
    pub at: &'r RecordRef,
    /// Where the record lay that it is a copy of, in the same partition.
    pub copied_from: Option<i64>,
    /// How often it was copied.
    pub copies: u32,
    /// Whose it is.
    pub tenant: &'r TenantId,
    /// Offsets behind it.
    pub behind: i64,
}

/// What a partition does.
enum State {
    /// Undue records hold it back until then.
    Resting { until: i64 },
    /// They step behind the others.
    Round {
        /// The offset of the first: copies of what lies there or behind end the round.
        from: i64,
        since: i64,
        /// Whose record was the first.
        tenant: TenantId,
        /// Somebody else's came through.
        useful: bool,
    },
}

struct Partition {
    state: State,
    copies: Bucket,
    /// When an undue record was seen last.
    seen: i64,
}

#[derive(Default)]
struct Partitions {
    all: HashMap<Place, Partition>,
    /// Records that were polled and are to be copied.
    stepping: HashSet<RecordRef>,
}

/// The partitions of overflow that are this worker's.
pub struct Rotation {
    /// Copies a second of each partition; `None`: none ever.
    rate: Option<Rate>,
    partitions: Mutex<Partitions>,
}

impl Rotation {
    /// Partitions that copy so many records a second, each.
    pub fn new(per_second: u32) -> Rotation {
        let rate = (per_second > 0).then(|| Rate::with_burst(f64::from(per_second), 1.0));
        Rotation { rate, partitions: Mutex::default() }
    }

    /// Other partitions are this worker's now: what is known of them is out of date.
    pub fn assigned(&self) {
        *self.partitions.lock() = Partitions::default();
    }

    /// The record is due.
    pub fn due(&self, seen: Seen<'_>, now: i64) {
        let mut partitions = self.partitions.lock();
        partitions.stepping.remove(seen.at);
        if let Some(partition) = partitions.all.get_mut(&place(seen.at)) {
            partition.end_round(seen, now);
            if let State::Round { tenant, useful, .. } = &mut partition.state {
                *useful |= tenant != seen.tenant;
            }
        }
    }

    /// The record is due in `wait` microseconds: in how many to look at it again, or nothing where it
    /// is to step behind the others.
    pub fn undue(&self, seen: Seen<'_>, wait: i64, now: i64) -> Option<i64> {
        let mut partitions = self.partitions.lock();
        partitions.stepping.remove(seen.at);
        let Some(rate) = self.rate.filter(|_| seen.copies < MOST) else {
            return Some(wait.min(LOOK));
        };
        let new = || Partition::new(rate, now);
        let partition = partitions.all.entry(place(seen.at)).or_insert_with(new);
        if now.saturating_sub(std::mem::replace(&mut partition.seen, now)) > BEFORE + LOOK {
            *partition = Partition::new(rate, now);
        }
        partition.end_round(seen, now);
        if let State::Resting { until } = partition.state {
            if now < until {
                return Some(wait.min(LOOK).min(until - now));
            }
            if seen.behind <= MARKER {
                return Some(wait.min(LOOK));
            }
            let tenant = seen.tenant.clone();
            partition.state = State::Round { from: seen.at.offset, since: now, tenant, useful: false };
        }
        if !partition.copies.take(rate, now) {
            return Some(wait.min(partition.copies.wait(rate, now, (rate.burst / 2.0).max(1.0))));
        }
        partitions.stepping.insert(seen.at.clone());
        None
    }

    /// True where the record was told to step behind the others.
    pub fn is_stepping(&self, at: &RecordRef) -> bool {
        self.partitions.lock().stepping.contains(at)
    }

    /// These records have their outcome.
    pub fn committed<'r>(&self, records: impl Iterator<Item = &'r RecordRef>) {
        let mut partitions = self.partitions.lock();
        for at in records {
            partitions.stepping.remove(at);
        }
    }
}

impl Partition {
    fn new(rate: Rate, now: i64) -> Partition {
        let state = State::Resting { until: now.saturating_add(BEFORE) };
        Partition { state, copies: Bucket::full(rate, now), seen: now }
    }

    /// Ends the round where this record is one that was copied in it.
    fn end_round(&mut self, seen: Seen<'_>, now: i64) {
        let State::Round { from, since, useful, .. } = self.state else { return };
        if seen.copied_from.is_some_and(|offset| offset >= from) {
            let took = now.saturating_sub(since);
            let rest = if useful { BEFORE } else { took.saturating_mul(ALONE_TIMES).max(ALONE) };
            self.state = State::Resting { until: now.saturating_add(rest) };
        }
    }
}

fn place(at: &RecordRef) -> Place {
    (Arc::clone(&at.topic), at.partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// A partition of overflow, and the rotation that looks at its first record.
    struct Bench {
        rotation: Rotation,
        /// Whose each is, from which offset it was copied, and how often.
        log: Vec<(&'static str, Option<i64>, u32)>,
        next: usize,
        now: i64,
    }

    impl Bench {
        fn new(log: &[&'static str]) -> Bench {
            let log = log.iter().map(|tenant| (*tenant, None, 0)).collect();
            Bench { rotation: Rotation::new(10), log, next: 0, now: 0 }
        }

        /// Looks at records for so many seconds, of which only those of `due` are due. Gives who came
        /// through and how many were copied.
        fn go(&mut self, seconds: i64, due: &str) -> (Vec<&'static str>, usize) {
            let (end, mut through, mut copied) = (self.now + seconds * SECOND, Vec::new(), 0);
            while self.now < end && self.next < self.log.len() {
                let (slug, copied_from, copies) = self.log[self.next];
                let at = RecordRef { topic: "over".into(), partition: 3, offset: self.next as i64 };
                let tenant = TenantId::new(slug).unwrap();
                let behind = (self.log.len() - self.next) as i64;
                let seen = Seen { at: &at, copied_from, copies, tenant: &tenant, behind };
                if slug == due {
                    self.rotation.due(seen, self.now);
                    through.push(slug);
                } else if let Some(wait) = self.rotation.undue(seen, 100 * SECOND, self.now) {
                    assert!(wait > 0 && !self.rotation.is_stepping(&at));
                    self.now += wait;
                    continue;
                } else {
                    assert!(self.rotation.is_stepping(&at));
                    self.rotation.committed([&at].into_iter());
                    assert!(!self.rotation.is_stepping(&at));
                    self.log.push((slug, Some(self.next as i64), copies + 1));
                    copied += 1;
                }
                self.next += 1;
            }
            (through, copied)
        }
    }

    #[test]
    fn who_lies_behind_undue_records_comes_through_at_a_bounded_rate_of_copies() {
        let mut log = vec!["noisy"; 100];
        log.push("quiet");
        let mut bench = Bench::new(&log);
        assert_eq!(bench.go(10, "quiet"), (vec![], 0), "it may be over in a moment");
        let (through, copied) = bench.go(10, "quiet");
        assert_eq!((through.len(), copied), (1, 100));
        // Others came through, so that it goes round again after a short rest; nobody is there then.
        let (_, copied) = bench.go(30, "quiet");
        assert_eq!(copied, 100, "once round, and a long rest");
        let (_, copied) = bench.go(600, "quiet");
        assert!(copied <= 1_000, "{copied} copies in ten minutes for nobody");
    }

    #[test]
    fn what_lies_alone_is_never_copied_and_neither_is_anything_where_that_is_off() {
        let mut bench = Bench::new(&["noisy"]);
        assert_eq!(bench.go(600, "quiet").1, 0);
        let mut bench = Bench { rotation: Rotation::new(0), ..Bench::new(&["noisy", "noisy", "quiet"]) };
        assert_eq!(bench.go(600, "quiet"), (vec![], 0));
    }

    #[test]
    fn a_record_is_copied_so_often_and_no_more() {
        let mut bench = Bench::new(&["noisy", "noisy", "quiet"]);
        bench.log[0].2 = MOST;
        assert_eq!(bench.go(600, "quiet"), (vec![], 0));
    }
}
