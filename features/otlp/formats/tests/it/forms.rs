//! What senders of today write, constructed from their documentation, and the reports that become of it.

use serde_json::{Value, json};
use unslide_apple_reports_formats::READERS;
use unslide_otlp_formats::{
    FoundCrash, TelemetryEncoding, TelemetrySignal, complete_report, find_crash, read_records,
};
use unslide_report::reader::ReportReaders;
use unslide_report::{ReadLimits, Report};

const APP_ID: &str = "70B89F27-1634-3580-A695-57CDB41D7743";

/// Apple's text as KSCrash's formatter and PLCrashReporter write it.
fn apple_text() -> String {
    format!(
        "Incident Identifier: 5C2F4E6A-0B1D-4C3E-8F7A-9B0C1D2E3F40\nHardware Model:      iPhone14,2\nProcess:         Shop [4242]\n\
         Path:            /private/var/Shop.app/Shop\nIdentifier:      com.example.shop\nVersion:         2.4.1 (241)\n\
         Code Type:       ARM-64\nDate/Time:       2026-11-20 10:11:12.000 +0000\nOS Version:      iPhone OS 18.1 (22B83)\n\
         Report Version:  104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\nException Codes: KERN_INVALID_ADDRESS at 0x10\n\
         Crashed Thread:  0\n\nThread 0 Crashed:\n0   Shop    0x0000000100004010 0x100000000 + 16400\n\
         1   Shop    0x0000000100008020 0x100000000 + 32800\n\nBinary Images:\n\
         0x100000000 - 0x10000ffff Shop arm64 <{}> /private/var/Shop.app/Shop\n",
        APP_ID.replace('-', "").to_lowercase()
    )
}

fn attributes(values: &Value) -> Value {
    let list = values.as_object().unwrap().iter().map(|(key, value)| match value {
        Value::Bool(flag) => json!({"key": key, "value": {"boolValue": flag}}),
        Value::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
        value => json!({"key": key, "value": {"stringValue": value}}),
    });
    list.collect()
}

/// Finds the crash of a record with these members, attributes and attributes of its resource.
fn find(members: &Value, own: &Value, resource: &Value) -> FoundCrash {
    let mut record = members.clone();
    record["attributes"] = attributes(own);
    let is_span = members.get("startTimeUnixNano").is_some();
    let request = if is_span {
        json!({"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": [{"spans": [record]}]}]})
    } else {
        json!({"resourceLogs": [{"resource": {"attributes": attributes(resource)}, "scopeLogs": [{"logRecords": [record]}]}]})
    };
    let signal = if is_span { TelemetrySignal::Spans } else { TelemetrySignal::Logs };
    let mut found = None;
    let request = request.to_string();
    read_records(request.as_bytes(), TelemetryEncoding::Json, signal, &mut |record| {
        found = Some(find_crash(record));
    })
    .unwrap();
    found.unwrap()
}

/// Returns the completed report of a record.
fn report(members: &Value, own: &Value, resource: &Value) -> Value {
    let FoundCrash::Document(document) = find(members, own, resource) else {
        panic!("{:?}", find(members, own, resource))
    };
    let limits = ReadLimits::default();
    let readers = ReportReaders::new(READERS.iter().copied());
    let opened = readers.open(&document.bytes, &limits).unwrap();
    let completed = complete_report(opened.json(), &document.facts).unwrap();
    Report::read_event(&completed, &limits).unwrap();
    serde_json::from_slice(&completed).unwrap()
}

fn phone() -> Value {
    json!({"service.name": "com.example.shop", "service.version": "2.4.1", "os.name": "iOS", "os.version": "18.1",
        "os.build_id": "22B83", "device.model.identifier": "iPhone14,2", "app.installation.id": "i-1"})
}

