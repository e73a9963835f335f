//! Crashes that several reports tell of, whichever comes first: the corpus of `docs/grouping.md`.

use crate::reports::{self, Arrival, CrashTeller};
use crate::tests::database::{Database, arrival, start};
use crate::{Uuid, partitions};
use sqlx::Row;
use std::collections::{BTreeMap, BTreeSet};
use time::Duration;
use unslide_model::{ContentHash, ReportId};

/// The seeds of the corpus.
const SEEDS: [u64; 3] = [7, 1_107, 90_001];
const CRASHES: u64 = 60;

/// A generator of numbers that repeats itself.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A crash as it happened.
#[derive(Clone, Copy)]
struct Crash {
    number: u64,
    /// The boot of the device: it decides where the system's libraries lie.
    boot: u64,
    version: u64,
    pid: u64,
    slide: u64,
    /// Seconds after the start of the corpus.
    at: i64,
    /// Whether the system tells MetricKit the id of the process.
    names_pid: bool,
}

impl Crash {
    fn identity(self) -> Uuid {
        Uuid::from_u128(
            u128::from(self.boot) << 96
                | u128::from(self.version) << 64
                | u128::from(self.pid) << 32
                | u128::from(self.slide),
        )
    }

    fn run(self) -> Uuid {
        Uuid::from_u128(0xA000 + u128::from(self.number))
    }

    /// Returns a report of it. The one with number `place` of its reports.
    fn report(self, place: u64, id: u64, teller: Option<CrashTeller>) -> Arrival {
        let mut arrival = arrival(1);
        arrival.report_id = ReportId(u128::from(id).to_be_bytes());
        let content = u128::from(self.number) << 64 | u128::from(place);
        let mut hash = [0; 32];
        hash[..16].copy_from_slice(&content.to_be_bytes());
        arrival.content_hash = ContentHash(hash);
        arrival.received_at = start() + Duration::seconds(i64::try_from(place).unwrap());
        let facts = &mut arrival.facts;
        facts.version = format!("1.{}", self.version);
        facts.device_time = Some(start() + Duration::seconds(self.at));
        facts.teller = teller;
        facts.metric_kit = teller == Some(CrashTeller::MetricKit);
        facts.process_identity = Some(self.identity());
        arrival
    }

    /// Returns what is told of it, in the order of the tellers. Some reports of a crash are missing.
    fn tellings(self, random: &mut Random) -> Vec<Arrival> {
        let id = 1_000 + self.number * 10;
        let mut told = Vec::new();
        let mut handler = self.report(0, id, None);
        handler.facts.run_id = Some(self.run());
        // The same report again at the next launch, with more in it.
        let mut again = self.report(1, id, None);
        again.facts.run_id = Some(self.run());
        let mut signal = self.report(2, id + 1, None);
        (signal.facts.run_id, signal.facts.is_second_handler) = (Some(self.run()), true);
        let mut old_kit = self.report(3, id + 2, Some(CrashTeller::MetricKit));
        let mut new_kit = self.report(4, id + 3, Some(CrashTeller::MetricKit));
        // The payload of older systems has the end of its period.
        old_kit.facts.device_time = Some(start() + Duration::DAY);
        for kit in [&mut old_kit, &mut new_kit] {
            kit.facts.process_identity = kit.facts.process_identity.filter(|_| self.names_pid);
        }
        let mut log = self.report(5, id + 4, Some(CrashTeller::Log));
        // A clock that was set right after the crash.
        if random.next(4) == 0 {
            log.facts.device_time = log.facts.device_time.map(|at| at + Duration::HOUR);
        }
        // The log that a tester sent has the same incident and other bytes.
        let mut sent = self.report(6, id + 4, Some(CrashTeller::Log));
        sent.facts.device_time = log.facts.device_time;
        let corpse = self.report(7, id + 5, Some(CrashTeller::Corpse));
        for report in [handler, again, signal, old_kit, new_kit, log, sent, corpse] {
            if random.next(5) < 3 {
                told.push(report);
            }
        }
        told
    }
}

/// Crashes that are easily taken for each other: devices that crash in a loop, twice in a minute, and in two versions.
fn crashes(random: &mut Random) -> Vec<Crash> {
    let mut crashes: Vec<Crash> = Vec::new();
    for number in 0..CRASHES {
        let fresh = Crash {
            number,
            boot: random.next(1 << 20),
            version: random.next(3),
            pid: 300 + random.next(9_000),
            slide: random.next(1 << 14),
            at: i64::try_from(random.next(80_000)).unwrap(),
            names_pid: random.next(20) > 0,
        };
        let crash = match (crashes.last(), random.next(4)) {
            // The same device a few seconds later: another process, at another place.
            (Some(last), 0) => Crash { boot: last.boot, version: last.version, at: last.at + 5, ..fresh },
            // The same process id and place after a restart of the device.
            (Some(last), 1) => Crash { pid: last.pid, slide: last.slide, at: last.at + 60, ..fresh },
            // After an update of the app, with the same process id.
            (Some(last), 2) => Crash { boot: last.boot, pid: last.pid, version: last.version + 7, ..fresh },
            _ => fresh,
        };
        crashes.push(crash);
    }
    crashes
}

