//! Whether a version does better or worse than the one before it, or whether chance explains the difference.

use super::{DEVIATIONS, shares_differ};
use unslide_model::QuantileSketch;
use utoipa::ToSchema;

/// Independent observations that must lie on each side of a quantile before its change is reported.
const LEAST_BESIDE: f64 = 5.0;
/// Steps after which a share is known to less than a millionth.
const BISECTIONS: u32 = 20;

unslide_model::words! {
    /// The verdict on a change from one version to the next.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum ChangeVerdict {
        /// Better, by more than chance explains.
        Better = "better",
        /// Worse, by more than chance explains.
        Worse = "worse",
        /// Chance explains it.
        WithinNoise = "within_noise",
    }
}

impl ChangeVerdict {
    fn judge(significant: bool, rose: bool, more_is_better: bool) -> ChangeVerdict {
        match (significant, rose == more_is_better) {
            (false, _) => ChangeVerdict::WithinNoise,
            (true, true) => ChangeVerdict::Better,
            (true, false) => ChangeVerdict::Worse,
        }
    }
}

/// Sums of the observations of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSums {
    /// Observations, each multiplied by its weight.
    pub observations: f64,
    /// Those of them that failed.
    pub failed: f64,
    /// The sum of the squares of what each payload added to the observations.
    pub squares: f64,
    /// True if some of the payloads have a weight of more than 1.
    pub sampled: bool,
    /// The distribution of the values.
    pub sketch: QuantileSketch,
}

impl MetricSums {
    /// Adds the sums of another version or day.
    pub fn merge(&mut self, other: &MetricSums) {
        self.observations += other.observations;
        self.failed += other.failed;
        self.squares += other.squares;
        self.sampled |= other.sampled;
        self.sketch.merge(&other.sketch);
    }

    /// Returns how many independent observations there are at least (Kish's effective size). Observations
    /// that one device sends together are alike and count as one, and sampled ones count as often as they
    /// arrived.
    #[must_use]
    pub fn independent(&self) -> f64 {
        if self.squares > 0.0 { self.observations * self.observations / self.squares } else { 0.0 }
    }

    /// Returns the share that failed; `None` without observations.
    #[must_use]
    pub fn failed_share(&self) -> Option<f64> {
        (self.observations > 0.0).then(|| self.failed / self.observations)
    }

    /// Returns those that failed, and all, as far as they are independent.
    fn failed_of_independent(&self) -> (f64, f64) {
        let all = self.independent();
        (self.failed_share().unwrap_or(0.0) * all, all)
    }

    /// Compares the share that failed with that before: the two-proportion z-test at 1 %.
    #[must_use]
    pub fn failed_change(&self, before: &MetricSums) -> Option<ChangeVerdict> {
        let (now, then) = (self.failed_share()?, before.failed_share()?);
        let significant = shares_differ(self.failed_of_independent(), before.failed_of_independent());
        Some(ChangeVerdict::judge(significant, now > then, false))
    }

    /// Returns the share of failed ones beyond which a change that is within noise would be told as worse.
    #[must_use]
    pub fn failed_worse_beyond(&self, before: &MetricSums) -> Option<f64> {
        let is_noise = self.failed_change(before)? == ChangeVerdict::WithinNoise;
        let (all, before) = (self.independent(), before.failed_of_independent());
        if is_noise { worse_beyond_share(all, before, false) } else { None }
    }

    /// Compares a quantile with that before: it differs if their 99 % confidence intervals have no value in
    /// common.
    #[must_use]
    pub fn quantile_change(
        &self,
        before: &MetricSums,
        share: f64,
        more_is_better: bool,
    ) -> Option<ChangeVerdict> {
        let (now, then) = (self.quantile_interval(share)?, before.quantile_interval(share)?);
        let rose = now.0 > then.1;
        Some(ChangeVerdict::judge(rose || now.1 < then.0, rose, more_is_better))
    }

    /// Returns the interval of a quantile with a confidence of 99 %: the values at the ranks that a binomial
    /// distribution gives, made wider by the error of the sketch. An end beyond the observations is open, and
    /// both ends are open if there are fewer than five on one side of the quantile. `None` without values.
    fn quantile_interval(&self, share: f64) -> Option<(f64, f64)> {
        let independent = self.independent();
        if independent * share.min(1.0 - share) < LEAST_BESIDE {
            return self.sketch.quantile(share).map(|_| (0.0, f64::INFINITY));
        }
        let deviation = DEVIATIONS * (share * (1.0 - share) / independent).sqrt();
        let (low, high) = (share - deviation, share + deviation);
        let at = |share: f64| self.sketch.quantile(share);
        let low = if low > 0.0 { at(low)? / (1.0 + QuantileSketch::RELATIVE_ERROR) } else { 0.0 };
        let high =
            if high < 1.0 { at(high)? / (1.0 - QuantileSketch::RELATIVE_ERROR) } else { f64::INFINITY };
        at(share).map(|_| (low, high))
    }
}

/// Compares a share of counted things with that before: the two-proportion z-test at 1 %.
#[must_use]
pub fn share_change(now: (f64, f64), before: (f64, f64), more_is_better: bool) -> Option<ChangeVerdict> {
    if now.1 <= 0.0 || before.1 <= 0.0 {
        return None;
    }
    let rose = now.0 / now.1 > before.0 / before.1;
    Some(ChangeVerdict::judge(shares_differ(now, before), rose, more_is_better))
}

