//! Records of the input topic. A refused report is a record too, with the reason in its headers: the symbolizer makes its
//! dead letter, so each report has exactly one outcome.

use crate::store::CallerKey;
use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use time::Date;
use unslide_api::feature::Api;
use unslide_api::feature::intake::{LenientReport, RefusedReport, TraceContext, build_record};
use unslide_proto::headers;
use unslide_stream::OutRecord;

/// Values of refused reports that are kept for each key, reason, version and day: a bug in one version of an app must not
/// fill the topic of dead letters.
const MAX_KEPT_VALUES: u32 = 20;
/// The most reasons and versions that are counted. Further values of the one that was counted longest ago are kept again.
const COUNTERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// The most characters of a detail: a header is carried over copies up to 300 bytes.
const MAX_DETAIL_BYTES: usize = 260;
/// The most characters of a version that is counted.
const MAX_VERSION_CHARS: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefusalKind {
    key: String,
    reason: &'static str,
    version: String,
}

#[derive(Clone, Copy, Debug)]
struct DayCount {
    day: Date,
    values: u32,
}

/// Counters of the values that this process kept.
pub struct KeptValues(Mutex<LruCache<RefusalKind, DayCount>>);

impl Default for KeptValues {
    fn default() -> KeptValues {
        KeptValues(Mutex::new(LruCache::new(COUNTERS)))
    }
}

impl KeptValues {
    /// Counts a refused report. Returns true if its value is to be kept.
    fn try_keep(&self, key: &str, refused: &RefusedReport, today: Date) -> bool {
        let version =
            refused.version.as_deref().unwrap_or_default().chars().take(MAX_VERSION_CHARS).collect();
        let kind = RefusalKind { key: key.to_owned(), reason: refused.reason, version };
        let mut counters = self.0.lock();
        let count = counters.get_or_insert_mut(kind, || DayCount { day: today, values: 0 });
        if count.day != today {
            *count = DayCount { day: today, values: 0 };
        }
        count.values = count.values.saturating_add(1);
        count.values <= MAX_KEPT_VALUES
    }
}

/// Makes the records of one request.
pub struct RecordMaker<'r> {
    /// The api that sends them.
    pub api: &'r Api,
    /// The key of the request.
    pub key: &'r CallerKey,
    /// The trace of the request.
    pub trace: TraceContext,
    /// Counters of the values that this process kept.
    pub kept: &'r KeptValues,
}

impl RecordMaker<'_> {
    /// Returns the record of a report.
    pub fn make_record(&self, report: &LenientReport) -> OutRecord {
        match report {
            LenientReport::Accepted(report) => {
                let record = self.record_of_bytes(&report.bytes);
                match report.id {
                    // Repetitions of one report are in the same partition.
                    Some(id) => record.key(format!("{}/{id}", self.key.tenant)),
                    None => record,
                }
            }
            LenientReport::Refused(refused) => self.refused_record(refused),
        }
    }

    fn refused_record(&self, refused: &RefusedReport) -> OutRecord {
        let bytes = refused.bytes.len();
        let is_kept = bytes <= self.api.limits.report_bytes
            && self.kept.try_keep(&self.key.id, refused, self.api.clock.now().date());
        let value = if is_kept { refused.bytes.clone() } else { Bytes::new() };
        let end = if is_kept { String::new() } else { format!("; its {bytes} bytes are not kept") };
        let start = format!("public key {}: ", self.key.id);
        let room = MAX_DETAIL_BYTES.saturating_sub(start.len() + end.len());
        let detail = format!("{start}{}{end}", cut_text(&refused.detail, room));
        self.record_of_bytes(&value)
            .header(headers::REFUSED_REASON, refused.reason)
            .header(headers::REFUSED_DETAIL, detail)
    }

    fn record_of_bytes(&self, bytes: &Bytes) -> OutRecord {
        let topic = self.api.topics.input.as_str().into();
        build_record(self.api, &self.key.tenant, self.trace, topic, bytes)
    }
}

/// Returns the longest beginning of a text of at most `most` bytes.
fn cut_text(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn twenty_values_of_a_reason_and_version_are_kept_a_day() {
        let kept = KeptValues::default();
        let refused = |version: &str| RefusedReport {
            bytes: Bytes::new(),
            id: None,
            version: Some(version.to_owned()),
            reason: "not_json",
            detail: String::new(),
        };
        let (first, second) = (date!(2026 - 11 - 20), date!(2026 - 11 - 21));
        let number = |key: &str, version: &str, day| {
            (0..30).filter(|_| kept.try_keep(key, &refused(version), day)).count()
        };
        assert_eq!(number("a", "1.0", first), 20);
        assert_eq!(number("a", "1.0", first), 0);
        assert_eq!((number("a", "1.1", first), number("b", "1.0", first)), (20, 20));
        assert_eq!(number("a", "1.0", second), 20);
    }
}
