//! Which faults strike when: everything that a seed decides, before anything runs.

use crate::dice::Dice;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The seed of the short run in `make test`: its plan kills each service, crashes Kafka, stops PostgreSQL for a while, and
/// damages objects. [`SHORT_KINDS`] has all kinds of its faults.
pub const SHORT_SEED: u64 = 1107;
/// The length of the short run.
pub const SHORT_LENGTH: Duration = Duration::from_secs(24);
/// The kinds of faults of the short run. It has no other, so that a change of the plan is seen.
pub const SHORT_KINDS: [&str; 12] = [
    "api: Kill",
    "api: Remove",
    "builder: Kill",
    "builder: Remove",
    "indexer: Freeze",
    "indexer: Kill",
    "kafka: Crash",
    "objects: Truncate",
    "objects: Unreachable",
    "postgres: Freeze",
    "symbolizer: FullDisk",
    "symbolizer: Kill",
];

/// Targets of faults: processes and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A symbolizer, by its number.
    Symbolizer(usize),
    /// An indexer, by its number.
    Indexer(usize),
    /// The builder.
    Builder,
    /// The api.
    Api,
    /// Kafka.
    Kafka,
    /// PostgreSQL.
    Postgres,
    /// The S3 endpoint.
    Objects,
}

impl Target {
    /// Returns the name of the process, if it is one of the service's.
    #[must_use]
    pub fn process_name(self) -> Option<String> {
        match self {
            Target::Symbolizer(number) => Some(format!("symbolizer-{number}")),
            Target::Indexer(number) => Some(format!("indexer-{number}")),
            Target::Builder => Some("builder".to_owned()),
            Target::Api => Some("api".to_owned()),
            Target::Kafka | Target::Postgres | Target::Objects => None,
        }
    }
}

impl Target {
    /// Returns the name that all targets of one kind have.
    #[must_use]
    pub fn kind_name(self) -> &'static str {
        match self {
            Target::Symbolizer(_) => "symbolizer",
            Target::Indexer(_) => "indexer",
            Target::Builder => "builder",
            Target::Api => "api",
            Target::Kafka => "kafka",
            Target::Postgres => "postgres",
            Target::Objects => "objects",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Kafka => f.write_str("kafka"),
            Target::Postgres => f.write_str("postgres"),
            Target::Objects => f.write_str("objects"),
            process => f.write_str(&process.process_name().unwrap_or_default()),
        }
    }
}

/// Kinds of faults of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed, and started again after a while.
    Kill,
    /// The process gets SIGTERM, as when a worker is taken away, and one is added after a while.
    Remove,
    /// The process stands still for a while: long enough that others take its work, or not.
    Freeze,
    /// The server is stopped in order and started again.
    Restart,
    /// The server is killed and started again.
    Crash,
    /// All its connections end at once; new ones are taken.
    Cut,
    /// Its connections end and new ones are refused for a while.
    Unreachable,
    /// Its answers come slowly for a while.
    Slow,
    /// Its requests are answered with errors for a while.
    Errors,
    /// Its requests are answered with 503 for a while, as by a store that wants less load.
    Throttle,
    /// It takes no writes for a while.
    ReadOnly,
    /// Some of its answers end too early for a while.
    Truncate,
    /// Bytes of some of its answers are changed for a while.
    Corrupt,
    /// The disk of the worker's cache is full for a while.
    FullDisk,
    /// Its topics get more partitions.
    AddPartitions,
}

/// A fault at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// When it begins, after the begin of the run.
    pub at: Duration,
    /// How long it lasts; for [`Fault::Cut`] nothing.
    pub lasts: Duration,
    /// The target that it affects.
    pub target: Target,
    /// The kind of the fault.
    pub fault: Fault,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{at:>7.1} s  {:<13} {:?} for {lasts:.1} s", self.target.to_string(), self.fault)
    }
}

/// How many of each service there are, and how long faults go on.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Symbolizers.
    pub symbolizers: usize,
    /// Indexers.
    pub indexers: usize,
    /// From the first fault to the last.
    pub length: Duration,
}

