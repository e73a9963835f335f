//! Diagnostic reports in other styles and forms, in other objects, and documents that are none.

use crate::diagnostic_reports::{LANTERN, SWIFT, bytes, crash, hang, refusal, tree};
use crate::{enriched, readers, report, stripped};
use serde_json::{Value, json};
use unslide_report::{ReadError, ReadLimits, Report};

/// Writes the names of an object in snake case.
fn snake_case(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(snake_case).collect(),
        Value::Object(members) => {
            let name = |name: &String| {
                let name = name.replace("UUID", "Uuid").replace("binaryUuid", "binary_uuid");
                name.chars().fold(String::new(), |mut out, letter| {
                    if letter.is_ascii_uppercase() {
                        out.push('_');
                    }
                    out.push(letter.to_ascii_lowercase());
                    out
                })
            };
            members.iter().map(|(key, value)| (name(key), snake_case(value))).collect()
        }
        value => value.clone(),
    }
}

/// Traps 1 to 3.
#[test]
fn the_style_of_the_json_changes_neither_the_report_nor_its_id() {
    let expected = report(&bytes(&crash()));
    let mut styles = vec![
        serde_json::to_vec_pretty(&crash()).unwrap(),
        format!("\u{FEFF} {}\n", crash()).into_bytes(),
        crash().to_string().replace("iPhone OS", "iPhone\\u0020OS").into_bytes(),
        bytes(&snake_case(&crash())),
        crash().to_string().replace(LANTERN, &LANTERN.replace('-', "")).into_bytes(),
        crash().to_string().replace(SWIFT, &SWIFT.to_lowercase()).into_bytes(),
    ];
    let mut without_version = crash();
    without_version.as_object_mut().unwrap().remove("version");
    styles.push(bytes(&without_version));
    // The diagnostic is the first member, and the environment the last one.
    let mut parts = crash();
    let diagnostic = parts["crashDiagnostic"].take();
    styles.push(
        format!(
            r#"{{"crashDiagnostic":{diagnostic},"timeRange":{},"environment":{}}}"#,
            parts["timeRange"], parts["environment"]
        )
        .into_bytes(),
    );
    for style in styles {
        assert_eq!(report(&style), expected, "{}", String::from_utf8_lossy(&style));
    }
}

