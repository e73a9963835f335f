//! Rates of public keys: of a key, of an address, and the share of a tenant's rate that all its public keys have.

use crate::store::CallerKey;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use unslide_api::feature::Api;
use unslide_api::problem::{Kind, Problem};
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
/// The longest retry delay that a refusal names, in seconds.
const MAX_RETRY_SECONDS: u64 = 3_600;

/// The rates of one process.
#[derive(Default)]
pub struct IngestLimits {
    keys: TokenBuckets<String>,
    tenants: TokenBuckets<TenantId>,
    /// By a hash with a salt of this process, so that no address is kept.
    addresses: TokenBuckets<u64>,
    salt: RandomState,
}

impl IngestLimits {
    /// Takes a request of an address, which is a whole /64 of IPv6.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
    pub fn take_request(&self, api: &Api, address: IpAddr) -> Result<(), Problem> {
        let network = match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
            address @ IpAddr::V4(_) => address,
        };
        let rate = Rate::with_burst(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS);
        let now = api.clock.monotonic_micros();
        let hash = self.salt.hash_one(network);
        let wait = self.addresses.with_bucket(hash, rate, now, |bucket| {
            (!bucket.try_take(rate, now, 1.0)).then(|| bucket.wait_micros(rate, now, 1.0))
        });
        wait.map_or(Ok(()), |micros| Err(rate_problem("requests from this address", micros)))
    }

    /// Takes reports of a key.
    ///
    /// # Errors
    /// [`Kind::RateLimited`].
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

fn rate_problem(things: &str, micros: i64) -> Problem {
    let seconds = micros.max(1).unsigned_abs().div_ceil(1_000_000).min(MAX_RETRY_SECONDS);
    let detail = format!("too many {things}, retry after {seconds} s");
    Problem::new(Kind::RateLimited, detail).retry_after(u32::try_from(seconds).unwrap_or(u32::MAX))
}
