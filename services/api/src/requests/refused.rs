//! Elements of a request that are refused while the others are accepted.
//!
//! A refused element is a record of the topic, too, with the reason in its headers. The reader of the topic makes a dead
//! letter of it, so each element has exactly one outcome.

use bytes::Bytes;
use http::HeaderMap;
use lru::LruCache;
use parking_lot::Mutex;
use serde::Serialize;
use std::num::NonZeroUsize;
use time::Date;
use utoipa::ToSchema;

/// Reason of an element of an app that the key does not cover.
pub const WRONG_APP: &str = "wrong_app";
/// Values of refused elements that are kept for each sender, reason, version and day: a bug in one version of an app must
/// not fill the topic of dead letters.
const MAX_KEPT_VALUES: u32 = 20;
/// The most reasons and versions that are counted. Further values of the one that was counted longest ago are kept again.
const COUNTERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// The most characters of a version that is counted.
const MAX_VERSION_CHARS: usize = 40;

/// An element of a request that was refused while others were accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedElement {
    /// Index of the element in the request, from 0.
    pub index: usize,
    /// Its id, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The reason, a stable word: that of the dead letter.
    #[serde(rename = "type")]
    #[schema(example = "not_json")]
    pub reason: String,
    /// The exact error, for people.
    #[schema(example = "at byte 10: a value expected")]
    pub detail: String,
}

/// Returns true if the client asks that all elements are accepted or none: `Prefer: handling=strict` (RFC 7240 §4.4).
#[must_use]
pub fn wants_all_or_nothing(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|preference| {
        let preference = preference.split(';').next().unwrap_or_default();
        preference.split_once('=').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("handling")
                && value.trim().trim_matches('"').eq_ignore_ascii_case("strict")
        })
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefusalKind {
    /// The tenant, and the sender if it is named.
    sender: String,
    reason: &'static str,
    version: String,
}

#[derive(Clone, Copy, Debug)]
struct DayCount {
    day: Date,
    values: u32,
}

/// Counters of the values that this process kept.
#[derive(Debug)]
pub struct KeptValues(Mutex<LruCache<RefusalKind, DayCount>>);

impl Default for KeptValues {
    fn default() -> KeptValues {
        KeptValues(Mutex::new(LruCache::new(COUNTERS)))
    }
}

impl KeptValues {
    /// Counts a refused element. Returns true if its value is to be kept.
    pub(super) fn try_keep(&self, sender: String, refused: &RefusedValue<'_>, today: Date) -> bool {
        let version = refused.version.unwrap_or_default().chars().take(MAX_VERSION_CHARS).collect();
        let kind = RefusalKind { sender, reason: refused.reason, version };
        let mut counters = self.0.lock();
        let count = counters.get_or_insert_mut(kind, || DayCount { day: today, values: 0 });
        if count.day != today {
            *count = DayCount { day: today, values: 0 };
        }
        count.values = count.values.saturating_add(1);
        count.values <= MAX_KEPT_VALUES
    }
}

/// A refused element, for its record.
#[derive(Clone, Copy, Debug)]
pub struct RefusedValue<'v> {
    /// Its bytes, as they were sent.
    pub bytes: &'v Bytes,
    /// The version of its app, if it can be read.
    pub version: Option<&'v str>,
    /// A stable word, for machines.
    pub reason: &'static str,
    /// The exact error, for people.
    pub detail: &'v str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use time::macros::date;

    #[test]
    fn twenty_values_of_a_reason_and_version_are_kept_a_day() {
        let kept = KeptValues::default();
        let bytes = Bytes::new();
        let (first, second) = (date!(2026 - 11 - 20), date!(2026 - 11 - 21));
        let number = |sender: &str, version: &str, day| {
            let refused =
                RefusedValue { bytes: &bytes, version: Some(version), reason: "not_json", detail: "" };
            (0..30).filter(|_| kept.try_keep(sender.to_owned(), &refused, day)).count()
        };
        assert_eq!(number("a", "1.0", first), 20);
        assert_eq!(number("a", "1.0", first), 0);
        assert_eq!((number("a", "1.1", first), number("b", "1.0", first)), (20, 20));
        assert_eq!(number("a", "1.0", second), 20);
    }

    #[test]
    fn a_preference_for_strict_handling_is_read_in_every_form() {
        let wants = |values: &[&'static str]| {
            let values = values.iter().map(|value| (http::HeaderName::from_static("prefer"), *value));
            let headers: HeaderMap =
                values.map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
            wants_all_or_nothing(&headers)
        };
        for strict in ["handling=strict", "respond-async, Handling = \"strict\"; a=b"] {
            assert!(wants(&[strict]), "{strict}");
        }
        assert!(wants(&["wait=5", "handling=strict"]));
        for other in ["", "handling=lenient", "handling", "strict", "x=handling=strict"] {
            assert!(!wants(&[other]), "{other}");
        }
        assert!(!wants(&[]));
    }
}