#[test]
fn forms_of_other_encoders_are_read_and_named() {
    let expected = report(&bytes(&crash()));
    let diagnostic = crash()["crashDiagnostic"].clone();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = crash();
        change(&mut changed);
        changed
    };
    let moved = |result: Value| {
        with(&|report: &mut Value| {
            report.as_object_mut().unwrap().remove("crashDiagnostic");
            report["result"] = result.clone();
        })
    };
    for (form, named) in [
        (moved(json!({"crashDiagnostic": diagnostic})), "the place of the diagnostic"),
        (moved(json!({"crash": {"_0": diagnostic}})), "the place of the diagnostic"),
        (moved(json!({"crash": diagnostic})), "the place of the diagnostic"),
        (
            with(&|report| {
                report["crash"] = report["crashDiagnostic"].take();
                report.as_object_mut().unwrap().remove("crashDiagnostic");
            }),
            "the place of the diagnostic",
        ),
        (
            with(&|report| {
                tree(report)["binaryInfo"] =
                    json!([LANTERN, {"name": "Lantern"}, SWIFT, "libswiftCore.dylib"]);
            }),
            "binaryInfo",
        ),
        (
            with(&|report| {
                tree(report)["binaryInfo"] =
                    json!({LANTERN: "Lantern", SWIFT: {"uuid": SWIFT, "name": "libswiftCore.dylib"}});
            }),
            "binaryInfo",
        ),
        (
            with(&|report| {
                let threads = tree(report)["callStackThreads"].take();
                tree(report).as_object_mut().unwrap().remove("callStackThreads");
                tree(report)["callStacks"] = threads;
            }),
            "the names of threads and frames",
        ),
        (
            with(&|report| {
                let threads = tree(report)["callStackThreads"].take();
                tree(report).as_object_mut().unwrap().remove("callStackThreads");
                tree(report)["threads"] = threads;
            }),
            "the names of threads and frames",
        ),
        (
            with(&|report| {
                let thread = &mut tree(report)["callStackThreads"][0];
                thread["callStackRootFrames"] = thread["rootFrames"].take();
                thread.as_object_mut().unwrap().remove("rootFrames");
            }),
            "the names of threads and frames",
        ),
        (
            with(&|report| {
                tree(report)["callStackThreads"][0]["rootFrames"][0]["binaryName"] =
                    json!("libswiftCore.dylib");
            }),
            "names in frames",
        ),
        (with(&|report| report["timeRange"] = json!({"start": 799_113_600.25, "duration": 0})), "timeRange"),
        (with(&|report| report["timeRange"]["end"] = json!("2026-04-29T00:00:00.25Z")), "dates"),
        (
            with(&|report| {
                report["environment"]["states"][0]["stableMetadata"]["zoom"] = json!({"integer": {"_0": 7}});
            }),
            "states",
        ),
        (
            with(&|report| {
                report["environment"]["states"][0]["duration"] = json!({"value": 12.5, "unit": {"symbol": "s", "converter": {"coefficient": 1, "constant": 0}}});
            }),
            "measurements",
        ),
        (
            with(&|report| {
                report["crashDiagnostic"]["terminationReason"] =
                    json!({"rawValue": "Namespace SIGNAL, Code 0x5"});
            }),
            "rawValue",
        ),
    ] {
        let mut found = report(&bytes(&form));
        assert_eq!(found["user"]["notApplesForm"], named, "{form}");
        found["user"].as_object_mut().unwrap().remove("notApplesForm");
        found["report"]["id"] = expected["report"]["id"].clone();
        assert_eq!(found, expected, "{form}");
    }
    let by_domain = with(&|report| {
        report["environment"]["states"] =
            json!({"org.example.screen": report["environment"]["states"].take()});
    });
    assert_eq!(report(&bytes(&by_domain)), expected, "Apple's encoder has this option");
}

#[test]
fn measured_values_of_other_encoders_are_read() {
    let expected = report(&bytes(&hang()));
    for (value, is_text) in
        [(json!(2_750), false), (json!("2750 ms"), true), (json!({"value": 2.75, "unit": "s"}), false)]
    {
        let mut other = hang();
        other["hangDiagnostic"]["hangDuration"] = value;
        let log = bytes(&other);
        let readers = readers();
        let opened = readers.open(&log, &ReadLimits::default()).unwrap();
        let read = Report::read_event(opened.json(), &ReadLimits::default()).unwrap();
        assert_eq!(read.duration_millis(), Some(2_750), "{other}");
        let found = report(&log);
        let is_marked = found["user"]["notApplesForm"] == "measurements";
        assert_eq!(is_marked, is_text || other["hangDiagnostic"]["hangDuration"].is_number(), "{other}");
        assert_eq!(found["user"]["regionFormat"], expected["user"]["regionFormat"]);
    }
    // An unknown unit stays as it is, and nothing is measured.
    let mut other = hang();
    other["hangDiagnostic"]["hangDuration"] = json!({"value": 3, "unit": "fortnights"});
    assert!(report(&bytes(&other)).to_string().contains("3 fortnights"));
}

