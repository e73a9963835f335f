//! Metric reports as devices with iOS 27 write them.

use crate::MetricPayload;
use crate::tests::{MEASURED, read, samples};
use serde_json::{Value, json};
use time::macros::datetime;
use unslide_proto::event::GatewayEvent;

/// A metric report of a day as a device with iOS 27 writes it.
fn metric_report() -> Value {
    let ms = |value: u32| json!({"value": value, "unit": "ms"});
    let bucket = |from: u32, to: u32, count: u32| json!({"lowerBound": ms(from), "upperBound": ms(to), "count": count});
    let histogram = |buckets: Value| json!({"histogram": {"buckets": buckets}});
    let mb = |value: f64| json!({"value": {"value": value, "unit": "MB"}});
    let values = json!([
        {"cpuTimeMetric": {"value": {"value": 100, "unit": "s"}}},
        {"hangTimeMetric": histogram(json!([bucket(400, 700, 30)]))},
        {"timeToFirstDrawMetric": histogram(json!([bucket(1_000, 1_010, 50), bucket(2_000, 2_010, 60)]))},
        {"applicationResumeTimeMetric": histogram(json!([bucket(200, 210, 60)]))},
        {"hitchTimeMetric": {"ratio": {"value": 5, "unit": "ms per s"}}},
        {"peakMemoryMetric": mb(200.0)}, {"logicalDiskWritesMetric": mb(1.3)},
        {"totalWiFiUploadMetric": mb(50.0)}, {"totalCellularUploadMetric": mb(70.0)},
        {"totalWiFiDownloadMetric": mb(60.0)}, {"totalCellularDownloadMetric": mb(80.0)}]);
    let entry = |seconds: u32, values: Value| json!({"duration": {"value": seconds, "unit": "s"}, "states": [], "values": values});
    json!({"version": "2.0.0", "timeRange": {"begin": 782_722_800, "end": 782_809_140},
        "environment": {"bundleIdentifier": "com.acme.shop", "applicationBuildVersion": "7", "latestApplicationVersion": "1.0.0",
            "deviceType": "iPhone16,1", "osVersion": {"platform": "iPhone OS", "number": "27.0", "buildNumber": "24A435"}},
        "intervalEntries": [entry(10_800, json!([{"cpuTimeMetric": {"value": {"value": 7, "unit": "s"}}}])), entry(86_400, values)],
        "stateEntries": []})
}

#[test]
fn a_metric_report_is_read_alone_and_within_ours() {
    let alone = read(&metric_report()).unwrap();
    assert_eq!(samples(&alone), MEASURED, "the longest interval counts");
    assert_eq!(
        (alone.app.as_str(), alone.version.as_str(), alone.build.as_deref(), alone.os.as_deref()),
        ("com.acme.shop", "1.0.0", Some("7"), Some("iPhone OS 27.0 (24A435)"))
    );
    assert_eq!((alone.measured_at, alone.unread.len()), (datetime!(2025-10-22 06:59 UTC), 0));
    let within = read(&json!({"id": "m", "metric_kit": metric_report()})).unwrap();
    assert_eq!((within.id.as_str(), samples(&within)), ("m", samples(&alone)));
}

#[test]
fn a_metric_report_has_one_id_in_each_of_its_encodings() {
    let id = |report: &Value| read(report).unwrap().id;
    let expected = id(&metric_report());
    let mut by_domain = metric_report();
    by_domain["stateEntries"] =
        json!({"com.acme.screen": [{"state": {"domain": "com.acme.screen", "label": "map"}, "values": []}]});
    by_domain["intervalEntries"][1]["states"] = json!({});
    by_domain["intervalEntries"][1]["values"].as_array_mut().unwrap().reverse();
    assert_eq!(id(&by_domain), expected);
    let pretty = serde_json::to_vec_pretty(&metric_report()).unwrap();
    assert_eq!(MetricPayload::from_json(&pretty).unwrap().id, expected);
    let mut of_another = metric_report();
    of_another["intervalEntries"][1]["values"][0]["cpuTimeMetric"]["value"]["value"] = json!(101);
    assert_ne!(id(&of_another), expected, "another device of the same model");
}

