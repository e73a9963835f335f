//! `unslide metrics` with payloads.

use super::symbolicate::{run, written};
use serde_json::{Value, json};

#[test]
fn payloads_are_shown_as_tables_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let own = |id: &str, launch: u32| {
        json!({"id": id, "app": "com.example.shop", "version": "3.1", "measured_at": "2026-11-20T08:00:00Z", "sampled": 0.5,
            "measurements": [{"name": "launch_time", "unit": "ms", "value": launch},
                {"name": "foreground_time", "unit": "h", "value": 2}, {"name": "cpu_time", "unit": "min", "value": 10}],
            "requests": [{"host": "api.example.com", "total": 140, "failed": id == "m2"}]})
    };
    let array = json!([own("m1", 800), own("m2", 900), own("m2", 900)]).to_string();
    let mut next_day = own("m1", 800);
    next_day["measured_at"] = "2026-11-21T08:00:00Z".into();
    let (code, _, error) = run(&[
        "metrics",
        &written(&folder, "days.json", json!([own("m1", 800), next_day]).to_string().as_bytes()),
    ]);
    assert!(code == Some(0) && !error.contains("earlier one"), "{error}");
    let array = written(&folder, "own.json", array.as_bytes());
    let apple = json!({"timeStampEnd": "2026-11-20 08:00:00 +0000", "appVersion": "3.2",
        "metaData": {"bundleIdentifier": "com.example.shop", "regionFormat": "US"},
        "cpuMetrics": {"cumulativeCPUTime": "3 jiffies"}, "diskIOMetrics": {"cumulativeLogicalWrites": "1,300 kB"}});
    let apple = written(&folder, "apple.json", apple.to_string().as_bytes());
    let (code, text, error) = run(&["metrics", &array, &apple]);
    assert_eq!(code, Some(0), "{error}");
    for wanted in ["launch_time", "cpu_time_per_hour", "api.example.com", "disk_writes", "3.2"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(error.contains("cpuMetrics.cumulativeCPUTime was not understood in 1 payloads"), "{error}");
    assert!(error.contains("1 of 4 payloads have the id of an earlier one"), "{error}");
    let (code, json, _) = run(&["metrics", "--json", &array, &apple]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["payloads"].as_u64(), json["repeated"].as_u64()), (Some(0), Some(4), Some(1)));
    assert_eq!(
        (json["hosts"][0]["requests"].as_f64(), json["hosts"][0]["failed"].as_f64()),
        (Some(4.0), Some(2.0))
    );
    assert_eq!(json["unread"]["cpuMetrics.cumulativeCPUTime"], 1);
}

#[test]
fn what_is_no_payload_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "bad.json", br#"[{"id": "m1", "app": "a"}]"#);
    let (code, _, error) = run(&["metrics", &file]);
    assert!(code != Some(0) && error.contains("payload 0: `measured_at` must be"), "{error}");
    for (document, named) in [
        (
            &br#"{"crash": {}, "report": {}}"#[..],
            "`id` is missing: this is a crash report. `unslide symbolicate` reads it",
        ),
        (br#"{"run_id": "r"}"#, "this is about a session"),
        (br#"{"other": 1}"#, "neither a payload of Unslide's own form, nor one of MetricKit"),
        (br#"{"timeRange": {}, "hangDiagnostic": {}}"#, "a diagnostic of MetricKit"),
    ] {
        let (code, _, error) = run(&["metrics", &written(&folder, "other.json", document)]);
        assert!(code == Some(1) && error.contains(named), "{error}");
    }
}
