use super::*;
use MetricName::{
    CpuTime, DiskWrites, Download, HangTime, HitchRatio, LaunchTime, PeakMemory, ResumeTime, Upload,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use time::Duration;
use time::macros::{date, datetime};
use unslide_proto::event::GatewayEvent;

fn histogram(buckets: &[(&str, &str, u32)]) -> Value {
    let one = |(start, end, count): &(&str, &str, u32)| json!({"bucketCount": count, "bucketStart": start, "bucketEnd": end});
    let values: serde_json::Map<String, Value> =
        buckets.iter().enumerate().map(|(place, bucket)| (place.to_string(), one(bucket))).collect();
    json!({"histogramNumBuckets": buckets.len(), "histogramValue": values})
}

/// A payload as MetricKit writes it on a device with English as its language.
pub(super) fn metric_kit() -> Value {
    json!({
        "appVersion": "1.0.0",
        "timeStampBegin": "2025-10-21 07:00:00 +0000",
        "timeStampEnd": "2025-10-22 06:59:00 +0000",
        "metaData": {"appBuildVersion": "7", "osVersion": "iPhone OS 18.1 (22B83)", "regionFormat": "US",
            "deviceType": "iPhone16,1", "platformArchitecture": "arm64e", "bundleIdentifier": "com.acme.shop"},
        "cpuMetrics": {"cumulativeCPUTime": "100 sec", "cumulativeCPUInstructions": "100 kiloinstructions"},
        "memoryMetrics": {"peakMemoryUsage": "200,000 kB"},
        "diskIOMetrics": {"cumulativeLogicalWrites": "1,300 kB"},
        "animationMetrics": {"scrollHitchTimeRatio": "1,000 ms per s", "hitchTimeRatio": "5 ms per s"},
        "networkTransferMetrics": {"cumulativeCellularDownload": "80,000 kB", "cumulativeWifiDownload": "60,000 kB",
            "cumulativeCellularUpload": "70,000 kB", "cumulativeWifiUpload": "50,000 kB"},
        "applicationLaunchMetrics": {
            "histogrammedTimeToFirstDrawKey":
                histogram(&[("1,000 ms", "1,010 ms", 50), ("2,000 ms", "2,010 ms", 60)]),
            "histogrammedResumeTime": histogram(&[("200 ms", "210 ms", 60)])},
        "applicationResponsivenessMetrics": {
            "histogrammedAppHangTime": histogram(&[("0 ms", "100 ms", 0), ("400 ms", "700 ms", 30)])},
        "signpostMetrics": [],
    })
}

pub(super) fn read(json: &Value) -> Result<MetricPayload, String> {
    MetricPayload::from_json(json.to_string().as_bytes()).map_err(|error| error.to_string())
}

pub(super) fn samples(payload: &MetricPayload) -> Vec<(MetricName, f64, u32)> {
    let mut found: Vec<_> = payload.samples.iter().map(|one| (one.metric, one.value, one.count)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    found
}

pub(super) const MEASURED: [(MetricName, f64, u32); 10] = [
    (LaunchTime, 1_005.0, 50),
    (LaunchTime, 2_005.0, 60),
    (ResumeTime, 205.0, 60),
    (HangTime, 550.0, 30),
    (CpuTime, 100_000.0, 1),
    (HitchRatio, 5.0, 1),
    (PeakMemory, 200_000_000.0, 1),
    (DiskWrites, 1_300_000.0, 1),
    (Upload, 120_000_000.0, 1),
    (Download, 140_000_000.0, 1),
];

#[test]
fn a_payload_of_metric_kit_is_read_alone_and_within_ours() {
    let alone = read(&metric_kit()).unwrap();
    assert_eq!(samples(&alone), MEASURED);
    assert_eq!(
        (alone.app.as_str(), alone.version.as_str(), alone.build.as_deref()),
        ("com.acme.shop", "1.0.0", Some("7"))
    );
    assert_eq!(
        (alone.os.as_deref(), alone.device.as_deref()),
        (Some("iPhone OS 18.1 (22B83)"), Some("iPhone16,1"))
    );
    assert_eq!(
        (alone.id.len(), alone.measured_at, alone.weight),
        (64, datetime!(2025-10-22 06:59 UTC), WEIGHT_UNIT)
    );
    assert_eq!(alone.unread, [""; 0]);
    let within = json!({"id": "m1", "app": "com.acme.bank", "version": "2.0", "sampled": 0.3, "session": "s1",
        "metric_kit": metric_kit()});
    let within = read(&within).unwrap();
    assert_eq!(samples(&within), MEASURED);
    assert_eq!(
        (within.id.as_str(), within.app.as_str(), within.version.as_str()),
        ("m1", "com.acme.bank", "2.0")
    );
    assert_eq!((within.weight, within.session.as_deref()), (3_333, Some("s1")));
}

#[test]
fn what_a_device_writes_in_an_unknown_language_is_named_and_the_rest_is_read() {
    let mut payload = metric_kit();
    payload["metaData"]["regionFormat"] = "CN".into();
    payload["cpuMetrics"]["cumulativeCPUTime"] = "2,717秒".into();
    payload["diskIOMetrics"]["cumulativeLogicalWrites"] = "1,300 kilomjölk".into();
    payload["memoryMetrics"]["peakMemoryUsage"] = 5.into();
    payload["applicationLaunchMetrics"]["histogrammedResumeTime"] =
        histogram(&[("200毫秒", "210毫秒", 1), ("1 jiffy", "2 jiffies", 1)]);
    let read = read(&payload).unwrap();
    let samples = samples(&read);
    assert!(samples.contains(&(CpuTime, 2_717_000.0, 1)) && samples.contains(&(ResumeTime, 205.0, 1)));
    let unread = [
        "memoryMetrics.peakMemoryUsage",
        "diskIOMetrics.cumulativeLogicalWrites",
        "applicationLaunchMetrics.histogrammedResumeTime",
    ];
    assert_eq!(read.unread, unread);
}

#[test]
fn prewarmed_launches_are_apart_and_extended_launches_are_named() {
    let mut payload = metric_kit();
    let launches = &mut payload["applicationLaunchMetrics"];
    launches["histogrammedOptimizedTimeToFirstDrawKey"] = histogram(&[("300 ms", "310 ms", 7)]);
    launches["histogrammedExtendedLaunch"] = histogram(&[("2,000 ms", "2,010 ms", 3)]);
    let read = read(&payload).unwrap();
    let samples = samples(&read);
    assert!(samples.contains(&(MetricName::PrewarmedLaunchFirstFrame, 305.0, 7)));
    assert!(samples.contains(&(LaunchTime, 1_005.0, 50)), "other launches do not change");
    assert_eq!(read.unread, ["applicationLaunchMetrics.histogrammedExtendedLaunch"]);
}

#[test]
fn counts_with_a_fraction_of_zero_and_times_of_a_12_hour_clock_are_read() {
    let mut payload = metric_kit();
    payload["timeStampEnd"] = "2025-10-22 6:59:00 PM +0200".into();
    let bucket = &mut payload["applicationLaunchMetrics"]["histogrammedResumeTime"]["histogramValue"]["0"];
    bucket["bucketCount"] = 60.0.into();
    let read = read(&payload).unwrap();
    assert_eq!((read.measured_at, read.unread.len()), (datetime!(2025-10-22 16:59 UTC), 0));
    assert!(samples(&read).contains(&(ResumeTime, 205.0, 60)));
}

fn own() -> Value {
    json!({"id": "m1", "app": "com.acme.shop", "measured_at": "2026-11-20T23:30:00-02:00",
        "measurements": [
            {"name": "launch_time", "unit": "s", "value": 1.5},
            {"name": "frame_rate", "unit": "fps", "value": 59.5},
            {"name": "page_load_time", "unit": "ms", "histogram": [{"from": 100, "to": 300, "count": 4}]}],
        "launches": [{"type": "cold", "before_main": 310, "first_frame": 420.5}],
        "requests": [{"host": "API.example.com.", "dns": 12, "total": 240.5}, {"host": "[::1]:8080", "failed": true}],
        "other": {"kept": "out"}})
}

#[test]
fn our_own_payload_is_read_with_its_requests() {
    let read = read(&own()).unwrap();
    let expected = [
        (LaunchTime, 1_500.0, 1),
        (MetricName::ColdLaunchBeforeMain, 310.0, 1),
        (MetricName::ColdLaunchFirstFrame, 420.5, 1),
        (MetricName::PageLoadTime, 200.0, 4),
        (MetricName::FrameRate, 59.5, 1),
    ];
    assert_eq!(samples(&read), expected);
    let requests: Vec<_> =
        read.requests.iter().map(|one| (one.host.as_str(), one.failed, one.values)).collect();
    let first = [None, Some(12.0), None, None, None, Some(240.5), None, None, None];
    assert_eq!(requests, [("api.example.com", false, first), ("[::1]:8080", true, [None; 9])]);
    assert_eq!(read.requests[0].total_time(), Some(240.5));
    assert_eq!((read.event_day(), read.version.as_str()), (date!(2026 - 11 - 21), ""));
    read.check_time(read.measured_at - Duration::DAY).unwrap();
    assert!(read.check_time(read.measured_at - Duration::DAY * 1.1).is_err());
}

/// Returns our payload with another value at a path.
fn changed(path: &str, value: Value) -> Result<MetricPayload, String> {
    let mut json = own();
    for list in ["requests", "launches"] {
        for field in ["path", "template", "method", "error", "sent", "status", "interactive"] {
            json[list][0][field] = Value::Null;
        }
    }
    for field in ["version", "build", "os", "device", "session"] {
        json[field] = Value::Null;
    }
    *json.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    read(&json)
}

#[test]
fn a_refusal_names_the_field_and_what_would_be_right() {
    for (path, value, words) in [
        ("/id", json!(""), "`id` must have 1 to 100 characters"),
        ("/id", json!(7), "invalid type"),
        ("/app", json!(null), "`app` is missing"),
        ("/app", json!("a\u{0}"), "U+0000"),
        ("/measured_at", json!("today"), "`measured_at` must be the end"),
        ("/measured_at", json!(null), "`measured_at` must be the end"),
    ] {
        let found = changed(path, value).unwrap_err();
        assert!(found.contains(words), "{path}: {found}");
    }
    for sampled in [0.0, 0.0009, 1.1, -1.0] {
        let mut json = own();
        json["sampled"] = sampled.into();
        assert_eq!(read(&json).unwrap_err(), "`sampled` must be between 0.001 and 1");
    }
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(MetricPayload::from_json(deep.as_bytes()).is_err());
    let long = " ".repeat(MAX_PAYLOAD_BYTES + 1);
    assert!(
        MetricPayload::from_json(long.as_bytes()).unwrap_err().to_string().contains("the limit is 262144")
    );
}

/// The numbers of samples and requests say what is left: `own` has three measurements, a launch with two phases and two
/// requests.
#[test]
fn an_odd_value_is_named_and_the_rest_is_read() {
    let launch = |launch: Value| json!([launch, {"type": "warm", "first_frame": 95}]);
    let many = |item: Value| json!(vec![item; 1_001]);
    for (path, value, unread, samples, requests) in [
        ("/measurements/0/name", json!("launch"), "measurements.launch", 4, 2),
        ("/measurements/0/name", json!("request_total"), "measurements.request_total", 4, 2),
        ("/measurements/0/name", json!("x".repeat(300)), &format!("measurements.{}", "x".repeat(60)), 4, 2),
        ("/measurements/0/name", json!(7), "measurements.name", 4, 2),
        ("/measurements/0", json!("launch"), "measurements.name", 4, 2),
        ("/measurements/0/unit", json!("kB"), "measurements.launch_time.unit", 4, 2),
        ("/measurements/0/value", json!(-1), "measurements.launch_time.value", 4, 2),
        ("/measurements/0/value", json!(1e300), "measurements.launch_time.value", 4, 2),
        ("/measurements/0/value", json!("1.5"), "measurements.launch_time.value", 4, 2),
        ("/measurements/0/value", json!(null), "measurements.launch_time", 4, 2),
        (
            "/measurements/2/histogram",
            many(json!({"from": 0, "to": 1, "count": 1})),
            "measurements.page_load_time.histogram",
            4,
            2,
        ),
        (
            "/measurements/2/histogram/0/count",
            json!(1_000_001),
            "measurements.page_load_time.histogram",
            4,
            2,
        ),
        ("/measurements/2/histogram/0/count", json!(1.5), "measurements.page_load_time.histogram", 4, 2),
        ("/measurements/2/histogram/0/to", json!("300"), "measurements.page_load_time.histogram", 4, 2),
        ("/measurements", json!({}), "measurements", 2, 2),
        ("/measurements", many(json!({"name": "upload", "unit": "B", "value": 1})), "measurements", 1_002, 2),
        ("/launches", launch(json!({"type": "hot", "first_frame": 1})), "launches.type", 4, 2),
        ("/launches", launch(json!({"first_frame": 1})), "launches.type", 4, 2),
        ("/launches", launch(json!({"type": "cold"})), "launches", 4, 2),
        ("/launches", launch(json!(7)), "launches", 4, 2),
        ("/launches/0/first_frame", json!(-1), "launches.first_frame", 4, 2),
        ("/launches", many(json!({"type": "cold", "first_frame": 1})), "launches", 1_003, 2),
        ("/requests/0", json!("https://example.com"), "requests", 5, 1),
        ("/requests/0/host", json!("https://example.com/a"), "requests.host", 5, 1),
        ("/requests/0/host", json!(""), "requests.host", 5, 1),
        ("/requests/0/host", json!(null), "requests.host", 5, 1),
        ("/requests/0/total", json!(-3), "requests.total", 5, 2),
        ("/requests/0/total", json!("240"), "requests.total", 5, 2),
        ("/requests/0/path", json!("orders/1"), "requests.path", 5, 2),
        ("/requests/0/path", json!("https://api.example.com/orders/1"), "requests.path", 5, 2),
        ("/requests/0/path", json!(format!("/{}", "a/".repeat(2_000))), "requests.path", 5, 2),
        ("/requests/0/template", json!("/users/robin@example.com"), "requests.template", 5, 2),
        ("/requests/0/method", json!("GET\n"), "requests.method", 5, 2),
        ("/requests/0/error", json!("e".repeat(61)), "requests.error", 5, 2),
        ("/requests/0/error", json!({"domain": 7}), "requests.error", 5, 2),
        ("/requests/0/sent", json!(-1), "requests.sent", 5, 2),
        ("/requests/0/status", json!(70_000), "requests.status", 5, 2),
        ("/requests/1/failed", json!("yes"), "requests.failed", 5, 2),
        ("/requests", many(json!({"host": "a.example.com"})), "requests", 5, 1_000),
        ("/version", json!(3), "version", 5, 2),
        ("/build", json!(""), "build", 5, 2),
        ("/os", json!("x".repeat(201)), "os", 5, 2),
        ("/device", json!(["iPhone16,1"]), "device", 5, 2),
        ("/session", json!("a\u{0}"), "session", 5, 2),
    ] {
        let found = changed(path, value.clone()).unwrap_or_else(|error| panic!("{path} {value}: {error}"));
        let left = (found.unread, found.samples.len(), found.requests.len());
        assert_eq!(left, (vec![unread.to_owned()], samples, requests), "{path} {value}");
    }
    let mut twice = own();
    twice["requests"] = json!(vec![json!({"host": "a.example.com", "path": "a"}); 3]);
    assert_eq!(read(&twice).unwrap().unread, ["requests.path"], "each key is named once");
}

#[test]
fn a_request_with_an_error_that_cannot_be_read_has_failed() {
    for error in [json!("Die Zeitüberschreitung der Anforderung"), json!({}), json!(true)] {
        let found = changed("/requests/0/error", error).unwrap();
        assert_eq!((found.requests[0].failed, found.requests[0].result.as_deref()), (true, Some("error")));
    }
}

#[test]
fn each_metric_has_one_name_and_a_unit_that_is_its_own() {
    for metric in MetricName::ALL {
        assert_eq!(MetricName::parse(metric.as_str()), Some(metric));
        let factor = metric.unit().conversion_factor(metric.unit().as_str());
        assert_eq!(
            factor,
            (!metric.is_derived()).then_some(1.0),
            "{metric} is sent in its own unit, or not at all"
        );
    }
}

#[test]
fn a_request_has_its_endpoint_its_result_and_its_sizes() {
    let mut json = own();
    json["requests"] = json!([
        {"host": "api.example.com", "path": "/orders/1234?key=secret", "method": "get", "status": 200, "protocol": "H2",
         "wait": 1, "sent": 310, "received": 20_480, "redirects": 1},
        {"host": "api.example.com", "path": "/orders", "status": 404},
        {"host": "api.example.com", "error": "Error Domain=NSURLErrorDomain Code=-1001 \"The request timed out.\""},
        {"host": "api.example.com", "template": "/users/{id}", "path": "/users/7", "method": "PUT", "status": 201.0},
    ]);
    let requests = read(&json).unwrap().requests;
    let named: Vec<_> = requests
        .iter()
        .map(|one| (one.endpoint.as_deref(), one.result.as_deref(), one.protocol.as_deref(), one.failed))
        .collect();
    assert_eq!(
        named,
        [
            (Some("GET api.example.com/orders/#"), Some("200"), Some("h2"), false),
            (Some("api.example.com/orders"), Some("404"), None, true),
            (None, Some("error NSURLErrorDomain -1001"), None, true),
            (Some("PUT api.example.com/users/{id}"), Some("201"), None, false),
        ]
    );
    let sizes = [Some(310.0), Some(20_480.0), Some(1.0)];
    assert_eq!((requests[0].values[0], &requests[0].values[6..]), (Some(1.0), &sizes[..]));
}

#[test]
fn phases_of_launches_are_apart_by_the_type_of_the_launch() {
    let mut json = own();
    json["launches"] = json!([
        {"type": "cold", "before_main": 310, "first_frame": 420.5, "interactive": 900},
        {"type": "warm", "first_frame": 95},
        {"type": "prewarmed", "before_main": 86_400_000, "interactive": 300},
    ]);
    let launches: Vec<_> = samples(&read(&json).unwrap())
        .into_iter()
        .filter(|(metric, ..)| metric.as_str().contains("_launch_"))
        .map(|(metric, value, count)| (metric.as_str(), value, count))
        .collect();
    assert_eq!(
        launches,
        [
            ("cold_launch_before_main", 310.0, 1),
            ("cold_launch_first_frame", 420.5, 1),
            ("cold_launch_interactive", 900.0, 1),
            ("warm_launch_first_frame", 95.0, 1),
            ("prewarmed_launch_before_main", 86_400_000.0, 1),
            ("prewarmed_launch_interactive", 300.0, 1),
        ]
    );
}

/// The truth is the difference of the levels over the hours on the screen.
#[test]
fn the_battery_drains_by_the_hour_on_the_screen_without_a_charger() {
    let drained = |start: (f64, &str), end: (f64, &str), minutes: f64| {
        let mut json = own();
        json["measurements"] = json!([{"name": "foreground_time", "unit": "min", "value": minutes}]);
        json["battery"] =
            json!({"start": {"level": start.0, "state": start.1}, "end": {"level": end.0, "state": end.1}});
        let found = read(&json)?;
        let drain = found.samples.iter().find(|sample| sample.metric == MetricName::BatteryDrain);
        Ok::<_, String>(drain.map(|sample| sample.value))
    };
    for (start, end, minutes) in [(0.83, 0.81, 10.0), (1.0, 0.0, 300.0), (0.5, 0.5, 1.0)] {
        let found = drained((start, "unplugged"), (end, "unplugged"), minutes).unwrap().unwrap();
        let expected = (start - end) * 100.0 / (minutes / 60.0);
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert_eq!(drained((0.5, "unplugged"), (0.6, "unplugged"), 60.0), Ok(Some(0.0)));
    for (start, end, minutes) in
        [("charging", "unplugged", 60.0), ("unplugged", "full", 60.0), ("unplugged", "unplugged", 0.5)]
    {
        assert_eq!(drained((0.9, start), (0.8, end), minutes), Ok(None), "{start} {end}");
    }
}

/// A device that does not measure its battery has a level of −1.
#[test]
fn a_battery_without_a_level_or_an_end_costs_no_other_figure() {
    let moment = |level: Value, state: &str| json!({"level": level, "state": state});
    let whole = moment(json!(0.8), "unplugged");
    let (full, unknown) = ((80.0, BatteryState::Unplugged), (80.0, BatteryState::Unknown));
    for (battery, unread, start, end) in [
        (
            json!({"start": moment(json!(-1), "unknown"), "end": whole}),
            "battery.start.level",
            None,
            Some(full),
        ),
        (json!({"start": whole, "end": moment(json!(1.001), "full")}), "battery.end.level", Some(full), None),
        (
            json!({"start": moment(json!("80 %"), "full"), "end": whole}),
            "battery.start.level",
            None,
            Some(full),
        ),
        (json!({"start": {"state": "full"}, "end": whole}), "battery.start.level", None, Some(full)),
        (json!({"start": whole}), "battery.end", Some(full), None),
        (json!({"start": whole, "end": 0.7}), "battery.end", Some(full), None),
        (
            json!({"start": moment(json!(0.8), "plugged"), "end": whole}),
            "battery.start.state",
            Some(unknown),
            Some(full),
        ),
        (json!(0.8), "battery", None, None),
    ] {
        let mut json = own();
        json["battery"] = battery.clone();
        let found = read(&json).unwrap();
        let shown = |moment: Option<BatteryMoment>| moment.map(|moment| (moment.percent, moment.state));
        let ends = found.battery.map_or((None, None), |battery| (shown(battery.start), shown(battery.end)));
        assert_eq!((found.unread, ends), (vec![unread.to_owned()], (start, end)), "{battery}");
        assert_eq!((found.samples.len(), found.requests.len()), (5, 2), "{battery}");
    }
}

#[test]
fn hangs_that_were_not_read_are_no_rate() {
    let rates = |start: &str| {
        let mut payload = metric_kit();
        payload["applicationTimeMetrics"] = json!({"cumulativeForegroundTime": "7,200 sec"});
        payload["applicationResponsivenessMetrics"]["histogrammedAppHangTime"] =
            histogram(&[("400 ms", "700 ms", 30), (start, "900 ms", 10)]);
        let samples = read(&payload).unwrap().samples;
        let rates = samples.iter().filter(|sample| sample.metric == MetricName::HangRate);
        rates.map(|sample| sample.value).collect::<Vec<_>>()
    };
    assert_eq!(rates("800 ms"), [20.0]);
    assert!(rates("800 jiffies").is_empty(), "how often it hung is not known");
}

#[test]
fn what_is_said_for_each_hour_follows_from_the_payload_alone() {
    let of = |measurements: Value| {
        let payload = json!({"id": "m1", "app": "a", "measured_at": "2026-11-20T08:00:00Z", "measurements": measurements});
        MetricPayload::from_json(payload.to_string().as_bytes()).map(|payload| {
            let derived = payload.samples.into_iter().filter(|sample| sample.metric.is_derived());
            derived.map(|sample| (sample.metric, sample.value, sample.count)).collect::<Vec<_>>()
        })
    };
    let one = |name: &str, unit: &str, value: f64| json!({"name": name, "unit": unit, "value": value});
    let on = one("foreground_time", "min", 30.0);
    let (off, cpu) = (one("background_time", "min", 90.0), one("cpu_time", "s", 60.0));
    let hung = json!({"name": "hang_time", "unit": "s", "histogram": [{"from": 1, "to": 2, "count": 3}]});
    let calm = json!({"name": "hang_time", "unit": "s", "histogram": []});
    assert_eq!(
        of(json!([on, off, cpu, hung])).unwrap(),
        [(MetricName::CpuTimePerHour, 30_000.0, 1), (MetricName::HangRate, 6.0, 1)]
    );
    assert_eq!(of(json!([on, calm])).unwrap(), [(MetricName::HangRate, 0.0, 1)]);
    assert_eq!(of(json!([on])).unwrap(), [], "hangs were not measured");
    assert_eq!(of(json!([cpu, hung])).unwrap(), [], "it is not known how long the app ran");
    assert_eq!(of(json!([one("foreground_time", "s", 59.0), cpu, hung])).unwrap(), [], "too short to tell");
    assert_eq!(of(json!([one("hang_rate", "1/h", 1.0)])).unwrap(), [], "it is computed alone");
}

proptest! {
    #[test]
    fn any_bytes_are_a_payload_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = MetricPayload::from_json(&bytes);
    }

    /// Whatever a device writes, a payload within the bounds comes out.
    #[test]
    fn any_text_is_a_value_or_named(text in "\\PC{0,20}", region in "[A-Z]{0,2}") {
        let mut payload = metric_kit();
        payload["metaData"]["regionFormat"] = region.into();
        payload["cpuMetrics"]["cumulativeCPUTime"] = text.into();
        let read = read(&payload).unwrap();
        let found = read.samples.iter().any(|sample| sample.metric == CpuTime);
        prop_assert_eq!(found, read.unread.is_empty());
        prop_assert!(read.samples.iter().all(|sample| sample.value >= 0.0 && sample.value.is_finite()));
    }
}
