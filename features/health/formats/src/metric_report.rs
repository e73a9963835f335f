//! Reads `MetricReport` of MetricKit since iOS 27, as `JSONEncoder` writes it: by interval, or by the domains of states.
//!
//! Sources: Apple, "MetricReport", and reports of devices with iOS 27. Numbers have units that do not depend on the device's
//! language.

use super::MetricName;
use super::name::is_countable;
use super::samples::{MOST_BUCKETS, PayloadBuilder, Sample};
use super::sent_item::whole_count;
use super::termination_counts::read_ends;
use serde_json::Value;
use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The values of a period, with the names of their members. Several of one metric are added up.
const TOTALS: [(&str, &str, MetricName); 12] = [
    ("cpuTimeMetric", "value", MetricName::CpuTime),
    ("gpuTimeMetric", "value", MetricName::GpuTime),
    ("totalForegroundTimeMetric", "value", MetricName::ForegroundTime),
    ("totalBackgroundTimeMetric", "value", MetricName::BackgroundTime),
    ("peakMemoryMetric", "value", MetricName::PeakMemory),
    ("logicalDiskWritesMetric", "value", MetricName::DiskWrites),
    ("totalWiFiUploadMetric", "value", MetricName::Upload),
    ("totalCellularUploadMetric", "value", MetricName::Upload),
    ("totalWiFiDownloadMetric", "value", MetricName::Download),
    ("totalCellularDownloadMetric", "value", MetricName::Download),
    ("hitchTimeMetric", "ratio", MetricName::HitchRatio),
    ("metalFrameRateMetric", "framesPerSecond", MetricName::FrameRate),
];
const HISTOGRAMS: [(&str, MetricName); 4] = [
    ("timeToFirstDrawMetric", MetricName::LaunchTime),
    ("optimizedTimeToFirstDrawMetric", MetricName::PrewarmedLaunchFirstFrame),
    ("applicationResumeTimeMetric", MetricName::ResumeTime),
    ("hangTimeMetric", MetricName::HangTime),
];
/// Metrics that are not counted. The sender learns that they are not read.
const NOT_COUNTED: [&str; 1] = ["extendedLaunchMetric"];
/// Counts of ends, and whether the app was on the screen.
const ENDS: [(&str, bool); 2] =
    [("foregroundTerminationMetric", true), ("backgroundTerminationMetric", false)];
/// States of a report that are read.
const STATES_LIMIT: usize = 200;
/// Characters of a state.
const STATE_CHARS_LIMIT: usize = 200;
/// Apple's symbols of units, if ours differ.
const SYMBOLS: [(&str, &str); 6] =
    [("ms per s", "ms/s"), ("Hz", "fps"), ("\u{b5}s", "us"), ("\u{3bc}s", "us"), ("hr", "h"), ("KB", "kB")];
/// The seconds from 1970 to 2001, where Swift's dates begin.
const SWIFT_EPOCH: f64 = 978_307_200.0;
/// Numbers from which a date counts seconds or milliseconds since 1970.
const FIRST_UNIX_SECONDS: f64 = 1.2e9;
const FIRST_UNIX_MILLISECONDS: f64 = 1e11;
const LAST_SECONDS: f64 = 1e10;

/// Returns true for a metric report.
pub(super) fn is_report(json: &Value) -> bool {
    json.get("id").is_none()
        && (json.get("intervalEntries").is_some()
            || json.get("stateEntries").is_some() && json.get("timeRange").is_some())
}

/// Returns true for a diagnostic, which is a report and no payload of metrics.
pub(super) fn is_diagnostic(json: &Value) -> bool {
    let is_kind = |key: &String| key.ends_with("Diagnostic") || key.ends_with("Diagnostics");
    json.get("id").is_none() && json.as_object().is_some_and(|members| members.keys().any(is_kind))
}

/// Returns a text of the report's environment, by the name that older payloads have for it.
pub(super) fn find_text<'p>(report: &'p Value, key: &str) -> Option<Cow<'p, str>> {
    let environment = report.get("environment")?;
    let text = |key: &str| environment.get(key).and_then(Value::as_str).map(Cow::Borrowed);
    match key {
        "appVersion" => text("latestApplicationVersion").or_else(|| text("applicationVersion")),
        "appBuildVersion" => text("applicationBuildVersion"),
        "osVersion" => {
            let part = |key: &str| environment.get("osVersion")?.get(key)?.as_str();
            let build = part("buildNumber").map(|build| format!("({build})"));
            let words = [part("platform"), part("number"), build.as_deref()];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            (!words.is_empty()).then(|| Cow::Owned(words.join(" ")))
        }
        key => text(key),
    }
}

