//! Downloads of tenants: how many begin in a second.

use unslide_api::feature::path_keys::rate_problem;
use unslide_api::problem::Problem;
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBuckets};

/// Files that a tenant downloads in a second, and seconds' worth of them at once: a debugger asks for every image of a
/// process when it starts, and again for each that is missing.
const DOWNLOADS_PER_SECOND: f64 = 20.0;
const DOWNLOAD_BURST_SECONDS: f64 = 60.0;

/// The rates of one process.
#[derive(Default)]
pub struct DownloadRates(TokenBuckets<TenantId>);

impl DownloadRates {
    /// Takes a download of a tenant, also one of a file that does not exist, at `now`, in microseconds of the monotonic
    /// clock.
    ///
    /// # Errors
    /// [`Kind::RateLimited`](unslide_api::problem::Kind::RateLimited).
    pub fn take_download(&self, now: i64, tenant: &TenantId) -> Result<(), Problem> {
        let rate = Rate::with_burst(DOWNLOADS_PER_SECOND, DOWNLOAD_BURST_SECONDS);
        let wait = self.0.with_bucket(tenant.clone(), rate, now, |bucket| {
            (!bucket.try_take(rate, now, 1.0)).then(|| bucket.wait_micros(rate, now, 1.0))
        });
        wait.map_or(Ok(()), |micros| Err(rate_problem("symbol files for this tenant", micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_asks_too_often_is_refused_alone() {
        let rates = DownloadRates::default();
        let tenant = |name| TenantId::new(name).unwrap();
        let taken = (0..2_000).filter(|_| rates.take_download(0, &tenant("acme")).is_ok()).count();
        assert_eq!(taken, 1_200);
        assert!(rates.take_download(0, &tenant("umbrella")).is_ok());
        assert!(rates.take_download(1_000_000, &tenant("acme")).is_ok());
    }
}