#[test]
fn a_day_of_a_device_is_recognised_in_both_forms() {
    let day = |report: &Value| read(report).unwrap().device_day;
    let (old, new) = (day(&crate::tests::metric_kit()).unwrap(), day(&metric_report()).unwrap());
    assert_eq!((old.key, old.is_report, new.is_report), (new.key, false, true));
    // Devices write whole seconds and kilobytes as text, and more digits as numbers.
    let mut precise = metric_report();
    precise["intervalEntries"][1]["values"][0]["cpuTimeMetric"]["value"]["value"] = json!(99.6);
    precise["intervalEntries"][1]["values"]
        .as_array_mut()
        .unwrap()
        .push(json!({"metalFrameRateMetric": {"framesPerSecond": {"value": 60, "unit": "Hz"}}}));
    assert_eq!(day(&precise), Some(new));
    let rest = read(&precise).unwrap().beside_older_figures().unwrap();
    assert_eq!(samples(&rest), [(crate::MetricName::FrameRate, 60.0, 1)]);
    assert_eq!(read(&metric_report()).unwrap().beside_older_figures(), None);
    let within = json!({"id": "m", "metric_kit": metric_report()});
    assert_eq!(day(&within), Some(new));
    // Another device, version or model, or values of the app's own beside it.
    let mut other = metric_report();
    other["intervalEntries"][1]["values"][5]["peakMemoryMetric"]["value"]["value"] = json!(200.002);
    assert_ne!(day(&other).unwrap().key, new.key);
    for key in ["latestApplicationVersion", "deviceType"] {
        let mut other = metric_report();
        other["environment"][key] = json!("other");
        assert_ne!(day(&other).unwrap().key, new.key, "{key}");
    }
    let with_more = json!({"id": "m", "metric_kit": metric_report(), "requests": []});
    assert_eq!(day(&with_more), None);
    // Two devices of a model may have the same few figures.
    let mut few = metric_report();
    few["intervalEntries"][1]["values"].as_array_mut().unwrap().truncate(7);
    assert_eq!(day(&few), None);
}

#[test]
fn what_a_metric_report_has_beside_known_metrics_is_named() {
    let mut odd = metric_report();
    odd["intervalEntries"][1]["values"] = json!([
        {"cpuTimeMetric": {"value": {"value": 1, "unit": "fortnights"}}}, {"hangTimeMetric": {"histogram": {"buckets": [{}]}}},
        {"foregroundTerminationMetric": {"normalTerminationCount": "three"}}, {"laterMetric": {}},
        {"metalFrameRateMetric": {"framesPerSecond": {"value": 59.5, "unit": "Hz"}}},
        {"metalFrameRateMetric": {"framesPerSecond": {"value": 30, "unit": "Hz"}}}]);
    let read_odd = read(&odd).unwrap();
    assert_eq!(
        read_odd.unread,
        [
            "foregroundTerminationMetric.normalTerminationCount",
            "cpuTimeMetric.value",
            "hangTimeMetric.histogram"
        ]
    );
    assert_eq!(samples(&read_odd).len(), 2, "one for each layer");
    let only_disk = json!({"timeRange": {"begin": 799_113_600, "end": 799_113_600}, "environment": metric_report()["environment"],
        "intervalEntries": [{"duration": {"value": 0, "unit": "s"}, "states": [], "values": []}]});
    assert!(read(&only_disk).unwrap().samples.is_empty());
    let diagnostic = json!({"timeRange": {}, "crashDiagnostic": {}});
    let error = read(&diagnostic).unwrap_err();
    assert!(error.contains("a diagnostic of MetricKit") && error.contains("/v1/reports"), "{error}");
}

#[test]
fn ends_are_counted_by_cause_in_both_forms() {
    let ends = |payload: &MetricPayload| -> Vec<(bool, &'static str, u32)> {
        payload.ends.iter().map(|ends| (ends.foreground, ends.cause.as_str(), ends.count)).collect()
    };
    let expected = [(true, "normal", 3), (true, "memory_limit", 1), (false, "system_pressure", 2)];
    let mut report = metric_report();
    report["intervalEntries"][1]["values"].as_array_mut().unwrap().extend([
        json!({"foregroundTerminationMetric": {"normalTerminationCount": 3, "memoryLimitTerminationCount": 1, "watchdogTerminationCount": 0}}),
        json!({"backgroundTerminationMetric": {"systemPressureTerminationCount": 2}}),
    ]);
    let found = read(&report).unwrap();
    assert_eq!((ends(&found), found.unread.len()), (expected.to_vec(), 0));
    let mut old = crate::tests::metric_kit();
    old["applicationExitMetrics"] = json!({
        "foregroundExitData": {"cumulativeNormalAppExitCount": 3, "cumulativeMemoryResourceLimitExitCount": 1},
        "backgroundExitData": {"cumulativeMemoryPressureExitCount": 2}});
    let found = read(&old).unwrap();
    assert_eq!((ends(&found), found.unread.len()), (expected.to_vec(), 0));
}

#[test]
fn values_of_states_are_apart_from_those_of_the_day_in_both_encodings() {
    let hang = json!({"hangTimeMetric": {"histogram": {"buckets": [
        {"lowerBound": {"value": 400, "unit": "ms"}, "upperBound": {"value": 700, "unit": "ms"}, "count": 4}]}}});
    let entry = json!({"state": {"domain": "com.acme.screen", "label": "map"}, "values": [hang]});
    let without_label = json!({"state": {"domain": "com.acme.screen"}, "values": [hang]});
    let mut listed = metric_report();
    listed["stateEntries"] = json!([entry, without_label]);
    let mut by_domain = metric_report();
    by_domain["stateEntries"] = json!({"com.acme.screen": [entry]});
    for report in [listed, by_domain] {
        let found = read(&report).unwrap();
        assert_eq!(samples(&found), MEASURED, "a state is a part of the day");
        let [state] = found.state_samples.as_slice() else { panic!("{:?}", found.state_samples) };
        assert_eq!((state.state.as_str(), state.sample.count), ("com.acme.screen: map", 4));
    }
}
