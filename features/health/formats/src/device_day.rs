//! The day of a device, recognised by what MetricKit counted of it. The payload of older systems and the report since iOS 27 tell of
//! the same day, and name neither each other nor the device.

use super::MetricName;
use super::samples::Sample;
use sha2::{Digest, Sha256};

/// The totals that both forms have, in milliseconds and bytes.
const TOTALS: [MetricName; 8] = [
    MetricName::CpuTime,
    MetricName::GpuTime,
    MetricName::ForegroundTime,
    MetricName::BackgroundTime,
    MetricName::PeakMemory,
    MetricName::DiskWrites,
    MetricName::Upload,
    MetricName::Download,
];
/// One step in the texts of older systems: a second, or a kilobyte.
const TOTAL_STEP: f64 = 1e3;
const HISTOGRAMS: [MetricName; 4] = [
    MetricName::LaunchTime,
    MetricName::PrewarmedLaunchFirstFrame,
    MetricName::ResumeTime,
    MetricName::HangTime,
];
/// Totals above 0 without which a day could be that of another device.
const LEAST_TOTALS: usize = 4;

/// The day of a device, as a payload of MetricKit tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceDay {
    /// A hash of the figures, equal in both forms.
    pub key: [u8; 16],
    /// True for a report since iOS 27, which has figures that the older payload lacks.
    pub is_report: bool,
}

/// Returns the key of a day by what MetricKit counted. Returns None if that is too little to tell devices apart.
pub(super) fn find_key(version: &str, device: Option<&str>, samples: &[Sample]) -> Option<[u8; 16]> {
    let of_metric = |metric: MetricName| samples.iter().filter(move |sample| sample.metric == metric);
    let totals: Vec<(MetricName, String)> = TOTALS
        .into_iter()
        .filter_map(|metric| {
            let total: f64 = of_metric(metric).map(|sample| sample.value).sum();
            let steps = (total / TOTAL_STEP).round();
            (steps > 0.0).then(|| (metric, format!("{steps:.0}")))
        })
        .collect();
    if totals.len() < LEAST_TOTALS {
        return None;
    }
    let mut buckets: Vec<(MetricName, String, u32)> = HISTOGRAMS
        .into_iter()
        .flat_map(of_metric)
        .map(|sample| (sample.metric, format!("{:.0}", sample.value), sample.count))
        .collect();
    buckets.sort_unstable();
    let day = format!("{:?}", (version, device, totals, buckets));
    let digest: [u8; 32] = Sha256::digest(day).into();
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    Some(key)
}