#[test]
fn a_kscrash_report_of_embrace_keeps_its_bytes_and_gets_the_session() {
    let inner = r#"{"report":{"id":"2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59"},"system":{"CFBundleIdentifier":"com.example.own"},"crash":{"threads":[],"error":{"type":"mach"}},"binary_images":[]}"#;
    let own = json!({"emb.type": "sys.ios.crash", "emb.provider": "kscrash", "emb.payload": inner, "session.id": "0af7651916cd43dd8448eb211c80319c",
        "user.id": "u-17", "log.record.uid": "x"});
    let report =
        report(&json!({"severityNumber": 24, "timeUnixNano": "1795773598000000000"}), &own, &phone());
    assert_eq!(report["report"]["id"], "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59");
    assert_eq!(report["report"]["timestamp"], "2026-11-27T09:59:58Z");
    assert_eq!(report["system"]["CFBundleIdentifier"], "com.example.own", "what the report says wins");
    assert_eq!(report["system"]["device_app_hash"], "i-1");
    assert_eq!(report["user"]["session_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(report["user"]["user_id"], "u-17");
    // Metric payloads of the same sender.
    let tree = json!({"callStacks": [{"threadAttributed": true, "callStackRootFrames": [{"binaryUUID": APP_ID,
        "binaryName": "Shop", "address": 0x1_0000_4010_u64, "offsetIntoBinaryTextSegment": 0x4010}]}], "callStackPerThread": true});
    let own =
        json!({"emb.type": "sys.ios.crash", "emb.provider": "metrickit", "emb.payload": tree.to_string()});
    assert_eq!(self::report(&json!({}), &own, &phone())["report"]["monitor_id"], "MetricKit");
    let cut = json!({"emb.type": "sys.ios.crash", "emb.payload": inner.get(..60).unwrap()});
    assert!(matches!(find(&json!({}), &cut, &phone()), FoundCrash::Unreadable(_)));
}

#[test]
fn apple_text_is_found_under_the_names_of_every_sender() {
    let text = apple_text();
    for (members, own) in [
        (json!({"eventName": "app.crash"}), json!({"exception.stacktrace": text})),
        (
            json!({}),
            json!({"name": "device.crash", "recovered_context": true, "exception.stacktrace": text, "screen.name": "Cart"}),
        ),
        (
            json!({"severityNumber": 21}),
            json!({"event.name": "crash", "event.domain": "device", "exception.stacktrace": text}),
        ),
        (json!({"severityNumber": 21}), json!({"exception.stacktrace": format!("\n{text}")})),
    ] {
        let report = report(&members, &own, &phone());
        assert_eq!(
            report["report"]["id"].as_str().unwrap().to_lowercase(),
            "5c2f4e6a-0b1d-4c3e-8f7a-9b0c1d2e3f40"
        );
        assert_eq!(report["system"]["CFBundleIdentifier"], "com.example.shop");
        assert_eq!(report["binary_images"].as_array().unwrap().len(), 1);
        assert!(report["user"]["otlp_note"].is_null(), "{report}");
    }
}

#[test]
fn a_cut_text_is_a_report_that_says_so() {
    let text = apple_text();
    let (head, _) = text.split_once("Binary Images:").unwrap();
    let own = json!({"name": "device.crash", "exception.stacktrace": head});
    let report = report(&json!({}), &own, &phone());
    assert!(report["user"]["otlp_note"].as_str().unwrap().contains("no list of images"), "{report}");
    let images = report["binary_images"].as_array().unwrap();
    assert!(images.iter().all(|image| image["uuid"].is_null()), "no image is guessed");
}

#[test]
fn both_layouts_of_metric_kit_are_one_report() {
    let plain = json!({"callStackPerThread": true, "callStacks": [{"threadAttributed": true, "callStackFrames": [
        {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetAddress": 165_304},
        {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetAddress": 165_500}]}]});
    let apple = json!({"callStackPerThread": true, "callStacks": [{"threadAttributed": true, "callStackRootFrames": [
        {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetIntoBinaryTextSegment": 165_304, "address": 0x1_0002_85B8_u64, "sampleCount": 1,
         "subFrames": [{"binaryName": "Shop", "binaryUUID": APP_ID, "offsetIntoBinaryTextSegment": 165_500, "address": 0x1_0002_867C_u64, "sampleCount": 1}]}]}]});
    let name = json!({"eventName": "metrickit.diagnostic.crash", "timeUnixNano": "1795773598000000000"});
    let facts = |key: &str, tree: &Value| {
        json!({key: tree.to_string(), "name": "metrickit.diagnostic.crash", "metrickit.diagnostic.crash.exception.mach_exception.type": 1,
            "metrickit.diagnostic.crash.exception.signal": 11, "metrickit.diagnostic.crash.exception.termination_reason": "Namespace SIGNAL, Code 0xb"})
    };
    for own in [
        facts("exception.stacktrace", &plain),
        facts("exception.stacktrace", &apple),
        facts("metrickit.diagnostic.crash.exception.stacktrace_json", &apple),
    ] {
        let report = report(&name, &own, &phone());
        assert_eq!(report["report"]["monitor_id"], "MetricKit");
        assert_eq!(report["system"]["CFBundleIdentifier"], "com.example.shop");
        assert_eq!(report["system"]["system_version"], "18.1");
        assert_eq!(report["crash"]["error"]["mach"]["exception_name"], "EXC_BAD_ACCESS");
        let frames = report["crash"]["threads"][0]["backtrace"]["contents"].as_array().unwrap();
        assert_eq!(frames.len(), 2);
        let offset = |at: usize| {
            frames[at]["instruction_addr"].as_f64().unwrap() - frames[at]["object_addr"].as_f64().unwrap()
        };
        assert_eq!((offset(0), offset(1)), (165_304.0, 165_500.0));
        assert!(report["user"]["otlp_note"].as_str().unwrap().contains("the run that delivered it"));
    }
    let twice = [
        report(&name, &facts("exception.stacktrace", &plain), &phone()),
        report(&name, &facts("exception.stacktrace", &plain), &phone()),
    ];
    assert_eq!(twice[0]["report"]["id"], twice[1]["report"]["id"], "the same record twice is one report");
}

#[test]
fn equal_crashes_of_two_devices_without_ids_are_two_reports() {
    let tree = json!({"callStackPerThread": true, "callStacks": [{"threadAttributed": true, "callStackRootFrames": [
        {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetIntoBinaryTextSegment": 165_304, "address": 0x1_0002_85B8_u64}]}]});
    let diagnostic = json!({"callStackTree": tree, "diagnosticMetaData": {"exceptionType": 1, "signal": 11}});
    let threads = json!([{"stackFrames": [{"instructionPointer": 4_295_000_064_u64}]}]);
    let (log, span) = (
        json!({"timeUnixNano": "1795773598000000000"}),
        json!({"name": "SIGABRT", "startTimeUnixNano": "1795773598000000000"}),
    );
    for (members, own) in [
        (&log, json!({"name": "metrickit.diagnostic.crash", "exception.stacktrace": tree.to_string()})),
        (&log, json!({"emb.type": "sys.ios.crash", "emb.payload": tree.to_string()})),
        (&log, json!({"emb.type": "sys.ios.crash", "emb.payload": diagnostic.to_string()})),
        (&span, json!({"component": "crash", "exception.threads": threads.to_string()})),
    ] {
        let id = |member: &str, value: &Value, resource: &Value| {
            let mut members = members.clone();
            members[member] = value.clone();
            report(&members, &own, resource)["report"]["id"].as_str().unwrap().to_owned()
        };
        let device = |name: &str| json!({"service.name": "com.example.shop", "host.name": name});
        let first = id("flags", &json!(1), &device("a"));
        assert_eq!(first, id("flags", &json!(1), &device("a")), "the same record twice is one report: {own}");
        assert_ne!(first, id("flags", &json!(1), &device("b")), "{own}");
        assert_ne!(first, id("observedTimeUnixNano", &json!("1795773599000000000"), &device("a")), "{own}");
    }
}

#[test]
fn a_hang_is_a_set_of_frames() {
    let plain = json!({"callStackPerThread": false, "callStacks": [{"callStackFrames": [
        {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetAddress": 165_304}, {"binaryName": "Shop", "binaryUUID": APP_ID, "offsetAddress": 9}]}]});
    let own = json!({"name": "metrickit.diagnostic.hang", "exception.stacktrace": plain.to_string(), "metrickit.diagnostic.hang.hang_duration": 3});
    let report = report(&json!({"timeUnixNano": "1795773598000000000"}), &own, &phone());
    let roots = &report["hangDiagnostics"][0]["callStackTree"]["callStacks"][0]["callStackRootFrames"];
    assert_eq!(roots.as_array().unwrap().len(), 2);
    assert_eq!(report["hangDiagnostics"][0]["diagnosticMetaData"]["hangDuration"], "3 sec");
}

#[test]
fn a_span_of_splunk_is_a_report_with_threads_and_images() {
    let threads = json!([{"threadNumber": 0, "crashed": true, "stackFrames": [
        {"instructionPointer": "0x100004010", "imageName": "Shop", "baseAddress": "0x100000000", "offset": "16400"}]}]);
    let images = json!([{"baseAddress": 4_294_967_296_u64, "imageSize": "65536", "imagePath": "/var/Shop.app/Shop", "imageUUID": APP_ID}]);
    let own = json!({"component": "crash", "exception.type": "SIGABRT", "exception.threads": threads.to_string(),
        "exception.images": images.to_string(), "crash.app.version": "2.4.0", "session.id": "s-1"});
    let span = json!({"name": "SIGABRT", "startTimeUnixNano": "1795773598000000000", "events": [{"timeUnixNano": "1795773500000000000"}]});
    let report = report(&span, &own, &json!({"service.name": "com.example.shop"}));
    assert_eq!(
        report["crash"]["threads"][0]["backtrace"]["contents"][0]["instruction_addr"],
        0x1_0000_4010_u64
    );
    assert_eq!(report["binary_images"][0]["uuid"], APP_ID);
    assert_eq!(report["crash"]["error"]["signal"]["name"], "SIGABRT");
    assert_eq!(report["system"]["CFBundleShortVersionString"], "2.4.0");
    assert_eq!(report["report"]["timestamp"], "2026-11-27T09:58:20Z");
}

#[test]
fn frames_of_all_stacks_together_are_bounded() {
    let frames = vec![json!({}); 400];
    let stacks = vec![json!({"callStackFrames": frames}); 100];
    let tree = json!({"callStackPerThread": false, "callStacks": stacks}).to_string();
    let own = json!({"name": "metrickit.diagnostic.hang", "exception.stacktrace": tree});
    let hang = report(&json!({"timeUnixNano": "1795773598000000000"}), &own, &phone());
    let stacks = hang["hangDiagnostics"][0]["callStackTree"]["callStacks"].as_array().unwrap();
    let count = |frames: &Value| frames.as_array().map_or(0, Vec::len);
    assert_eq!(stacks.iter().map(|stack| count(&stack["callStackRootFrames"])).sum::<usize>(), 16_384);

    let threads = vec![json!({"stackFrames": frames}); 100];
    let own = json!({"component": "crash", "exception.type": "SIGABRT", "exception.threads": json!(threads).to_string()});
    let span = json!({"name": "SIGABRT", "startTimeUnixNano": "1795773598000000000"});
    let crash = report(&span, &own, &json!({"service.name": "com.example.shop"}));
    let threads = crash["crash"]["threads"].as_array().unwrap();
    assert_eq!(threads.iter().map(|thread| count(&thread["backtrace"]["contents"])).sum::<usize>(), 16_384);
}

#[test]
fn ordinary_records_are_no_crash_and_other_crashes_are_named() {
    for (members, own) in [
        (json!({"severityNumber": 21}), json!({"exception.stacktrace": "java.lang.Error\n\tat a.b"})),
        (json!({"severityNumber": 9}), json!({"exception.stacktrace": apple_text()})),
        (json!({"eventName": "metrickit.diagnostic.cpu_exception"}), json!({})),
        (json!({"eventName": "metrickit.diagnostic.crash"}), json!({"name": "x"})),
        (json!({"name": "GET /", "startTimeUnixNano": 1}), json!({"component": "http"})),
    ] {
        assert_eq!(find(&members, &own, &phone()), FoundCrash::NoCrash, "{members} {own}");
    }
    for (members, own) in [
        (json!({"eventName": "app.crash"}), json!({"exception.type": "SIGSEGV"})),
        (json!({"eventName": "app.crash"}), json!({"exception.stacktrace": "java.lang.Error\n\tat a.b"})),
        (
            json!({"eventName": "metrickit.diagnostic.crash"}),
            json!({"exception.stacktrace": "{\"callStacks\":[{"}),
        ),
        (json!({}), json!({"exception.threads": "[{", "component": "crash"})),
    ] {
        assert!(matches!(find(&members, &own, &phone()), FoundCrash::Unreadable(_)), "{members} {own}");
    }
}