const fn span_seconds(from: u64, to: u64) -> (Duration, Duration) {
    (Duration::from_secs(from), Duration::from_secs(to))
}

/// A fault, its weight among those of its target, and how long it may last.
type Choice = (Fault, u64, (Duration, Duration));

// Longer than the group's session and the transaction's time-out, sometimes.
const SYMBOLIZER: [Choice; 5] = [
    (Fault::Kill, 5, span_seconds(0, 6)),
    (Fault::Remove, 2, span_seconds(0, 12)),
    (Fault::Freeze, 2, span_seconds(1, 5)),
    (Fault::Freeze, 1, span_seconds(18, 25)),
    (Fault::FullDisk, 2, span_seconds(2, 10)),
];
const INDEXER: [Choice; 4] = [
    (Fault::Kill, 5, span_seconds(0, 5)),
    (Fault::Remove, 1, span_seconds(0, 8)),
    (Fault::Freeze, 1, span_seconds(1, 5)),
    (Fault::Freeze, 2, span_seconds(16, 22)),
];
const BUILDER: [Choice; 3] = [
    (Fault::Kill, 4, span_seconds(0, 5)),
    (Fault::Remove, 1, span_seconds(0, 5)),
    (Fault::Freeze, 1, span_seconds(1, 10)),
];
const API: [Choice; 2] = [(Fault::Kill, 3, span_seconds(0, 3)), (Fault::Remove, 1, span_seconds(0, 3))];
const KAFKA: [Choice; 6] = [
    (Fault::Cut, 4, span_seconds(0, 0)),
    (Fault::Unreachable, 2, span_seconds(1, 6)),
    (Fault::Freeze, 2, span_seconds(1, 8)),
    (Fault::Restart, 1, span_seconds(0, 1)),
    (Fault::Crash, 3, span_seconds(0, 1)),
    (Fault::AddPartitions, 2, span_seconds(0, 0)),
];
const POSTGRES: [Choice; 6] = [
    (Fault::Cut, 4, span_seconds(0, 0)),
    (Fault::Unreachable, 2, span_seconds(1, 8)),
    (Fault::Freeze, 2, span_seconds(1, 8)),
    (Fault::ReadOnly, 2, span_seconds(2, 8)),
    (Fault::Restart, 1, span_seconds(0, 1)),
    (Fault::Crash, 2, span_seconds(0, 1)),
];
const OBJECT_STORAGE_CHOICES: [Choice; 9] = [
    (Fault::Cut, 2, span_seconds(0, 0)),
    (Fault::Unreachable, 2, span_seconds(1, 8)),
    // Longer than the time limits of requests, sometimes.
    (Fault::Freeze, 1, span_seconds(1, 25)),
    (Fault::Crash, 1, span_seconds(0, 3)),
    (Fault::Slow, 2, span_seconds(2, 8)),
    (Fault::Errors, 2, span_seconds(1, 8)),
    (Fault::Throttle, 2, span_seconds(2, 20)),
    (Fault::Truncate, 2, span_seconds(2, 8)),
    (Fault::Corrupt, 3, span_seconds(2, 10)),
];

/// Returns the faults that may affect a target, and the shortest and longest quiet time between two of them.
fn find_choices(target: Target) -> (&'static [Choice], (Duration, Duration)) {
    match target {
        Target::Symbolizer(_) => (&SYMBOLIZER, span_seconds(6, 30)),
        Target::Indexer(_) => (&INDEXER, span_seconds(8, 35)),
        Target::Builder => (&BUILDER, span_seconds(8, 40)),
        Target::Api => (&API, span_seconds(15, 60)),
        Target::Kafka => (&KAFKA, span_seconds(15, 50)),
        Target::Postgres => (&POSTGRES, span_seconds(12, 40)),
        Target::Objects => (&OBJECT_STORAGE_CHOICES, span_seconds(5, 20)),
    }
}