#[test]
fn documents_with_several_reports_are_split() {
    let old = crate::metric_kit::payload();
    let mut both = crash();
    both["hangDiagnostic"] = hang()["hangDiagnostic"].clone();
    for (document, count) in [
        (json!({"app": "lantern", "metricKit": [crash(), hang(), old]}), 3),
        (both, 2),
        (json!({"batch": {"reports": [crash().to_string(), hang()]}}), 2),
    ] {
        let document = bytes(&document);
        let error = readers().translate(&document, &ReadLimits::default()).unwrap_err();
        assert!(matches!(error, ReadError::Diagnostics { .. }), "{error}");
        let parts = readers().split_document(&document, &ReadLimits::default()).unwrap();
        assert_eq!(parts.len(), count);
        for part in parts {
            assert!(readers().split_document(&part, &ReadLimits::default()).is_none());
            let readers = readers();
            let opened = readers.open(&part, &ReadLimits::default()).unwrap();
            Report::read_event(opened.json(), &ReadLimits::default()).unwrap();
        }
    }
    // Lines and arrays hold documents of any format.
    let lines = format!("{}\n{}\n{old}\n", crash(), hang());
    assert!(readers().has_report_lines(lines.as_bytes(), &ReadLimits::default()));
    let array = bytes(&json!([crash(), hang(), old]));
    assert_eq!(readers().split_record(&array, &ReadLimits::default()).unwrap().len(), 3);
}

#[test]
fn a_json_text_in_a_string_is_answered_beside_the_document() {
    let log = bytes(&json!({"attributes": [{"key": "payload", "value": crash().to_string()}]}));
    let (found, written) = enriched(&log);
    assert_eq!(found.frames.total, 3);
    let answered: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(answered["text"].as_str().unwrap().as_bytes(), log);
    assert_eq!(stripped(&written), log);
}

#[test]
fn what_is_not_read_says_what_it_is_and_where() {
    let metric = json!({"version": "2.0.0", "timeRange": {"begin": 799_113_600, "end": 799_200_000},
        "intervalEntries": [{"duration": {"value": 86_400, "unit": "s"}, "states": [], "values": []}], "stateEntries": []});
    let named = refusal(&metric);
    assert!(named.contains("a MetricReport of MetricKit") && named.contains("/v1/metrics"), "{named}");
    for (path, value, expected) in [
        ("/crashDiagnostic", json!(7), "`crashDiagnostic` is a number, not an object"),
        ("/crashDiagnostic/callStackTree", json!("x"), "`crashDiagnostic` has no object `callStackTree`"),
        (
            "/crashDiagnostic/callStackTree/callStackThreads",
            json!({}),
            "`callStackTree.callStackThreads` is an object, not a list",
        ),
        (
            "/crashDiagnostic/callStackTree/callStackThreads/1",
            json!(true),
            "`callStackTree.callStackThreads[1]` is a boolean",
        ),
        (
            "/crashDiagnostic/callStackTree/callStackThreads/1/rootFrames",
            json!("x"),
            "callStackThreads[1].rootFrames` is a string",
        ),
        ("/crashDiagnostic/callStackTree/binaryInfo", json!(7), "`callStackTree.binaryInfo` is a number"),
        ("/environment", json!([]), "`environment` is a list"),
        ("/timeRange", json!(true), "`timeRange` has no date"),
    ] {
        let mut odd = crash();
        *odd.pointer_mut(path).unwrap() = value;
        let problem = refusal(&odd);
        assert!(problem.contains(expected), "{path}: {problem}");
    }
    let mut odd = crash();
    odd["crashDiagnostic"]["callStackTree"]["callStackThreads"][0]["rootFrames"][0]["address"] = json!({});
    odd["crashDiagnostic"]["signal"] = json!("five");
    assert_eq!(
        report(&bytes(&odd))["user"]["unread"],
        "address of frame 0 of callStackThreads[0] is an object that is not read; signal is a string, not a number"
    );
}

#[test]
fn other_objects_are_not_read_as_reports_of_metric_kit() {
    for other in [
        r#"{"report":{},"crash":{"error":{"type":"mach"}},"x":"Diagnostic\""}"#,
        r#"{"crash":{"error":{"type":"mach"}},"aDiagnostic":7}"#,
        r#"{"name":"a","crash":{"threads":[]},"callStackTree":7}"#,
        r#"{"version":"1.0.0","callStackTree":{"callStacks":[]},"diagnosticMetaData":{"signal":5}}"#,
    ] {
        let reader = readers().find(other.as_bytes()).map(|reader| reader.name);
        assert_ne!(reader, Some("diagnostic_report"), "{other}");
    }
}