/// Returns the share of `all` beyond which it would be told as worse than before. Returns `None` if not even the worst share would.
#[must_use]
pub fn worse_beyond_share(all: f64, before: (f64, f64), more_is_better: bool) -> Option<f64> {
    if all <= 0.0 || before.1 <= 0.0 {
        return None;
    }
    let is_told = |share: f64| shares_differ((share * all, all), before);
    let (mut noise, mut told) = (before.0 / before.1, if more_is_better { 0.0 } else { 1.0 });
    if !is_told(told) {
        return None;
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(noise, told);
        if is_told(middle) {
            told = middle;
        } else {
            noise = middle;
        }
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangeVerdict::{Better, WithinNoise, Worse};

    /// One observation of each payload, around `middle`, each of which stands for `weight`.
    fn sums(payloads: u32, middle: f64, weight: f64, failed: f64) -> MetricSums {
        let mut sketch = QuantileSketch::default();
        for n in 0..payloads {
            let spread = 0.5 + f64::from(n) / f64::from(payloads);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small and positive"
            )]
            sketch.add_value(middle * spread, (1_000.0 * weight) as u64);
        }
        let observations = f64::from(payloads) * weight;
        MetricSums {
            observations,
            failed: observations * failed,
            squares: observations * weight,
            sampled: weight > 1.0,
            sketch,
        }
    }

    #[test]
    fn a_quantile_changes_where_the_intervals_have_nothing_in_common() {
        let before = sums(1_000, 800.0, 1.0, 0.0);
        for share in [0.05, 0.5, 0.95] {
            let change = |now: &MetricSums, more| now.quantile_change(&before, share, more);
            assert_eq!(change(&sums(1_000, 1_600.0, 1.0, 0.0), false), Some(Worse));
            assert_eq!(change(&sums(1_000, 400.0, 1.0, 0.0), false), Some(Better));
            assert_eq!(change(&sums(1_000, 1_600.0, 1.0, 0.0), true), Some(Better));
            assert_eq!(change(&sums(1_000, 805.0, 1.0, 0.0), false), Some(WithinNoise));
            assert_eq!(change(&sums(4, 1_600.0, 1.0, 0.0), false), Some(WithinNoise), "too few to tell");
            assert_eq!(change(&MetricSums::default(), false), None);
        }
    }

    #[test]
    fn what_stands_for_many_is_no_more_certain() {
        let (few, many) = (sums(4, 1_600.0, 1_000.0, 0.2), sums(4_000, 1_600.0, 1.0, 0.2));
        assert!((few.observations - many.observations).abs() < 1e-6);
        assert!((few.independent() - 4.0).abs() < 1e-6 && (many.independent() - 4_000.0).abs() < 1e-6);
        let before = sums(1_000, 800.0, 1.0, 0.1);
        let changes =
            |now: &MetricSums| (now.quantile_change(&before, 0.5, false), now.failed_change(&before));
        assert_eq!(changes(&few), (Some(WithinNoise), Some(WithinNoise)));
        assert_eq!(changes(&many), (Some(Worse), Some(Worse)));
    }

    #[test]
    fn a_share_changes_where_there_is_enough_to_tell() {
        assert_eq!(share_change((9_800.0, 10_000.0), (9_900.0, 10_000.0), true), Some(Worse));
        assert_eq!(share_change((9_900.0, 10_000.0), (9_800.0, 10_000.0), true), Some(Better));
        assert_eq!(share_change((98.0, 100.0), (99.0, 100.0), true), Some(WithinNoise));
        assert_eq!(share_change((0.0, 0.0), (99.0, 100.0), true), None);
        assert_eq!(sums(10_000, 1.0, 1.0, 0.01).failed_change(&sums(10_000, 1.0, 1.0, 0.02)), Some(Better));
    }

    /// The bound is found by trying every number of crashes.
    #[test]
    fn the_share_that_would_be_told_as_worse_is_the_first_that_is() {
        let before = (714.0, 721.0);
        for all in [100, 843, 10_000] {
            let bound = worse_beyond_share(f64::from(all), before, true).unwrap();
            let is_worse = |crashed: i32| {
                share_change((f64::from(all - crashed), f64::from(all)), before, true) == Some(Worse)
            };
            let first = (0..all).find(|crashed| is_worse(*crashed)).unwrap();
            let share = |crashed: i32| f64::from(all - crashed) / f64::from(all);
            assert!(share(first) <= bound && bound <= share(first - 1), "{all}: {bound} {first}");
        }
        assert_eq!(worse_beyond_share(1.0, (1.0, 1.0), true), None, "one session tells nothing");
        assert_eq!(worse_beyond_share(0.0, before, true), None);
        let failing = worse_beyond_share(1_000.0, (10.0, 1_000.0), false).unwrap();
        assert!(failing > 0.01 && failing < 0.04, "{failing}");
        let (now, then) = (sums(1_000, 1.0, 1.0, 0.01), sums(1_000, 1.0, 1.0, 0.01));
        let told = now.failed_worse_beyond(&then).unwrap();
        assert!((told - failing).abs() < 1e-4, "{told}");
        assert_eq!(sums(1_000, 1.0, 1.0, 0.5).failed_worse_beyond(&then), None, "it is worse");
    }

    /// Both draw from the same distribution: chance makes a difference of more than noise only rarely.
    #[test]
    fn the_same_distribution_is_rarely_told_as_changed() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(u32::MAX >> 1)
        };
        let mut draw = || {
            let mut sums = MetricSums { observations: 300.0, squares: 300.0, ..MetricSums::default() };
            (0..300).for_each(|_| sums.sketch.add_value(100.0 * (2.0 * random()).exp(), 1_000));
            sums
        };
        let told =
            (0..500).filter(|_| draw().quantile_change(&draw(), 0.5, false) != Some(WithinNoise)).count();
        assert!(told <= 5, "{told} of 500");
    }
}
