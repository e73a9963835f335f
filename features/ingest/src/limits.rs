//! Rates of public keys: of a key, of an address, and the share of a tenant's rate that all its public keys have.

use crate::store::CallerKey;
use unslide_api::feature::Api;
use unslide_api::feature::path_keys::{AddressRates, rate_problem};
use unslide_api::problem::Problem;
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBuckets};

/// Reports of one key in a second, and seconds' worth of them at once: an app update or an outage brings a day's reports
/// in minutes.
const KEY_REPORTS_PER_SECOND: f64 = 100.0;
const KEY_BURST_SECONDS: f64 = 300.0;
/// Requests of one address in a second, and seconds' worth of them at once. Carriers put thousands of devices behind one.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 5.0;
const ADDRESS_BURST_SECONDS: f64 = 120.0;
/// The part of a tenant's rate that public keys may use: gateways always keep the rest.
const TENANT_SHARE: f64 = 0.8;
const TENANT_BURST_SECONDS: f64 = 2.0;

/// The rates of one process.
pub struct IngestLimits {
    pub addresses: AddressRates,
    keys: TokenBuckets<String>,
    tenants: TokenBuckets<TenantId>,
}

impl Default for IngestLimits {
    fn default() -> IngestLimits {
        IngestLimits {
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
            keys: TokenBuckets::default(),
            tenants: TokenBuckets::default(),
        }
    }
}

impl IngestLimits {
    /// Takes reports of a key.
    ///
    /// # Errors
    /// [`Kind::RateLimited`](unslide_api::problem::Kind::RateLimited).
    pub fn take_reports(&self, api: &Api, key: &CallerKey, reports: usize) -> Result<(), Problem> {
        let now = api.clock.monotonic_micros();
        let reports = f64::from(u32::try_from(reports).unwrap_or(u32::MAX));
        let limits = [key.limits.units_per_second, api.tenants.units_per_second];
        if let Some(limit) = limits.into_iter().find(|limit| *limit > 0) {
            let rate = Rate::with_burst(f64::from(limit) * TENANT_SHARE, TENANT_BURST_SECONDS);
            let wait = self.tenants.with_bucket(key.tenant.clone(), rate, now, |bucket| {
                (!bucket.try_take(rate, now, reports))
                    .then(|| bucket.wait_micros(rate, now, reports.min(rate.burst)))
            });
            if let Some(micros) = wait {
                return Err(rate_problem("reports for this tenant's public keys", micros));
            }
        }
        let rate = Rate::with_burst(KEY_REPORTS_PER_SECOND, KEY_BURST_SECONDS);
        let wait = self.keys.with_bucket(key.id.clone(), rate, now, |bucket| {
            (!bucket.try_take(rate, now, reports)).then(|| bucket.wait_micros(rate, now, reports))
        });
        wait.map_or(Ok(()), |micros| Err(rate_problem("reports for this key", micros)))
    }
}
