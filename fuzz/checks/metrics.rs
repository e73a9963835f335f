//! Any bytes as a metric payload: read or refused, and what is read is bounded and can be counted.

use unslide_health_formats::{MetricPayload, WEIGHT_UNIT};
use unslide_model::QuantileSketch;
use unslide_proto::event::GatewayEvent;

pub fn check(data: &[u8]) {
    if let Some(sketch) = QuantileSketch::from_bytes(data) {
        assert_eq!(sketch.to_bytes(), data);
    }
    let Ok(payload) = MetricPayload::from_json(data) else { return };
    assert!((WEIGHT_UNIT..=1_000 * WEIGHT_UNIT).contains(&payload.weight));
    assert!(!payload.id.is_empty() && !payload.app.is_empty());
    let mut sketch = QuantileSketch::default();
    for sample in &payload.samples {
        assert!(sample.value >= 0.0 && sample.value.is_finite() && sample.count > 0);
        sketch.add_value(sample.value, payload.weight * u64::from(sample.count));
    }
    for request in &payload.requests {
        assert!(request.values.iter().flatten().all(|phase| phase.is_finite()));
    }
    assert_eq!(sketch.quantile(0.5).is_some(), !payload.samples.is_empty());
    let _ = payload.event_day();
}