/// Returns the end of the report's period.
pub(super) fn read_end(report: &Value) -> Option<OffsetDateTime> {
    let end = report.get("timeRange")?.get("end")?;
    if let Some(text) = end.as_str() {
        return OffsetDateTime::parse(text, &Rfc3339).ok();
    }
    let seconds = match end.as_f64()? {
        millis if millis >= FIRST_UNIX_MILLISECONDS => millis / 1e3,
        seconds if seconds >= FIRST_UNIX_SECONDS => seconds,
        seconds => seconds + SWIFT_EPOCH,
    };
    #[expect(clippy::cast_possible_truncation, reason = "checked")]
    let seconds = (0.0..LAST_SECONDS).contains(&seconds).then_some(seconds as i64)?;
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

/// Reads the entry of the longest interval, which is the whole day, and those of states, which are parts of it. Shorter intervals are parts
/// of it, too.
pub(super) fn read_metrics(report: &Value, into: &mut PayloadBuilder) {
    let entries =
        report.get("intervalEntries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let seconds = |entry: &Value| {
        entry
            .get("duration")
            .and_then(|duration| convert(duration, MetricName::ForegroundTime))
            .unwrap_or(0.0)
    };
    let longest = entries.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    for entry in list_state_entries(report) {
        let before = into.samples.len();
        read_values(entry, into);
        into.move_to_state(before, state_name(entry).as_deref());
    }
    let Some(entry) = longest else { return };
    for (name, metric) in metrics_of(entry) {
        if let Some((_, foreground)) = ENDS.iter().find(|(known, _)| *known == name) {
            read_ends(metric, *foreground, name, into);
        }
    }
    read_values(entry, into);
}

/// Lists the entries of states: a list, or an object with a list for each domain.
fn list_state_entries(report: &Value) -> impl Iterator<Item = &Value> {
    let entries = report.get("stateEntries");
    let listed = entries.and_then(Value::as_array).into_iter().flatten();
    let by_domain = entries.and_then(Value::as_object).into_iter().flat_map(serde_json::Map::values);
    listed.chain(by_domain.filter_map(Value::as_array).flatten()).take(STATES_LIMIT)
}

/// Returns the domain and the label of an entry's state.
fn state_name(entry: &Value) -> Option<String> {
    let text = |key: &str| entry.get("state")?.get(key)?.as_str().filter(|text| !text.is_empty());
    let name = format!("{}: {}", text("domain")?, text("label")?);
    Some(name.chars().filter(|c| *c != '\0').take(STATE_CHARS_LIMIT).collect())
}

/// Reads the values of one entry.
fn read_values(entry: &Value, into: &mut PayloadBuilder) {
    let values = metrics_of(entry);
    let find_all =
        |name: &str| values.iter().filter(|(known, _)| *known == name).map(|(_, metric)| *metric).collect();
    let mut totals: Vec<(MetricName, f64)> = Vec::new();
    for (name, member, metric) in TOTALS {
        let found: Vec<&Value> = find_all(name);
        for one in found {
            let Some(value) = one.get(member).and_then(|value| convert(value, metric)) else {
                into.unread.record(&format!("{name}.{member}"));
                continue;
            };
            match totals.iter_mut().find(|(known, _)| *known == metric) {
                // Each layer of Metal has its own frame rate.
                Some(_) if metric == MetricName::FrameRate => {
                    into.add_sample(Sample { metric, value, count: 1 });
                }
                Some((_, total)) => *total += value,
                None => totals.push((metric, value)),
            }
        }
    }
    for (metric, value) in totals {
        into.add_sample(Sample { metric, value, count: 1 });
    }
    for (name, metric) in HISTOGRAMS {
        let found: Vec<&Value> = find_all(name);
        for one in found {
            match read_histogram(one, metric).filter(|samples| into.add_samples(samples)) {
                Some(_) => into.measured_of(metric),
                None => into.unread.record(&format!("{name}.histogram")),
            }
        }
    }
    for name in NOT_COUNTED {
        if values.iter().any(|(known, _)| *known == name) {
            into.unread.record(name);
        }
    }
}

/// Returns the metrics of an entry with their names: a list of objects with one member each.
fn metrics_of(entry: &Value) -> Vec<(&str, &Value)> {
    let values = entry.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let members = values.iter().filter_map(Value::as_object).flatten();
    members.map(|(name, metric)| (name.as_str(), metric)).collect()
}

/// Converts `{value, unit}` to the unit of a metric.
fn convert(measured: &Value, metric: MetricName) -> Option<f64> {
    let unit = measured.get("unit")?;
    let symbol = unit.as_str().or_else(|| unit.get("symbol")?.as_str())?;
    let symbol = SYMBOLS.iter().find(|(apples, _)| *apples == symbol).map_or(symbol, |(_, ours)| *ours);
    let value = measured.get("value")?.as_f64()? * metric.unit().conversion_factor(symbol)?;
    is_countable(value).then_some(value)
}

/// Reads a histogram's buckets, each with its middle. Returns `None` if one of them is not understood.
fn read_histogram(one: &Value, metric: MetricName) -> Option<Vec<Sample>> {
    let buckets = one.get("histogram")?.get("buckets")?.as_array()?;
    let read = |bucket: &Value| {
        let bound = |key: &str| convert(bucket.get(key)?, metric);
        let value = f64::midpoint(bound("lowerBound")?, bound("upperBound")?);
        Some(Sample { metric, value, count: whole_count(bucket.get("count")?)? })
    };
    if buckets.len() > MOST_BUCKETS {
        return None;
    }
    buckets.iter().map(read).collect()
}

#[cfg(test)]
mod tests;
