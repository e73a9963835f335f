//! Rates of the addresses that send requests with keys in paths.

use super::rate_problem;
use crate::problem::Problem;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use unslide_runtime::fairness::{Rate, TokenBuckets};

/// Requests by address in one process.
pub struct AddressRates {
    /// By a hash with a salt of this process, so that no address is kept.
    buckets: TokenBuckets<u64>,
    salt: RandomState,
    rate: Rate,
}

impl AddressRates {
    /// Allows each address this many requests a second, and `burst_seconds` worth of them at once.
    #[must_use]
    pub fn new(requests_per_second: f64, burst_seconds: f64) -> AddressRates {
        AddressRates {
            buckets: TokenBuckets::default(),
            salt: RandomState::default(),
            rate: Rate::with_burst(requests_per_second, burst_seconds),
        }
    }

    /// Takes a request of an address, which is a whole /64 of IPv6, at `now`, in microseconds of the monotonic clock.
    ///
    /// # Errors
    /// [`Kind::RateLimited`](crate::problem::Kind::RateLimited).
    pub fn take_request(&self, now: i64, address: IpAddr) -> Result<(), Problem> {
        let network = match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
            address @ IpAddr::V4(_) => address,
        };
        let (rate, hash) = (self.rate, self.salt.hash_one(network));
        let wait = self.buckets.with_bucket(hash, rate, now, |bucket| {
            (!bucket.try_take(rate, now, 1.0)).then(|| bucket.wait_micros(rate, now, 1.0))
        });
        wait.map_or(Ok(()), |micros| Err(rate_problem("requests from this address", micros)))
    }
}
