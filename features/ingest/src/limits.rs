//! Rates of public keys: of a key, of an address, and the share of a tenant's rate that all its public keys have. An
//! excess waits in overflow.

use crate::key::CallerKey;
use unslide_api::feature::Capacity;
use unslide_api::feature::path_keys::AddressRates;
use unslide_model::TenantId;
use unslide_runtime::fairness::{Rate, TokenBucket, TokenBuckets};

/// Reports of one key in a second, and seconds' worth of them at once. An app update or an outage brings a day's reports in
/// minutes: these wait in overflow, and not before the reports of other tenants.
pub const KEY_REPORTS_PER_SECOND: f64 = 100.0;
const KEY_BURST_SECONDS: f64 = 5.0;
/// Unpacked bytes of one key in a day.
const KEY_BYTES_PER_DAY: f64 = 1_073_741_824.0;
const DAY_SECONDS: f64 = 86_400.0;
/// Requests of one address in a second, and seconds' worth of them at once. Carriers put thousands of devices behind one.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 5.0;
const ADDRESS_BURST_SECONDS: f64 = 20.0;
/// The part of a tenant's rate that public keys may use: gateways always keep the rest.
const TENANT_SHARE: f64 = 0.8;
const TENANT_BURST_SECONDS: f64 = 2.0;

/// The rates of one process.
pub struct IngestLimits {
    pub addresses: AddressRates,
    keys: TokenBuckets<String>,
    bytes: TokenBuckets<String>,
    tenants: TokenBuckets<TenantId>,
}

impl Default for IngestLimits {
    fn default() -> IngestLimits {
        IngestLimits {
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
            keys: TokenBuckets::default(),
            bytes: TokenBuckets::default(),
            tenants: TokenBuckets::default(),
        }
    }
}

impl IngestLimits {
    /// Takes reports of a key. Returns false if the key, or all public keys of its tenant, are over their rate.
    pub fn try_take_reports(&self, capacity: &Capacity, key: &CallerKey, reports: usize) -> bool {
        let now = capacity.clock.monotonic_micros();
        let reports = f64::from(u32::try_from(reports).unwrap_or(u32::MAX));
        let limits = [key.limits.units_per_second, capacity.tenants.units_per_second];
        if let Some(limit) = limits.into_iter().find(|limit| *limit > 0) {
            let rate = Rate::with_burst(f64::from(limit) * TENANT_SHARE, TENANT_BURST_SECONDS);
            let take = |bucket: &mut TokenBucket| bucket.try_take(rate, now, reports);
            if !self.tenants.with_bucket(key.tenant.clone(), rate, now, take) {
                return false;
            }
        }
        let rate = Rate::with_burst(KEY_REPORTS_PER_SECOND, KEY_BURST_SECONDS);
        self.keys.with_bucket(key.prefix.clone(), rate, now, |bucket| bucket.try_take(rate, now, reports))
    }

    /// Takes unpacked bytes of a key. Returns false if the key is over its bytes of a day.
    pub fn try_take_bytes(&self, capacity: &Capacity, key: &CallerKey, bytes: u64) -> bool {
        let now = capacity.clock.monotonic_micros();
        let rate = Rate::with_burst(KEY_BYTES_PER_DAY / DAY_SECONDS, DAY_SECONDS);
        #[expect(clippy::cast_precision_loss, reason = "a body has far fewer bytes than 2^52")]
        let bytes = bytes as f64;
        // A bucket admits a cost above its capacity when it is full: such a body waits in overflow, too.
        bytes <= rate.burst
            && self
                .bytes
                .with_bucket(key.prefix.clone(), rate, now, |bucket| bucket.try_take(rate, now, bytes))
    }
}