/// The faults of a seed, in the order of their times. Those of one target never overlap; each
/// target has one early enough to be struck in a short run, unless the run has only seconds.
#[must_use]
pub fn plan_strikes(dice: &mut Dice, scale: &Scale) -> Vec<Strike> {
    let mut targets: Vec<Target> = (0..scale.symbolizers).map(Target::Symbolizer).collect();
    targets.extend((0..scale.indexers).map(Target::Indexer));
    targets.extend([Target::Builder, Target::Api, Target::Kafka, Target::Postgres, Target::Objects]);
    let mut strikes = Vec::new();
    for target in targets {
        // Each target's faults stay as they are whatever becomes of the others.
        let mut dice = dice.fork_stream();
        let (choices, (shortest, longest)) = find_choices(target);
        let early = (scale.length / 3).min(longest);
        let mut at = dice.time_between(Duration::from_secs(1).min(early), early);
        loop {
            let (fault, (from, to)) = choose_fault(&mut dice, choices);
            let lasts = dice.time_between(from, to);
            if at + lasts > scale.length {
                break;
            }
            strikes.push(Strike { at, lasts, target, fault });
            at += lasts + dice.time_between(shortest, longest);
        }
    }
    strikes.sort_by_key(|strike| (strike.at, strike.target));
    strikes
}

/// Returns the kinds of faults of a plan, each once, such as `kafka: Crash`.
#[must_use]
pub fn list_kinds(strikes: &[Strike]) -> BTreeSet<String> {
    strikes.iter().map(|strike| format!("{}: {:?}", strike.target.kind_name(), strike.fault)).collect()
}

fn choose_fault(dice: &mut Dice, choices: &[Choice]) -> (Fault, (Duration, Duration)) {
    let total = choices.iter().map(|(_, weight, _)| weight).sum();
    let mut left = dice.number_below(total);
    for (fault, weight, span) in choices {
        if left < *weight {
            return (*fault, *span);
        }
        left -= weight;
    }
    (choices[0].0, choices[0].2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SCALE: Scale = Scale { symbolizers: 3, indexers: 2, length: Duration::from_secs(300) };

    #[test]
    fn a_seed_gives_one_plan_in_which_no_target_is_struck_twice_at_once() {
        for seed in 0..200 {
            let strikes = plan_strikes(&mut Dice::new(seed), &SCALE);
            assert_eq!(strikes, plan_strikes(&mut Dice::new(seed), &SCALE));
            let mut free: BTreeMap<Target, Duration> = BTreeMap::new();
            for strike in &strikes {
                assert!(strike.at >= free.get(&strike.target).copied().unwrap_or_default(), "{strike}");
                assert!(strike.at + strike.lasts <= SCALE.length, "{strike}");
                free.insert(strike.target, strike.at + strike.lasts);
            }
            assert_eq!(free.len(), 10, "every target is struck");
        }
    }

    #[test]
    fn the_short_run_has_the_kinds_of_faults_that_it_names() {
        let scale = Scale { length: SHORT_LENGTH, ..SCALE };
        // As the run does.
        let strikes = plan_strikes(&mut Dice::new(SHORT_SEED).fork_stream(), &scale);
        assert_eq!(list_kinds(&strikes), SHORT_KINDS.map(str::to_owned).into());
    }

    #[test]
    fn some_seed_has_every_fault() {
        let all: std::collections::BTreeSet<(String, Fault)> = (0..50)
            .flat_map(|seed| plan_strikes(&mut Dice::new(seed), &SCALE))
            .map(|strike| (strike.target.to_string(), strike.fault))
            .collect();
        for (target, faults) in [
            ("symbolizer-0", SYMBOLIZER.as_slice()),
            ("indexer-1", &INDEXER),
            ("builder", &BUILDER),
            ("api", &API),
            ("kafka", &KAFKA),
            ("postgres", &POSTGRES),
            ("objects", &OBJECT_STORAGE_CHOICES),
        ] {
            for (fault, ..) in faults {
                assert!(all.contains(&(target.to_owned(), *fault)), "{target} {fault:?}");
            }
        }
    }
}