/// Every pair of reports that count as one crash is one, and nearly all pairs of a crash count as one. The counts are those of the
/// stored reports.
#[tokio::test]
async fn one_crash_counts_once_however_many_tell_of_it_and_two_count_twice() {
    let (mut right, mut wrong, mut missed) = (0_u64, 0_u64, 0_u64);
    for seed in SEEDS {
        let database = Database::new().await;
        let mut random = Random(seed);
        let mut all: Vec<(u64, Arrival)> = Vec::new();
        for crash in crashes(&mut random) {
            all.extend(crash.tellings(&mut random).into_iter().map(|report| (crash.number, report)));
        }
        let crash_of: BTreeMap<[u8; 32], u64> =
            all.iter().map(|(crash, report)| (report.content_hash.0, *crash)).collect();
        // In any order, in batches of any size.
        for last in (1..all.len()).rev() {
            let other = usize::try_from(random.next(last as u64 + 1)).unwrap();
            all.swap(last, other);
        }
        let mut rest: Vec<Arrival> = all.into_iter().map(|(_, report)| report).collect();
        while !rest.is_empty() {
            let size = 1 + usize::try_from(random.next(40)).unwrap();
            let batch = rest.split_off(rest.len().saturating_sub(size));
            database.store(&batch).await;
            reports::count_once(&database.store, 10).await.unwrap();
        }
        // The order in which pairs are found decides nothing: another check finds nothing to change.
        while reports::count_once(&database.store, 10).await.unwrap() > 0 {}
        let found = clusters(&database, &crash_of).await;
        for (place, (crash, cluster)) in found.iter().enumerate() {
            for (other_crash, other_cluster) in &found[..place] {
                match (crash == other_crash, cluster == other_cluster) {
                    (true, true) => right += 1,
                    (false, true) => wrong += 1,
                    (true, false) => missed += 1,
                    (false, false) => {}
                }
            }
        }
        let counted = found.iter().map(|(_, cluster)| cluster).collect::<BTreeSet<_>>().len();
        let reports = database.number("SELECT sum(reports)::bigint FROM app_days").await;
        assert_eq!(reports, i64::try_from(counted).unwrap());
        let in_groups = database.number("SELECT sum(reports)::bigint FROM group_day_counts").await;
        assert_eq!(in_groups, reports);
        // The best telling counts.
        let worse = "SELECT count(*) FROM reports w JOIN reports c ON c.tenant = w.tenant AND c.report_id = w.same_crash_as
                         AND c.same_crash_as IS NULL AND c.report_id <> w.report_id
                     WHERE array_position(ARRAY['corpse', 'handler', 'log', 'metric_kit'], w.teller)
                         < array_position(ARRAY['corpse', 'handler', 'log', 'metric_kit'], c.teller)";
        assert_eq!(database.number(worse).await, 0);
    }
    let recall = right * 1_000 / (right + missed);
    assert_eq!(wrong, 0, "of {right} pairs");
    assert!(recall >= 950, "{right} pairs of {} are found", right + missed);
}

/// A log may come weeks after MetricKit's report: by hand, or from a tester.
#[tokio::test]
async fn a_late_log_joins_a_report_of_metric_kit_and_none_of_the_handler() {
    let crash =
        |number| Crash { number, boot: number, version: 1, pid: 300, slide: 7, at: 0, names_pid: true };
    let told = |number: u64, id, teller, days| {
        let mut told = crash(number).report(id, id, Some(teller));
        told.received_at = start() - Duration::days(days);
        told
    };
    let database = Database::new().await;
    let first = (start() - Duration::days(31)).date();
    partitions::ensure_partitions(&database.store, first, start().date()).await.unwrap();
    let reports = [
        told(1, 1, CrashTeller::MetricKit, 20),
        told(1, 2, CrashTeller::Log, 0),
        told(2, 3, CrashTeller::Handler, 20),
        told(2, 4, CrashTeller::Log, 0),
        told(3, 5, CrashTeller::MetricKit, 31),
        told(3, 6, CrashTeller::Log, 0),
    ];
    let crash_of =
        reports.iter().map(|report| (report.content_hash.0, u64::from(report.report_id.0[15]))).collect();
    for report in &reports {
        database.store(std::slice::from_ref(report)).await;
        reports::count_once(&database.store, 10).await.unwrap();
    }
    let mut joined: Vec<u64> = Vec::new();
    let found = clusters(&database, &crash_of).await;
    for (report, (counted, _)) in found {
        if counted.as_u128() != u128::from(report) {
            joined.push(report);
        }
    }
    assert_eq!(joined, [1], "the log counts, which is the better telling");
}

/// Returns the crash of each stored report, and the report that counts for it.
async fn clusters(database: &Database, crash_of: &BTreeMap<[u8; 32], u64>) -> Vec<(u64, (Uuid, i32))> {
    let rows = database
        .rows("SELECT k.content_hash, r.report_id, r.variant, r.same_crash_as FROM reports r JOIN report_keys k USING (tenant, report_id, variant)")
        .await;
    let mut counted: BTreeMap<Uuid, i32> = BTreeMap::new();
    for row in &rows {
        if row.get::<Option<Uuid>, _>(3).is_none() {
            assert_eq!(counted.insert(row.get(1), row.get(2)), None, "two variants of one id count");
        }
    }
    rows.iter()
        .map(|row| {
            let hash: [u8; 32] = row.get::<Vec<u8>, _>(0).try_into().unwrap();
            let id = row.get::<Option<Uuid>, _>(3).unwrap_or_else(|| row.get(1));
            (crash_of[&hash], (id, counted[&id]))
        })
        .collect()
}
