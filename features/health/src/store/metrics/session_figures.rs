//! The values of one payload, for the page of its session.

use std::collections::BTreeMap;
use unslide_health_formats::{BatteryMoment, MetricName, MetricPayload};
use unslide_store::queries::session::SessionFigure;

/// Returns the figures of each metric of a payload. They are of one device, so they have no weights.
pub(super) fn list_figures(payload: &MetricPayload) -> Vec<SessionFigure> {
    let mut values: BTreeMap<MetricName, Vec<(f64, u64)>> = BTreeMap::new();
    for sample in &payload.samples {
        values.entry(sample.metric).or_default().push((sample.value, sample.count.into()));
    }
    for request in &payload.requests {
        for (metric, value) in MetricName::REQUEST_VALUES.into_iter().zip(request.values) {
            if let Some(value) = value {
                values.entry(metric).or_default().push((value, 1));
            }
        }
    }
    let mut figures = Vec::new();
    if !payload.requests.is_empty() {
        let failed = payload.requests.iter().filter(|request| request.failed).count();
        figures.push(SessionFigure {
            metric: MetricName::Requests.as_str().to_owned(),
            unit: "1".to_owned(),
            count: payload.requests.len() as u64,
            failed: Some(failed as u64),
            lowest: None,
            median: None,
            highest: None,
            state: None,
        });
    }
    if let Some(battery) = &payload.battery {
        figures.extend(battery.start.map(|moment| describe_battery("battery_at_start", moment)));
        figures.extend(battery.end.map(|moment| describe_battery("battery_at_end", moment)));
    }
    figures.extend(values.into_iter().map(|(metric, values)| summarise_metric(metric, values)));
    figures
}

fn describe_battery(metric: &str, moment: BatteryMoment) -> SessionFigure {
    SessionFigure {
        metric: metric.to_owned(),
        unit: "%".to_owned(),
        count: 1,
        failed: None,
        lowest: Some(moment.percent),
        median: Some(moment.percent),
        highest: Some(moment.percent),
        state: Some(moment.state.as_str().to_owned()),
    }
}

/// Returns the figures of one metric from its values, each with how often it came.
fn summarise_metric(metric: MetricName, mut values: Vec<(f64, u64)>) -> SessionFigure {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count: u64 = values.iter().map(|(_, times)| times).sum();
    let middle = count.saturating_sub(1) / 2;
    let mut below = 0;
    let is_median = |(_, times): &&(f64, u64)| {
        below += times;
        middle < below
    };
    SessionFigure {
        metric: metric.as_str().to_owned(),
        unit: metric.unit().as_str().to_owned(),
        count,
        failed: None,
        median: values.iter().find(is_median).map(|(value, _)| *value),
        lowest: values.first().map(|(value, _)| *value),
        highest: values.last().map(|(value, _)| *value),
        state: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use unslide_proto::event::GatewayEvent;

    #[test]
    fn figures_are_those_of_the_sorted_values() {
        let values = [900.0, 812.0, 1_000.0, 850.0];
        let measured = values.map(|value| json!({"name": "launch_time", "unit": "ms", "value": value}));
        let hangs = json!({"name": "hang_time", "unit": "ms", "histogram": [
            {"from": 200, "to": 300, "count": 5}, {"from": 900, "to": 1_100, "count": 2}]});
        let payload = json!({
            "id": "m1", "app": "com.acme.shop", "measured_at": "2026-11-20T10:00:00Z", "sampled": 0.5,
            "battery": {"start": {"level": 0.83, "state": "unplugged"}, "end": {"level": 0.81, "state": "charging"}},
            "measurements": measured.into_iter().chain([hangs]).collect::<Vec<_>>(),
            "requests": [{"host": "a.example.com", "total": 20}, {"host": "b.example.com", "failed": true}],
        });
        let payload = MetricPayload::from_json(payload.to_string().as_bytes()).unwrap();
        let found: Vec<_> = list_figures(&payload)
            .into_iter()
            .map(|figure| {
                (figure.metric, figure.count, figure.failed, figure.lowest, figure.median, figure.highest)
            })
            .collect();
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let launch = (Some(sorted[0]), Some(sorted[1]), Some(sorted[3]));
        assert_eq!(
            found,
            [
                ("requests".to_owned(), 2, Some(1), None, None, None),
                ("battery_at_start".to_owned(), 1, None, Some(83.0), Some(83.0), Some(83.0)),
                ("battery_at_end".to_owned(), 1, None, Some(81.0), Some(81.0), Some(81.0)),
                ("launch_time".to_owned(), 4, None, launch.0, launch.1, launch.2),
                ("hang_time".to_owned(), 7, None, Some(250.0), Some(250.0), Some(1_000.0)),
                ("request_total".to_owned(), 1, None, Some(20.0), Some(20.0), Some(20.0)),
            ]
        );
    }
}
