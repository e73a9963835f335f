//! Reads `MXMetricPayload.jsonRepresentation()`. Its keys are not documented. These are the ones that devices
//! with iOS 13 to 15 have sent, and `hitchTimeRatio` from the code of the framework. Values are texts in the
//! device's language, see [`super::measurement`].

use super::MetricName;
use super::measurement::parse_measurement_in_unit;
use super::samples::{MOST_BUCKETS, PayloadBuilder, Sample};
use super::sent_item::whole_count;
use super::termination_counts::read_ends;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_report::device_clock_time;

/// The values of a period, with their keys. Several of one metric are added up.
const TOTALS: [(&str, &str, MetricName); 12] = [
    ("cpuMetrics", "cumulativeCPUTime", MetricName::CpuTime),
    ("gpuMetrics", "cumulativeGPUTime", MetricName::GpuTime),
    ("applicationTimeMetrics", "cumulativeForegroundTime", MetricName::ForegroundTime),
    ("applicationTimeMetrics", "cumulativeBackgroundTime", MetricName::BackgroundTime),
    ("memoryMetrics", "peakMemoryUsage", MetricName::PeakMemory),
    ("diskIOMetrics", "cumulativeLogicalWrites", MetricName::DiskWrites),
    ("networkTransferMetrics", "cumulativeWifiUpload", MetricName::Upload),
    ("networkTransferMetrics", "cumulativeCellularUpload", MetricName::Upload),
    ("networkTransferMetrics", "cumulativeWifiDownload", MetricName::Download),
    ("networkTransferMetrics", "cumulativeCellularDownload", MetricName::Download),
    ("animationMetrics", "hitchTimeRatio", MetricName::HitchRatio),
    ("animationMetrics", "scrollHitchTimeRatio", MetricName::HitchRatio),
];
/// The histograms, with their keys.
const HISTOGRAMS: [(&str, &str, MetricName); 5] = [
    ("applicationLaunchMetrics", "histogrammedTimeToFirstDrawKey", MetricName::LaunchTime),
    // Launches that the system prepared are apart, because they say nothing about the app's own time before `main`.
    (
        "applicationLaunchMetrics",
        "histogrammedOptimizedTimeToFirstDrawKey",
        MetricName::PrewarmedLaunchFirstFrame,
    ),
    (
        "applicationLaunchMetrics",
        "histogrammedOptimizedTimeToFirstDraw",
        MetricName::PrewarmedLaunchFirstFrame,
    ),
    ("applicationLaunchMetrics", "histogrammedResumeTime", MetricName::ResumeTime),
    ("applicationResponsivenessMetrics", "histogrammedAppHangTime", MetricName::HangTime),
];

/// Values that no metric counts. The sender learns that they are not read.
const NOT_COUNTED: [(&str, &str); 2] = [
    ("applicationLaunchMetrics", "histogrammedExtendedLaunchKey"),
    ("applicationLaunchMetrics", "histogrammedExtendedLaunch"),
];
/// Counts of ends, and whether the app was on the screen.
const ENDS: [(&str, bool); 2] = [("foregroundExitData", true), ("backgroundExitData", false)];

/// Returns true for a payload of MetricKit without anything around it.
pub(super) fn is_payload(json: &Value) -> bool {
    json.get("id").is_none() && json.get("timeStampEnd").is_some() && json.get("metaData").is_some()
}

/// Returns a text of the payload's description.
pub(super) fn find_text<'p>(payload: &'p Value, key: &str) -> Option<&'p str> {
    let found = match key {
        "appVersion" | "timeStampEnd" => payload.get(key),
        key => payload.get("metaData").and_then(|about| about.get(key)),
    };
    found?.as_str()
}

/// Returns the end of the payload's period.
pub(super) fn read_end(payload: &Value) -> Option<OffsetDateTime> {
    let text = find_text(payload, "timeStampEnd")?;
    OffsetDateTime::parse(&device_clock_time(text)?, &Rfc3339).ok()
}

pub(super) fn read_metrics(payload: &Value, into: &mut PayloadBuilder) {
    let region = find_text(payload, "regionFormat").unwrap_or_default();
    let mut totals: Vec<(MetricName, f64)> = Vec::new();
    for (group, key, metric) in TOTALS {
        let Some(found) = payload.get(group).and_then(|group| group.get(key)) else { continue };
        let value = found.as_str().and_then(|text| parse_measurement_in_unit(text, metric.unit(), region));
        let Some(value) = value else {
            into.unread.record(&format!("{group}.{key}"));
            continue;
        };
        match totals.iter_mut().find(|(known, _)| *known == metric) {
            // If both are there, this takes the ratio of late frames of all animations, not of scrolling
            // alone.
            Some(_) if metric == MetricName::HitchRatio => {}
            Some((_, total)) => *total += value,
            None => totals.push((metric, value)),
        }
    }
    for (metric, value) in totals {
        into.add_sample(Sample { metric, value, count: 1 });
    }
    for (group, key, metric) in HISTOGRAMS {
        let Some(found) = payload.get(group).and_then(|group| group.get(key)) else { continue };
        match read_histogram(found, metric, region, into) {
            true => into.measured_of(metric),
            false => into.unread.record(&format!("{group}.{key}")),
        }
    }
    for (key, foreground) in ENDS {
        if let Some(found) = payload.get("applicationExitMetrics").and_then(|group| group.get(key)) {
            read_ends(found, foreground, &format!("applicationExitMetrics.{key}"), into);
        }
    }
    for (group, key) in NOT_COUNTED {
        if payload.get(group).and_then(|group| group.get(key)).is_some() {
            into.unread.record(&format!("{group}.{key}"));
        }
    }
}

/// Reads a histogram's buckets, each with its middle. Returns true if all of them were read.
fn read_histogram(histogram: &Value, metric: MetricName, region: &str, into: &mut PayloadBuilder) -> bool {
    let Some(buckets) = histogram.get("histogramValue").and_then(Value::as_object) else { return false };
    let bound = |bucket: &Value, key: &str| {
        bucket
            .get(key)
            .and_then(Value::as_str)
            .and_then(|text| parse_measurement_in_unit(text, metric.unit(), region))
    };
    let read = |bucket: &Value| {
        let (start, end) = (bound(bucket, "bucketStart")?, bound(bucket, "bucketEnd")?);
        let count = whole_count(bucket.get("bucketCount")?)?;
        Some(Sample { metric, value: f64::midpoint(start, end), count })
    };
    let mut whole = buckets.len() <= MOST_BUCKETS;
    for bucket in buckets.values().take(MOST_BUCKETS) {
        match read(bucket) {
            Some(sample) => whole &= into.add_sample(sample),
            None => whole = false,
        }
    }
    whole
}
