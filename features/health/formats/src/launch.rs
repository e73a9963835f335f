//! One launch of a payload, with the milliseconds of its phases.

use super::MetricName;
use super::samples::{PayloadBuilder, Sample};
use super::sent_item::SentItem;
use serde_json::Value;

/// The phases of a launch, in the order of the metrics of a type.
const PHASES: [&str; 3] = ["before_main", "first_frame", "interactive"];

/// Returns the metrics of the phases of a type.
fn phase_metrics(kind: &str) -> Option<[MetricName; 3]> {
    Some(match kind {
        "cold" => [
            MetricName::ColdLaunchBeforeMain,
            MetricName::ColdLaunchFirstFrame,
            MetricName::ColdLaunchInteractive,
        ],
        "warm" => [
            MetricName::WarmLaunchBeforeMain,
            MetricName::WarmLaunchFirstFrame,
            MetricName::WarmLaunchInteractive,
        ],
        "prewarmed" => [
            MetricName::PrewarmedLaunchBeforeMain,
            MetricName::PrewarmedLaunchFirstFrame,
            MetricName::PrewarmedLaunchInteractive,
        ],
        _ => return None,
    })
}

/// Adds the phases of a launch that are known. A launch without a known type has none.
pub(super) fn read_launch(sent: &Value, into: &mut PayloadBuilder) {
    let Some(launch) = SentItem::from_value("launches", sent, &mut into.unread) else { return };
    let Some(metrics) = launch.get("type").and_then(Value::as_str).and_then(phase_metrics) else {
        launch.record_unread("type", &mut into.unread);
        return;
    };
    if PHASES.iter().all(|phase| launch.get(phase).is_none()) {
        into.unread.record("launches");
    }
    for (metric, phase) in metrics.into_iter().zip(PHASES) {
        if let Some(value) = launch.read_number(phase, &mut into.unread) {
            into.add_sample(Sample { metric, value, count: 1 });
        }
    }
}
