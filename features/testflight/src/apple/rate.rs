//! The limits of requests that answers name.

use http::HeaderMap;
use std::time::Duration;
use unslide_runtime::egress;

/// The part of the requests of an hour, in percent, that is left to others with the same key.
const LEFT_TO_OTHERS_PERCENT: u64 = 10;
/// The longest pause that an answer can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The requests of an hour, as `X-Rate-Limit` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub limit: u64,
    pub remaining: u64,
}

impl RateLimit {
    /// Reads `user-hour-lim:3500;user-hour-rem:500;`. Other pairs are skipped. Returns None if one of the two is absent.
    pub fn from_headers(headers: &HeaderMap) -> Option<RateLimit> {
        let text = headers.get("x-rate-limit")?.to_str().ok()?;
        let find = |name: &str| {
            let pairs = text.split(';').filter_map(|pair| pair.split_once(':'));
            let (_, value) = pairs.into_iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
            value.trim().parse().ok()
        };
        Some(RateLimit { limit: find("user-hour-lim")?, remaining: find("user-hour-rem")? })
    }

    /// Returns true if the remaining requests are for others.
    pub fn is_used_up(self) -> bool {
        self.remaining.saturating_mul(100) <= self.limit.saturating_mul(LEFT_TO_OTHERS_PERCENT)
    }
}

/// Reads `Retry-After` in seconds, at most an hour.
pub fn read_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = egress::read_retry_after(headers)?;
    Some(Duration::from_secs(seconds).clamp(Duration::from_secs(1), LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), http::HeaderValue::from_static(value))])
    }

    #[test]
    fn a_tenth_of_the_requests_is_left_to_others() {
        let read = |text| RateLimit::from_headers(&headers("x-rate-limit", text));
        let limit = read("user-hour-lim:3500;user-hour-rem:500;").unwrap();
        assert_eq!(limit, RateLimit { limit: 3_500, remaining: 500 });
        assert!(!limit.is_used_up() && RateLimit { remaining: 350, ..limit }.is_used_up());
        assert!(read("other:1; User-Hour-Rem: 3 ;user-hour-lim:3600").unwrap().is_used_up());
        assert_eq!(read("user-hour-lim:3500;").or(read("nothing")).or(read("user-hour-rem:x")), None);
        assert_eq!(RateLimit::from_headers(&HeaderMap::new()), None);
    }

    #[test]
    fn a_pause_is_between_a_second_and_an_hour() {
        let read = |text| read_retry_after(&headers("retry-after", text)).map(|pause| pause.as_secs());
        assert_eq!(
            [read("30"), read("0"), read("99999"), read("soon")],
            [Some(30), Some(1), Some(3_600), None]
        );
    }
}
