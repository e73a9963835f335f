//! A mixture of likelihood ratios against one hypothesis.

use crate::count::to_real;

/// Evidence against a hypothesis: the mean of the likelihood ratios of some alternatives, all with the same weight.
pub struct MixtureEvidence<const N: usize> {
    /// The logarithm of each likelihood ratio.
    logs: [f64; N],
    /// The highest logarithm of the mean so far.
    highest: f64,
}

impl<const N: usize> MixtureEvidence<N> {
    pub fn new() -> MixtureEvidence<N> {
        MixtureEvidence { logs: [0.0; N], highest: 0.0 }
    }

    /// Adds the observations of one day: the logarithms of their likelihood ratios.
    pub fn add_day(&mut self, ratios: [f64; N]) {
        for (sum, ratio) in self.logs.iter_mut().zip(ratios) {
            *sum += ratio;
        }
        self.highest = self.highest.max(log_mean(&self.logs));
    }

    /// Returns true if the hypothesis was rejected on some day: a verdict stays.
    pub fn rejects(&self, error: f64) -> bool {
        self.highest >= -error.ln()
    }

    /// Returns true if more observations with these likelihood ratios would reject the hypothesis.
    pub fn would_reject(&self, more: [f64; N], error: f64) -> bool {
        let mut logs = self.logs;
        for (sum, ratio) in logs.iter_mut().zip(more) {
            *sum += ratio;
        }
        log_mean(&logs) >= -error.ln()
    }
}

/// Returns the logarithm of the mean of numbers with these logarithms.
fn log_mean<const N: usize>(logs: &[f64; N]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let mean = logs.iter().map(|log| (log - largest).exp() / f64::from(u32::try_from(N).unwrap_or(1)));
    largest + mean.sum::<f64>().ln()
}

/// Returns the logarithm of the likelihood ratio of a multiple of a rate to the rate, for the Poisson count of events in some sessions.
pub fn poisson_log_ratio(sessions: u64, events: u64, rate: f64, multiple: f64) -> f64 {
    let gained = if events == 0 { 0.0 } else { to_real(events) * multiple.ln() };
    gained - (multiple - 1.0) * rate * to_real(sessions)
}
