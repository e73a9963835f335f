//! A queue of reports before one machine, which takes them in batches, as a lane and an indexer do. Times are in seconds.

/// Reports of one simulation. Its p99 rests on the last one percent of them.
const SIMULATED_REPORTS: usize = 200_000;
/// Reports at the start that do not count: the queue is empty before them.
const WARM_UP_REPORTS: usize = SIMULATED_REPORTS / 10;

/// One machine of a stage and its load.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Reports that arrive in a second.
    pub reports_per_second: f64,
    /// Time of a report.
    pub service_seconds: f64,
    /// Time of a batch, whatever its number of reports: the commit.
    pub batch_seconds: f64,
    /// The most reports of a batch.
    pub batch_reports: usize,
    /// Time that a batch which is not full waits for more, from the arrival of its first report.
    pub gather_seconds: f64,
}

/// Result of a simulation: seconds from the arrival of a report until its batch is committed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

impl Machine {
    /// Returns the reports that the machine finishes in a second while enough wait.
    pub fn capacity(&self) -> f64 {
        let batch = self.batch_reports.max(1) as f64;
        batch / (self.batch_seconds + batch * self.service_seconds)
    }

    /// Returns the used part of the machine's capacity; 1 and more if reports pile up.
    pub fn utilization(&self) -> f64 {
        self.reports_per_second / self.capacity()
    }

    /// Returns the seconds until a backlog is gone that piled up during an outage of `seconds`, while reports go on to
    /// arrive. `None` if it never is.
    pub fn catch_up_seconds(&self, seconds: f64) -> Option<f64> {
        let free = self.capacity() - self.reports_per_second;
        (free > 0.0).then(|| self.reports_per_second * seconds / free)
    }

    /// Simulates random, independent arrivals. The machine takes what waits whenever it is free. The same machine has
    /// the same result each time. `None` if reports pile up.
    pub fn simulate(&self) -> Option<Latency> {
        if self.utilization() >= 1.0 {
            return None;
        }
        let mut random = Random(1);
        let mut arrival = 0.0;
        let arrivals: Vec<f64> = (0..SIMULATED_REPORTS)
            .map(|_| {
                arrival -= random.next_fraction().ln() / self.reports_per_second;
                arrival
            })
            .collect();
        let mut latencies = Vec::with_capacity(SIMULATED_REPORTS);
        let mut free_at = 0.0_f64;
        while let [first, ..] = &arrivals[latencies.len()..] {
            let most = latencies.len() + self.batch_reports.max(1);
            let full_at = arrivals.get(most - 1).copied().unwrap_or(f64::INFINITY);
            let start = free_at.max(full_at.min(first + self.gather_seconds));
            let waiting = &arrivals[latencies.len()..most.min(SIMULATED_REPORTS)];
            let batch = &waiting[..waiting.partition_point(|arrived| *arrived <= start)];
            free_at = start + self.batch_seconds + self.service_seconds * batch.len() as f64;
            latencies.extend(batch.iter().map(|arrived| free_at - arrived));
        }
        let mut counted = latencies.split_off(WARM_UP_REPORTS);
        counted.sort_by(f64::total_cmp);
        let at = |share: f64| counted[(counted.len() as f64 * share) as usize];
        Some(Latency { p50: at(0.5), p99: at(0.99) })
    }
}

/// A sequence of numbers that look random and are the same in each run (`SplitMix64`).
struct Random(u64);

impl Random {
    /// Returns a number above 0, at most 1.
    fn next_fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(reports_per_second: f64) -> Machine {
        Machine {
            reports_per_second,
            service_seconds: 0.001,
            batch_seconds: 0.0,
            batch_reports: 1,
            gather_seconds: 0.0,
        }
    }

    /// The median and the p99 of the wait in an M/D/1 queue have no short formula. Its mean has: Pollaczek and Khinchine.
    /// At half load the mean time is 1.5 services, and the median lies below the mean.
    #[test]
    fn a_queue_without_batches_is_as_long_as_queueing_theory_says() {
        let half = machine(500.0).simulate().unwrap();
        assert!((0.001..0.0015).contains(&half.p50), "{half:?}");
        // P(wait > t) of M/D/1 decays as e^(-1.256 t) at half load: 1 % at about 3.4 services, and the service itself.
        assert!((0.0038..0.0052).contains(&half.p99), "{half:?}");
        let busy = machine(900.0).simulate().unwrap();
        assert!(busy.p99 > 4.0 * half.p99, "{busy:?}");
        assert_eq!(machine(1_000.0).simulate(), None, "reports pile up");
        assert_eq!(machine(500.0).simulate(), Some(half), "each run has the same result");
    }

    #[test]
    fn a_batch_shares_its_commit_among_its_reports() {
        let alone = Machine { batch_seconds: 0.005, ..machine(300.0) };
        assert_eq!(alone.simulate(), None, "166 reports/s with a commit each");
        let batched = Machine { batch_reports: 200, ..alone };
        assert!((batched.capacity() - 200.0 / 0.205).abs() < 1e-6);
        let latency = batched.simulate().unwrap();
        assert!((0.006..0.02).contains(&latency.p50) && latency.p99 < 0.04, "{latency:?}");
        let gathering = Machine { gather_seconds: 0.1, ..batched }.simulate().unwrap();
        assert!((0.05..0.2).contains(&gathering.p50), "a batch waits for its reports: {gathering:?}");
    }

    #[test]
    fn a_backlog_goes_as_fast_as_the_free_capacity() {
        assert_eq!(machine(500.0).catch_up_seconds(600.0), Some(600.0));
        assert_eq!(machine(750.0).catch_up_seconds(600.0), Some(1_800.0));
        assert_eq!(machine(1_000.0).catch_up_seconds(600.0), None);
    }
}
